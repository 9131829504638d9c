/*
 * Foreign pointers: who frees what the heap does not own. send_home.h then does it.
 *
 * A call keeps the function that it went to before, its original, unless that is known to be the
 * wrong one. What decides is who defines the original (struct hf_definer):
 *
 * - libc or the C++ runtime: a block of a known allocator goes to that allocator;
 * - the object that holds the block's owner: the original is the right function;
 * - an object with another known allocator: a block goes to its owner only if that one's pages or
 *   its own answer say so, and the owner is private to its object;
 * - anything else may be a wrapper that adds a header or counts: always the original.
 *
 * An allocator *serves* the process when its object defines free() or operator delete in front of
 * libc's. Its blocks may have passed through a wrapper, so none of its functions is called for
 * them: they go to free() as libhomefree's own namespace sees it, which is what hf_libc()
 * (base/libc_functions.h) has.
 *
 * An object that was opened with RTLD_DEEPBIND uses libc's allocator in a process that another one
 * serves. From then on (hf_foreign_begin_deep()) serving allocators are asked too: theirs go home
 * from libc's free(), and libc's own blocks go to libc from theirs.
 *
 * What a foreign allocator owns is known in two ways: by its pages, because the calls of mmap(2)
 * and its kind of the object that holds it are routed too (pagemap.h says whose a page is), and by
 * its own word, where it has a function that can be asked. Neither guesses.
 */
#ifndef HOMEFREE_FOREIGN_H
#define HOMEFREE_FOREIGN_H

#include "alloc/heap/internal.h"
#include "alloc/owner/hosted.h"
#include "alloc/owner/rtree.h"

/* How a foreign allocator's functions are called; the allocator decides. */
enum hf_foreign_question {
    HF_QUESTION_NONE, /* only its pages are known */
    HF_QUESTION_TRUE, /* bool f(const void *) */
    HF_QUESTION_ONE,  /* int f(const void *): 1 is yes */
    HF_QUESTION_SIZE, /* size_t f(void *, size_t (*)(void *)): with NULL, 0 is no */
    HF_QUESTION_RTREE /* jemalloc's rtree is read */
};
enum hf_free_form {
    HF_FREE_NONE,   /* nothing can be called: the process ends with a line */
    HF_FREE_PLAIN,  /* void f(void *) */
    HF_FREE_FLAGS,  /* void f(void *, int): with 0 */
    HF_FREE_RESIZE, /* void *f(void *, size_t): with 0, where that is known to free */
    HF_FREE_HOSTED  /* a hosted allocator's pages outside the region: its own functions */
};
/* Where a foreign allocator's functions were found. */
enum hf_foreign_found {
    HF_FOUND_NOTHING,
    HF_FOUND_EXPORTED, /* dynamic symbols */
    HF_FOUND_LOCAL,    /* .symtab */
    HF_FOUND_DEBUG     /* a separate debug file, by build id */
};

/* What the process takes from an allocator's object. */
enum hf_foreign_serves {
    HF_SERVES_NOTHING,   /* private: it hands blocks out through functions of its own */
    HF_SERVES_OPERATORS, /* C++'s operators stand in front of the runtime's */
    HF_SERVES_PROCESS    /* free() stands in front of libc's */
};

/* Another allocator in the process. */
struct hf_foreign_allocator {
    const char *name;   /* "mimalloc", … ; static string */
    const char *object; /* path; lives for ever */
    const void *map;    /* the object: its link_map */
    enum hf_foreign_question kind;
    enum hf_free_form form;
    enum hf_foreign_found found;
    enum hf_foreign_serves serves;
    bool shares; /* other allocators live in the same object: pages alone do not tell */
    void *question;
    void *release;
    struct hf_rtree tree;           /* for HF_QUESTION_RTREE */
    const struct hf_hosted *hosted; /* for HF_FREE_HOSTED, instead of all function pointers */
    void *(*realloc)(void *ptr, size_t size); /* may be NULL */
    size_t (*usable_size)(const void *ptr);   /* may be NULL */
};

enum { HF_FOREIGN_MAX = 254 }; /* numbers in pagemap.h are 1 to 254 */

/* A number whose pages can be recorded while it is found out what lives in the object; 0 when all
 * are taken. Lock-free. */
unsigned hf_foreign_reserve(void);
/* Gives a number back that no page ever had. */
void hf_foreign_give_back(unsigned number);
/* Makes a reserved number a foreign allocator; the struct is copied. An object with functions that
 * may be called must never be unloaded. */
void hf_foreign_publish(unsigned number, const struct hf_foreign_allocator *allocator);
/* The foreign allocator of a number, or NULL while there is none. */
const struct hf_foreign_allocator *hf_foreign_at(unsigned number);

/* The foreign allocator that owns a foreign pointer, or NULL. Lock-free. */
const struct hf_foreign_allocator *hf_foreign_of(const void *ptr);

/* Bytes that a foreign allocator has mapped, as far as that is recorded. Where several live in one
 * object, pages are theirs that say so, and the rest of a stretch in which only one does. */
size_t hf_foreign_bytes(unsigned number);

/* Whether a known allocator lives in an object. Lock-free. */
bool hf_foreign_lives_in(const void *map);

/* Who defines a function that slots go to. */
struct hf_definer {
    const void *map; /* its object: a link_map */
    bool runtime;    /* libc or the C++ runtime */
};

/* Where a call with a foreign pointer goes instead of its original; NULL: to the original. The
 * result is for the functions of send_home.h alone. Lock-free, no lookup of objects. */
const struct hf_foreign_allocator *hf_foreign_instead(const void *ptr,
                                                      const struct hf_definer *definer);

/* The same for homefree's own functions, which take every pointer; NULL: to hf_libc(), which is
 * hf_foreign_scope as a foreign allocator. */
const struct hf_foreign_allocator *hf_foreign_instead_of_ours(const void *ptr);
extern const struct hf_foreign_allocator hf_foreign_scope __attribute__((visibility("hidden")));

/* An object uses libc's allocator although another one serves the process: from now on both kinds
 * of blocks are told apart. `libc`: libc's own functions, found in its object; `serving`: the
 * object whose free() hf_libc() has. Any thread; a second call changes nothing. */
void hf_foreign_begin_deep(const struct hf_foreign_allocator *libc, const void *serving);
bool hf_foreign_is_deep(void);

#endif
