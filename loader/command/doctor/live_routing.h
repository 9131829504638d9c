/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What routing has made of a running process: reads the tables of libhomefree in its memory
 * (loader/record/live_state.h).
 *
 * Constraint: the memory is hostile; a program may well plant tables of its own. Magic, version and
 * size are checked, every number is bounded, and addresses are only read from. A table that makes
 * no sense counts as unknown.
 *
 * Owns: a struct hf_live_routing, until hf_live_routing_free(). One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_LIVE_ROUTING_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_LIVE_ROUTING_H

#include "loader/command/doctor/live_facts.h"
#include "loader/command/live/live_object.h"

/* A foreign allocator that routing knows. */
struct hf_live_allocator {
    char name[64];
    size_t object;  /* that holds it */
    size_t number;  /* that its pages have */
    uint64_t bytes; /* that it has mapped */
    bool home;      /* homefree can free its pointers */
};

struct hf_live_routing {
    bool present; /* the process has a libhomefree */
    bool on;      /* it routes */
    bool unknown; /* present, but its tables cannot be read; `why` says why */
    const char *why;
    size_t heap; /* the object that is the heap; SIZE_MAX: none */
    uint64_t reserved;
    uint64_t blocks;  /* address of what describes the heap's books (live_heap.h) */
    uint64_t profile; /* the same of its profile (live_profile.h) */
    uint64_t trim;    /* address of where requests to trim are written (live_trim.h) */
    struct hf_live_allocator *allocators;
    size_t allocators_count;
    struct hf_live_stub {
        uint64_t address, original;
    } * stubs; /* by address */
    size_t stubs_count;
    struct hf_live_run {
        uint64_t start, end; /* pages next to each other */
        size_t number;       /* the allocator's */
    } * runs;                /* by address */
    size_t runs_count;
};

/* Reads the tables. `facts` has an entry for each object. False: out of memory. */
bool hf_live_routing_read(const struct hf_live_process *process,
                          const struct hf_live_objects *objects, const struct hf_live_facts *facts,
                          struct hf_live_routing *out);

/* Whether an address is a stub; `original` receives where it sends what is not the heap's. */
bool hf_live_routing_original(const struct hf_live_routing *routing, uint64_t address,
                              uint64_t *original);

void hf_live_routing_free(struct hf_live_routing *routing);

#endif
