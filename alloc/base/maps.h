/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process's mappings as the kernel reports them, and safe reads of its memory.
 *
 * Owns which pages hf_maps_has() has seen lately. Any thread, at any stage: no allocation, locks or
 * stdio.
 */
#ifndef HOMEFREE_ALLOC_BASE_MAPS_H
#define HOMEFREE_ALLOC_BASE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_mapping {
    uintptr_t start, end;
    bool readable, writable, executable, shared;
    bool anonymous; /* no file behind it, whatever its name */
    uint64_t inode; /* the file's; 0: none */
    char name[64];  /* "[stack]", "[heap]", "[anon:…]" or the start of a path; "" if none */
};

/* The mapping of an address and the mappings that adjoin it. */
struct hf_place {
    struct hf_mapping before; /* ends where `at` starts; end 0: none */
    struct hf_mapping at;     /* holds the address */
    struct hf_mapping after;  /* starts where `at` ends; end 0: none */
};

/* Visits the mappings in /proc/self/maps, in ascending order, until visit returns false. Returns 0,
 * or a negative errno if the file cannot be read. As with hf_maps_find(), mappings may be missed.
 */
int hf_maps_each(bool (*visit)(const struct hf_mapping *mapping, void *context), void *context);

/* Looks an address up in /proc/self/maps. Returns 1 if it is mapped, 0 if not, or a negative errno
 * if the file cannot be read. The file is read in pieces, so mappings that other threads change
 * meanwhile may be missed. Preserves errno. */
int hf_maps_find(const void *address, struct hf_place *out);

/* Copies `size` bytes of this process's memory; false if they are not readable. Never faults. */
bool hf_maps_read(const void *address, void *buffer, size_t size);

/* Whether bytes can be read, as far as the kernel said when a page of theirs was last asked for:
 * for pointers that may be wrong, into memory that does not come and go. */
bool hf_maps_has(const void *address, size_t size);

/* Copies as many of `size` bytes as the address's mapping has; the others stay. Never faults. */
void hf_maps_copy(const void *address, void *buffer, size_t size);

#endif
