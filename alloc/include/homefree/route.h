/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/route.h - routing: deallocation calls of loaded objects ask for the owner first.
 *
 * Routing replaces the functions in the slots (GOT entries and other relocated words) through which
 * objects call free, realloc, reallocarray, malloc_usable_size and the other deallocation
 * functions. The replacements check whether the heap owns the pointer, and otherwise call the
 * function that the slot held before. libhomefree routes by itself when it is loaded and after
 * every dlopen() that it observes.
 */
#ifndef HOMEFREE_ROUTE_H
#define HOMEFREE_ROUTE_H

#include <homefree/base.h>

#ifdef __cplusplus
/* A function may share its struct's name, as stat(2) does. */
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

/*
 * Routes the objects that were loaded since the last pass. Needed only after loading objects by
 * means that libhomefree cannot observe; takes a few hundred nanoseconds if there are none.
 *
 * Must not be called from an IFUNC resolver.
 *
 * Result: the number of slots changed, or a negative errno.
 * Errors:
 *   -EPERM    HOMEFREE_CONF says route:off
 *   -ENOTSUP  this instance of libhomefree forwards to one that cannot route
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_route(void);

/* What became of a slot or an object. */
enum hf_route_state {
    HF_ROUTE_CHANGED = 0,     /* the slot asks for the owner first */
    HF_ROUTE_REFUSED = 1,     /* it could not or must not be changed; `reason` says why */
    HF_ROUTE_OUT_OF_REACH = 2 /* there is no slot to change */
};

/* One slot or object. Caller-sized. */
struct hf_route_entry {
    size_t size;
    enum hf_route_state state;
    const char *object;   /* path of the shared object or program */
    const char *function; /* "free", …; NULL for the whole object */
    const void *slot;   /* address of the slot; NULL if there is none. In the symbol tables of libc
                           and libstdc++, address of the entry, which holds an offset */
    const char *reason; /* one line of text; NULL for changed slots */
    int error;          /* negative errno if the system refused; otherwise 0 */
};

/* The totals. Caller-sized. */
struct hf_route_report {
    size_t size;
    uint64_t objects;      /* shared objects and the program, in every namespace */
    uint64_t changed;      /* slots that ask for the owner first */
    uint64_t refused;      /* slots that were left as they were */
    uint64_t out_of_reach; /* objects, or slots, that routing cannot reach */
    uint64_t passes;       /* times that routing looked for new objects */
    uint64_t nanoseconds;  /* time spent in all passes; of later ones by a clock of milliseconds */
};

/* Receives one entry. The entry and its strings are valid during the call only. */
typedef void hf_route_visitor(const struct hf_route_entry *entry, void *context);

/*
 * Reports what routing reached, by inspecting every loaded object again.
 *
 * Parameters:
 *   out      out: the totals; may be NULL
 *   visit    in: called for each entry, must not load or unload objects; may be NULL
 *   context  in: passed to visit
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   the size of out is too small
 *   -ENOTSUP  this instance of libhomefree forwards to one that cannot report
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock, and holds it while visit runs.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_route_report(struct hf_route_report *out, hf_route_visitor *visit, void *context);

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
