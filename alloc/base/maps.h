/*
 * The process's mappings as the kernel tells them, read without allocation, locks or stdio.
 */
#ifndef HOMEFREE_MAPS_H
#define HOMEFREE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_mapping {
    uintptr_t start, end;
    bool readable, writable, executable, shared;
    bool anonymous; /* no file, whatever its name */
    char name[64];  /* "[stack]", "[heap]", "[anon:…]", the beginning of a path; "" if none */
};

/* What is needed to say whose an address is. */
struct hf_place {
    struct hf_mapping before; /* the mapping that ends where `at` begins; end 0: there is none */
    struct hf_mapping at;     /* holds the address */
    struct hf_mapping after;  /* begins where `at` ends; end 0: there is none */
};

/* Looks an address up in /proc/self/maps. Result: 1 when it is mapped, 0 when it is not, or a
 * negative errno when that file cannot be read. Reads in pieces: mappings that other threads change
 * meanwhile may be missed. Keeps errno. */
int hf_maps_find(const void *address, struct hf_place *out);

/* Copies `size` bytes of this process's memory; false where they cannot be read. Never faults. */
bool hf_maps_read(const void *address, void *buffer, size_t size);

#endif
