/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Foreign pointers: which allocator frees a block that the heap does not own. dispatch.h then
 * calls it. foreign.c owns the table; reading it takes no lock.
 *
 * A routed call keeps its original, the function that it went to before, unless that function is
 * known to be wrong. The object that defines the original (struct hf_definer) decides:
 *
 * - libc or the C++ runtime: a block of a known allocator goes to that allocator;
 * - the object that holds the block's owner: the original is right;
 * - an object that holds another known allocator: the block goes to its owner if that is certain:
 * from the owner's pages or its own answer, if the owner is private to its object; from libc's
 * chunk headers, if the other allocator has disowned the block; and to the process's free() if the
 * owner serves the process;
 * - any other object: always the original, which may be a wrapper that adds a header or counts.
 *
 * An allocator *serves* the process if its object defines free() or operator delete in front of
 * libc's. Its blocks may have passed through a wrapper, so none of its functions is called for
 * them: they go to the free() that libhomefree's own namespace binds, in hf_libc()
 * (base/libc_functions.h).
 *
 * An object opened with RTLD_DEEPBIND uses libc's allocator even if another allocator serves the
 * process. From then on, in deep mode (hf_foreign_begin_deep()), serving allocators are asked too:
 * their blocks go home from libc's free(), and libc's blocks go home from a serving allocator's
 * free().
 *
 * Ownership is known in two ways: by pages, because the mapping calls of the allocator's object are
 * routed too (foreign_pages.h records each page's owner), and by the allocator's own answer, if it
 * has a function that can be asked.
 */
#ifndef HOMEFREE_ALLOC_OWNER_FOREIGN_H
#define HOMEFREE_ALLOC_OWNER_FOREIGN_H

#include "alloc/base/live_tables.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/hosted.h"
#include "alloc/owner/rtree.h"
#include "include/allocator_registry.h"

/* How to ask an allocator whether it owns a pointer, and how to free its blocks. */
enum hf_foreign_question {
    HF_QUESTION_NONE,   /* cannot be asked; only its pages are known */
    HF_QUESTION_TRUE,   /* bool f(const void *) */
    HF_QUESTION_ONE,    /* int f(const void *); 1 is yes */
    HF_QUESTION_ANSWER, /* int f(const void *); 0 is no: a member of the registry */
    HF_QUESTION_RTREE   /* read jemalloc's rtree */
};
enum hf_free_form {
    HF_FREE_NONE,   /* no function to call: the process ends with a line */
    HF_FREE_PLAIN,  /* void f(void *) */
    HF_FREE_FLAGS,  /* void f(void *, int), called with 0 */
    HF_FREE_RESIZE, /* void *f(void *, size_t), called with 0 where that is known to free */
    HF_FREE_HOSTED  /* pages of a hosted allocator outside the region: its own functions */
};
/* How to ask it to give unused memory back to the system. */
enum hf_trim_form {
    HF_TRIM_NONE,    /* no function is known */
    HF_TRIM_ALL,     /* void f(void) */
    HF_TRIM_FORCE,   /* void f(bool), called with true */
    HF_TRIM_COMMAND, /* int f(int, void *), called with 0 and NULL */
    HF_TRIM_MALLCTL  /* jemalloc's mallctl() */
};
/* What the process gets from an allocator's object. */
enum hf_foreign_serves {
    HF_SERVES_NOTHING,   /* private: only functions of its own hand blocks out */
    HF_SERVES_OPERATORS, /* its C++ operators precede the runtime's */
    HF_SERVES_PROCESS    /* its free() precedes libc's */
};

/* Another allocator in the process. */
struct hf_foreign_allocator {
    const char *name;   /* "mimalloc", … ; static string */
    const char *object; /* path; never freed */
    const void *map;    /* the object's link_map */
    enum hf_foreign_question kind;
    enum hf_free_form form;
    enum hf_foreign_serves serves;
    bool displaced;  /* it would serve the process if this library's free() did not precede it */
    bool shares;     /* the object holds other allocators too: pages alone do not decide */
    bool maps_all;   /* other objects call its mmap(): nor do its pages if it disowns the block */
    bool only_pages; /* it is asked about its pages alone */
    bool denies;     /* its "no" may be said of a block of its own */
    void *question;
    void *release;
    /* By enum hf_delete_form: void f(void *, size_t alignment). Of an allocator that tells its
     * operators' blocks from malloc's; otherwise NULL. */
    void *deletes[HF_DELETE_FORMS];
    struct hf_rtree tree;           /* for HF_QUESTION_RTREE */
    const struct hf_hosted *hosted; /* for HF_FREE_HOSTED, instead of the function pointers */
    void *(*realloc)(void *ptr, size_t size); /* may be NULL */
    size_t (*usable_size)(const void *ptr);   /* may be NULL */
    int (*ready)(void);                       /* whether this thread may call it; NULL: any may */
    enum hf_trim_form trim_form;
    void *trim;
    const char *trim_name;                                        /* static string */
    int (*statistics)(struct allocator_registry_statistics *out); /* may be NULL */
};

enum { HF_FOREIGN_MAX = 254 }; /* foreign_pages.h stores numbers 1 to 254 */

/* Reserves a number, so that pages can be recorded while the allocator in an object is being
 * identified; 0 if all are taken. Lock-free. */
unsigned hf_foreign_reserve(void);
/* Returns a number that no page ever had. */
void hf_foreign_give_back(unsigned number);
/* Turns a reserved number into a foreign allocator; copies the struct. An object whose functions
 * may be called must never be unloaded. */
void hf_foreign_publish(unsigned number, const struct hf_foreign_allocator *allocator);
/* The foreign allocator with that number, or NULL if none is published. */
const struct hf_foreign_allocator *hf_foreign_at(unsigned number);

/* For readers outside the process. */
extern const struct hf_live_foreign hf_foreign_live;

/* The foreign allocator that owns a foreign pointer, or NULL. Lock-free. */
const struct hf_foreign_allocator *hf_foreign_of(const void *ptr);

/* The hosted allocator that has an address on pages outside the region, or NULL. Lock-free. */
const struct hf_hosted *hf_foreign_hosted_of(const void *ptr);

/* Bytes that a foreign allocator has mapped, as far as recorded. If several allocators share an
 * object, each page counts for the one that claims it, and a page that none claims, such as one
 * inside of a large block, for the one that claims the nearest page before it in its range, or else
 * the first one. */
size_t hf_foreign_bytes(unsigned number);

/* Counts a block that was leaked because its allocator has no function for it
 * (HOMEFREE_CONF=unknown_free:leak). Result: how many were before. */
uint64_t hf_foreign_leak(const struct hf_foreign_allocator *allocator);
uint64_t hf_foreign_leaked(unsigned number);

/* The first known allocator in an object; NULL: there is none. Lock-free. */
const struct hf_foreign_allocator *hf_foreign_in(const void *map);

/* Whether an object holds a known allocator. Lock-free. */
static inline bool hf_foreign_lives_in(const void *map)
{
    return hf_foreign_in(map) != NULL;
}

/* Whether a pointer may be a foreign allocator's, for a call whose original is libc's: false, and
 * quick, where its page is nobody's and nobody need be asked. Lock-free. */
extern bool hf_foreign_asks
    __attribute__((visibility("hidden"))); /* atomic; stays once it is set */
static inline bool hf_foreign_may_own(const void *ptr)
{
    return __atomic_load_n(&hf_foreign_asks, __ATOMIC_RELAXED) ||
           hf_foreign_pages_id(ptr) != HF_FOREIGN_PAGES_UNKNOWN;
}

/* The object that defines a function which GOT slots point to. */
struct hf_definer {
    const void *map; /* the object's link_map */
    bool runtime;    /* libc or the C++ runtime */
};

/* The block that the calling thread has handed to its owner, a member or pymalloc, whose function
 * it is in; or NULL. The owner may hand it on to a function of another object, as mi_free: that is
 * called, and not the owner again. */
extern __thread const void *hf_foreign_handed_on
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The allocator to call instead of the original for a foreign pointer; NULL: call the original.
 * Pass the result only to the functions of dispatch.h. Lock-free; looks up no objects. */
const struct hf_foreign_allocator *hf_foreign_instead(const void *ptr,
                                                      const struct hf_definer *definer);

/* The same for homefree's own functions, which accept any pointer; NULL: call hf_libc().
 * hf_foreign_scope is hf_libc() as a foreign allocator. */
const struct hf_foreign_allocator *hf_foreign_instead_of_ours(const void *ptr);
extern const struct hf_foreign_allocator hf_foreign_scope __attribute__((visibility("hidden")));

/* Begins deep mode: an object uses libc's allocator although another one serves the process, so
 * from now on their blocks are told apart. `libc`: libc's own functions, found in its object;
 * `serving`: the object that defines hf_libc()'s free. Any thread; a second call changes
 * nothing. */
void hf_foreign_begin_deep(const struct hf_foreign_allocator *libc, const void *serving);
bool hf_foreign_is_deep(void);

#endif
