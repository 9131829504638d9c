/*
 * The functions that routing knows by name, and their numbers. The lists are in shim/functions.def;
 * the loader's own functions stand here. Reads constants alone, after hf_routed_start().
 */
#ifndef HOMEFREE_ROUTED_H
#define HOMEFREE_ROUTED_H

#include "loader/interpose/got_slots.h"

#include <stdbool.h>

/* Originals that one function can have in a process: libc's, a preloaded allocator's, that of each
 * namespace, another tool's hook. */
#define HF_STUBS_PER_FUNCTION 8
/* DO(index, ...) for each of them: what a stub knows is compiled into it. */
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
#define HF_DELETE(symbol, parameters, arguments, call)         HF_ROUTED_##symbol,
#include "shim/functions.def"
    HF_ROUTED_dlopen,
    HF_ROUTED_dlmopen,
    HF_ROUTED_dlsym,
    HF_ROUTED_dlvsym,
#define HF_MAPS(name) HF_ROUTED_##name,
#include "shim/functions.def"
    HF_ROUTED_madvise, /* never routed: who imports it may be an allocator (mmap_tracking.h) */
    HF_ROUTED_COUNT
};

/* The function's name as the dynamic linker knows it. */
const char *hf_routed_name(enum hf_routed function);
/* The function of that name, or -1. Costs a few comparisons for names that are none. */
int hf_routed_by_name(const char *name);
/* The two as a set of names. */
extern const struct hf_function_names hf_routed_names;
/* operator delete in any form. */
bool hf_routed_is_operator(enum hf_routed function);
/* dlopen and its kind: routed to follow what is loaded later. */
bool hf_routed_is_loader(enum hf_routed function);
/* mmap and its kind: routed to see who maps what. */
bool hf_routed_is_mapping(enum hf_routed function);

/* Prepares hf_routed_by_name(). Called once, by the library's constructor (init.c). */
void hf_routed_start(void);

#endif
