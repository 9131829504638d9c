/*
 * Foreign pointers: who frees what the heap does not own.
 *
 * A pointer that a neighbour owns goes to that neighbour; every other goes to libc, by which is
 * meant malloc and free as libhomefree's own namespace sees them: a preloaded allocator's, if there
 * is one. libhomefree's own slots are never routed, so this never comes back here.
 *
 * What a neighbour owns is known in two ways: by its pages, because the calls of mmap(2) and its
 * kind of the object that holds it are routed too (ranges.h says whose a page is), and by its own
 * word, where it has a function that can be asked. Neither guesses.
 */
#ifndef HOMEFREE_FOREIGN_H
#define HOMEFREE_FOREIGN_H

#include "internal.h"
#include "page_tree.h"
#include "tenant.h"

struct hf_libc {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void (*free)(void *ptr);
    size_t (*usable_size)(void *ptr);
};
const struct hf_libc *hf_libc(void);

/* How a neighbour's functions are called; the allocator decides. */
enum hf_neighbour_question {
    HF_QUESTION_NONE, /* only its pages are known */
    HF_QUESTION_TRUE, /* bool f(const void *) */
    HF_QUESTION_ONE,  /* int f(const void *): 1 is yes */
    HF_QUESTION_SIZE, /* size_t f(void *, size_t (*)(void *)): with NULL, 0 is no */
    HF_QUESTION_TREE  /* jemalloc's page tree is read */
};
enum hf_neighbour_release {
    HF_RELEASE_NONE,   /* nothing can be called: the process ends with a line */
    HF_RELEASE_PLAIN,  /* void f(void *) */
    HF_RELEASE_FLAGS,  /* void f(void *, int): with 0 */
    HF_RELEASE_RESIZE, /* void *f(void *, size_t): with 0, where that is known to free */
    HF_RELEASE_TENANT  /* a tenant's pages outside the region: its own functions */
};
/* Where a neighbour's functions were found. */
enum hf_neighbour_found {
    HF_FOUND_NOTHING,
    HF_FOUND_EXPORTED, /* dynamic symbols */
    HF_FOUND_LOCAL,    /* .symtab */
    HF_FOUND_DEBUG     /* a separate debug file, by build id */
};

/* Another allocator in the process. */
struct hf_neighbour {
    const char *allocator; /* "mimalloc", … ; static string */
    const char *object;    /* path; lives as long as the object, which is pinned */
    const void *map;       /* the object: its link_map */
    enum hf_neighbour_question kind;
    enum hf_neighbour_release form;
    enum hf_neighbour_found found;
    bool process; /* its free() is what the whole process calls */
    bool shares;  /* other allocators live in the same object: pages alone do not tell */
    void *question;
    void *release;
    struct hf_page_tree tree;       /* for HF_QUESTION_TREE */
    const struct hf_tenant *tenant; /* for HF_RELEASE_TENANT, instead of all function pointers */
    void *(*realloc)(void *ptr, size_t size); /* may be NULL */
    size_t (*usable_size)(const void *ptr);   /* may be NULL */
};

enum { HF_NEIGHBOURS_MAX = 254 }; /* numbers in ranges.h are 1 to 254 */

/* A number whose pages can be recorded while it is found out what lives in the object; 0 when all
 * are taken. Lock-free. */
unsigned hf_neighbour_reserve(void);
/* Gives a number back that no page ever had. */
void hf_neighbour_give_back(unsigned number);
/* Makes a reserved number a neighbour; the struct is copied. The object must never be unloaded. */
void hf_neighbour_publish(unsigned number, const struct hf_neighbour *neighbour);
/* The neighbour of a number, or NULL while there is none. */
const struct hf_neighbour *hf_neighbour_at(unsigned number);

/* The neighbour that owns a foreign pointer, or NULL. Lock-free. */
const struct hf_neighbour *hf_neighbour_of(const void *ptr);

/* Send a neighbour's block home; `caller` is named where that cannot be done, which ends the
 * process. A block is resized by its owner, or else moved to libc's memory. */
void hf_neighbour_free(const struct hf_neighbour *neighbour, void *ptr, const void *caller);
void *hf_neighbour_realloc(const struct hf_neighbour *neighbour, void *ptr, size_t size,
                           const void *caller);

/* For a foreign pointer, not NULL. */
void *hf_foreign_realloc(void *ptr, size_t size, const void *caller);
size_t hf_foreign_usable_size(const void *ptr);

#endif
