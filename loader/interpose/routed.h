/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names and numbers of the routed functions. The lists are in shim/functions.def; the loader's
 * own functions are added here. Reads only constants after hf_routed_start(): any thread, no lock.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_ROUTED_H
#define HOMEFREE_LOADER_INTERPOSE_ROUTED_H

#include "loader/interpose/got_slots.h"

#include <stdbool.h>

/* The number of originals a function may have in a process: those of libc, of a preloaded
 * allocator, of each namespace, of another tool's hook. */
#define HF_STUBS_PER_FUNCTION 8
/* DO(index, ...) for each original: a stub's index is compiled in. */
#define HF_EACH_ORIGINAL(DO, ...) \
    DO(0, __VA_ARGS__)            \
    DO(1, __VA_ARGS__)            \
    DO(2, __VA_ARGS__)            \
    DO(3, __VA_ARGS__)            \
    DO(4, __VA_ARGS__)            \
    DO(5, __VA_ARGS__)            \
    DO(6, __VA_ARGS__)            \
    DO(7, __VA_ARGS__)

enum hf_routed {
#define HF_RELEASES(name, result, parameters, arguments, call) HF_ROUTED_##name,
#define HF_RESIZES(name, result, parameters, arguments, call)  HF_ROUTED_##name,
#define HF_MEASURES(name, result, parameters, arguments, call) HF_ROUTED_##name,
#define HF_DELETE(symbol, ...)                                 HF_ROUTED_##symbol,
#define HF_SPACE_FREES(name, stream, memory)                   HF_ROUTED_##name,
#define HF_SPACE_GIVES(name, memory, bytes, release)           HF_ROUTED_##name,
#include "shim/functions.def"
    HF_ROUTED_dlopen,
    HF_ROUTED_dlmopen,
    HF_ROUTED_dlsym,
    HF_ROUTED_dlvsym,
#define HF_MAPS(name) HF_ROUTED_##name,
#include "shim/functions.def"
    HF_ROUTED_madvise, /* never routed; importing it suggests an allocator (mmap_tracking.h) */
    HF_ROUTED_COUNT
};

/* Returns the function's symbol name. */
const char *hf_routed_name(enum hf_routed function);
/* Returns the function of that name, or -1. Other names are rejected in a few comparisons. */
int hf_routed_by_name(const char *name);
/* Both as a set of names. */
extern const struct hf_function_names hf_routed_names;
/* Returns whether the function is an operator delete. */
bool hf_routed_is_operator(enum hf_routed function);
/* Returns whether it is a function of CUDA's, which its library may give a version. */
bool hf_routed_is_cudas(enum hf_routed function);
/* Returns whether it is dlopen, dlmopen, dlsym or dlvsym: routed to handle objects loaded later. */
bool hf_routed_is_loader(enum hf_routed function);
/* Returns whether it maps or unmaps memory: routed for mmap tracking. */
bool hf_routed_is_mapping(enum hf_routed function);

/* Prepares hf_routed_by_name(). Called once, by the library's constructor (init.c). */
void hf_routed_start(void);

#endif
