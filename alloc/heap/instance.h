/*
 * One heap a process: which copy of libhomefree it is, and what copies know of each other.
 *
 * A process can hold several copies: a wheel brought one under another name, dlmopen() made a
 * second namespace, two versions meet. The copy that starts first is the heap. Each later copy
 * finds it by the exported record below, in any namespace, and forwards to it: its own region
 * bounds become the heap's, its fast paths never find thread data and so end in its slow paths,
 * which forward. A copy whose record has another HF_INSTANCE_ABI cannot forward; it says so in one
 * line, allocates from libc, and still sends the heap's pointers home.
 *
 * Limit: before glibc 2.35, namespaces other than the first are invisible; a copy there becomes a
 * heap of its own.
 */
#ifndef HOMEFREE_INSTANCE_H
#define HOMEFREE_INSTANCE_H

#include "alloc/heap/internal.h"

/* Moves when a function is removed from, or changes meaning in, struct hf_instance_functions. */
#ifndef HF_INSTANCE_ABI
#    define HF_INSTANCE_ABI 1
#endif

#define HF_INSTANCE_MAGIC "homefree heap\n"

enum hf_instance_state {
    HF_INSTANCE_NEW = 0,    /* not started */
    HF_INSTANCE_HEAP = 1,   /* the heap */
    HF_INSTANCE_FORWARD = 2 /* forwards, to the heap or to libc */
};

/* What copies of one ABI call of each other. Functions are added at the end only. */
struct hf_instance_functions {
    struct hf_heap_functions heap;
    int (*owner_of)(const void *ptr, struct hf_owner *out);
    int (*stats)(struct hf_stats *out);
    int (*route)(void);
    int (*route_report)(struct hf_route_report *out, hf_route_visitor *visit, void *context);
    int (*adopt)(void *handle);
    int (*python_install)(const struct hf_python_options *options, struct hf_python_state *out);
    int (*python_uninstall)(void);
    int (*release_make)(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                        int (*attempt)(void *pointer), const char *name);
    int (*watch_begin)(struct hf_watch **out, size_t room);
    /* Where the heap runs with checks:full, else NULL. */
    void (*check_freed)(const void *ptr, const size_t *alignment, const size_t *size,
                        const void *caller);
};

/*
 * The record. Fields down to `free` keep their place and meaning for ever, whatever the ABI: they
 * are what lets any two versions send each other's pointers home.
 */
struct hf_instance {
    char magic[16];
    uint32_t abi;
    uint32_t state; /* enum hf_instance_state; written last */
    const char *version;
    uintptr_t region_base;
    uint64_t region_size;
    void (*free)(void *ptr);
    void *(*realloc)(void *ptr, size_t size);
    size_t (*usable_size)(const void *ptr);
    const struct hf_instance_functions *functions;
};
HF_API extern struct hf_instance hf_instance_record;

/* NULL in the copy that is the heap; else what to call instead. Started copies only. */
const struct hf_instance_functions *hf_instance_forward(void);

/* Whether this copy has started, from any thread. */
bool hf_instance_started(void);

/* The heap of another ABI, in a copy that cannot forward to it; else NULL. */
const struct hf_instance *hf_instance_incompatible(void);

/* This copy's own record: the exported name may mean another copy's. */
const struct hf_instance *hf_instance_own(void);

/*
 * For start/start.c: what this copy becomes, before hf_instance_publish() says that it has started.
 * The heap offers `functions` to other copies, beside what loader/ offers below; its region must be
 * reserved. A forwarder calls the functions of `heap`, or `instead` where the two cannot be joined.
 */
void hf_instance_become_heap(const struct hf_instance_functions *functions);
void hf_instance_become_forwarder(const struct hf_instance *heap,
                                  const struct hf_instance_functions *instead);
void hf_instance_publish(void);

/* loader/ offers its functions here, from its constructor, before this copy starts. */
void hf_instance_offer_routing(int (*route)(void),
                               int (*report)(struct hf_route_report *, hf_route_visitor *, void *),
                               int (*adopt)(void *handle));
void hf_instance_offer_python(int (*install)(const struct hf_python_options *,
                                             struct hf_python_state *),
                              int (*uninstall)(void));

#endif
