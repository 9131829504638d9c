/*
 * The functions that routed slots point to.
 *
 * Each routed function has a few stubs, one for each allocator that slots went to before: "the
 * original". A stub asks whether the heap owns the pointer, and otherwise jumps to its original;
 * which object called does not matter any more then, and no lookup happens in a call.
 */
#ifndef HOMEFREE_STUBS_H
#define HOMEFREE_STUBS_H

#include "alloc/owner/foreign.h"
#include "loader/interpose/got_slots.h"

#include <stdbool.h>
#include <stddef.h>

/* Originals that one function can have in a process: libc's, a preloaded allocator's, that of each
 * namespace, another tool's hook. */
#define HF_STUBS_PER_FUNCTION 8

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

/* The stub that goes to this original; NULL when HF_STUBS_PER_FUNCTION others are taken. Stubs are
 * never given back. Any thread, also in a signal handler. */
void *hf_stub_for(enum hf_routed function, void *original);
/* Objects were unloaded: takes back the stubs whose original is gone, for another to have. Under
 * the loader's lock. */
void hf_stubs_forget(void);
/* The same as hf_stub_for() for many at once. */
struct hf_stub_wish {
    enum hf_routed function;
    void *original;
    void *stub;                /* out */
    struct hf_definer definer; /* out, of a stub that is new */
};
void hf_stubs_for(struct hf_stub_wish *wishes, size_t count);
/* Whether an address is one of the function's stubs. */
bool hf_stub_is(enum hf_routed function, const void *address);
/* Where a stub goes with what the heap does not own; NULL for an address that is none. */
void *hf_stub_original(enum hf_routed function, const void *address);

/* From now on foreign pointers are offered to foreign allocators (foreign.h) before they go to
 * originals: until then that question costs nothing. Any thread; takes no lock. */
void hf_stubs_ask_foreign(void);

#endif
