/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sites: the places in the process's code that call the malloc family. A block remembers by number
 * who allocated it; the report's file says what the number means.
 *
 * Looking a known site up takes no lock and no system call. A new one is recorded under the
 * records' lock. Any thread, at any stage.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_SITES_H
#define HOMEFREE_ALLOC_DIAGNOSE_SITES_H

#include "alloc/diagnose/report_format.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    HF_SITES_ROOM = 1 << 17,
    /* Numbers of deep sites, which stand for a site and a stack (stacks.h), follow. */
    HF_DEEP_SITES_ROOM = 1 << 14,
    /* And then those that stand for one of these and an interpreter (interpreter_sites.h). */
    HF_INTERPRETER_SITES_FIRST = HF_SITES_ROOM + HF_DEEP_SITES_ROOM,
    HF_INTERPRETER_SITES_ROOM = 1 << 16,
    HF_SITE_NUMBERS = HF_INTERPRETER_SITES_FIRST + HF_INTERPRETER_SITES_ROOM
};

enum {
    HF_SITE_DEEP = 1,   /* a deep site */
    HF_SITE_SAMPLED = 2 /* a guard page, if possible (guarded_samples.h); with HF_SITE_DEEP */
};

struct hf_site {
    uint64_t key;    /* return address << 8 | function; 0: free */
    uint32_t number; /* in the file */
    uint16_t object;
    uint16_t deep; /* HF_SITE_…: what blocks that are allocated here get besides */
};

extern struct hf_site hf_sites[HF_SITES_ROOM] __attribute__((visibility("hidden")));

/* Learns what later needs a system call: the program's path. */
void hf_sites_start(void);

/* Records a site; the result for an unknown one has number 0. */
struct hf_site hf_site_add(uint64_t key);

/* The site of a call. caller: the return address. */
static inline struct hf_site hf_site_of(const void *caller, enum hf_report_function function)
{
    uint64_t key = (uint64_t)(uintptr_t)caller << 8 | (uint64_t)function;
    const struct hf_site *site = &hf_sites[(key * 0x9e3779b97f4a7c15) >> 47 & (HF_SITES_ROOM - 1)];
    if (__builtin_expect(__atomic_load_n(&site->key, __ATOMIC_ACQUIRE) == key, 1))
        return *site;
    return hf_site_add(key);
}

/* By number: what a block's number leads back to. */
struct hf_recorded_site {
    const void *address;
    uint16_t object;
    uint16_t function;
    bool for_python; /* a place in Python's code belongs to it (report_format.h) */
};
extern struct hf_recorded_site hf_recorded_sites[HF_SITE_NUMBERS]
    __attribute__((visibility("hidden")));

/* The object that a recorded site lies in; 0 if the number is unknown. */
static inline uint16_t hf_site_object(uint32_t number)
{
    return number < HF_SITE_NUMBERS ? hf_recorded_sites[number].object : 0;
}

/* The address of a recorded site and its function; NULL if the number is unknown. */
const void *hf_site_address(uint32_t number, enum hf_report_function *function);

/* The offset of a recorded site's address in its object. */
uint64_t hf_site_offset(uint32_t number);

/* The path of the object that a recorded site lies in; "" if it is unknown. */
const char *hf_site_object_path(uint32_t number);

/* Whether a recorded site lies in a module: not in the interpreter, the dynamic linker or this
 * library, whose blocks are theirs to keep. */
bool hf_site_is_module(uint32_t number);

/* The number of a loaded object in the file; 0 if there is no room. Under the records' lock. */
uint16_t hf_site_object_number(const struct link_map *map);

/* Gives a site's later blocks a deep site. Under the records' lock. */
void hf_site_deepen(uint32_t number);

/* Makes those recorded sites deep that an earlier report knows (known_sites.h). */
void hf_sites_deepen_known(void);

/* Number of recorded sites. */
uint32_t hf_sites_count(void);

/* Forgets the addresses in objects that have been unloaded: others may come to lie there. What is
 * recorded stays. Returns whether there were any. */
bool hf_sites_unloaded(void);

#endif
