/* Several instances of libhomefree in one process: what their tests share. Nothing here links one.
 *
 * Copies are loaded in children, because a copy never leaves its process. */
#ifndef HOMEFREE_TESTS_ALLOC_COPIES_H
#define HOMEFREE_TESTS_ALLOC_COPIES_H

#include "death.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct copy {
    void *handle;
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void (*free)(void *);
    void (*free_sized)(void *, size_t);
    void (*free_aligned)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
    size_t (*usable_size)(const void *);
    char *(*strdup)(const char *);
    bool (*owns)(const void *);
    int (*owner_of)(const void *, struct hf_owner *);
    int (*stats)(struct hf_stats *);
    int (*stats_of_others)(hf_other_stats_visitor *, void *);
    int (*route)(void);
    int (*release_new)(struct hf_release **, void *, void (*)(void *), const char *);
    void (*release_drop)(struct hf_release *);
    bool (*release_is)(const void *);
    int (*watch_begin)(struct hf_watch **, size_t);
    int (*watch_report)(struct hf_watch *, struct hf_watch_report *, hf_crossing_visitor *, void *);
    void (*watch_drop)(struct hf_watch *);
    int (*fail_at)(uint64_t, unsigned);
    int (*fail_count)(unsigned, struct hf_fail_counts *);
    int (*fail_end)(unsigned, struct hf_fail_counts *);
    int (*heap_new)(struct hf_heap **);
    void *(*heap_malloc)(struct hf_heap *, size_t);
    int (*heap_drop)(struct hf_heap *);
    int (*trim)(hf_trim_visitor *, void *);
    const struct hf_region_range *range;
};

static inline struct copy copy_of(void *handle)
{
    struct copy copy = {.handle = handle};
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"hf_malloc", &copy.malloc},
        {"hf_calloc", &copy.calloc},
        {"hf_realloc", &copy.realloc},
        {"hf_memalign", &copy.memalign},
        {"hf_free", &copy.free},
        {"hf_free_sized", &copy.free_sized},
        {"hf_free_aligned", &copy.free_aligned},
        {"hf_free_aligned_sized", &copy.free_aligned_sized},
        {"hf_usable_size", &copy.usable_size},
        {"hf_strdup", &copy.strdup},
        {"hf_owns", &copy.owns},
        {"hf_owner_of", &copy.owner_of},
        {"hf_stats", &copy.stats},
        {"hf_stats_of_others", &copy.stats_of_others},
        {"hf_route", &copy.route},
        {"hf_region_range", &copy.range},
        {"hf_release_new", &copy.release_new},
        {"hf_release_drop", &copy.release_drop},
        {"hf_release_is", &copy.release_is},
        {"hf_watch_begin", &copy.watch_begin},
        {"hf_watch_report", &copy.watch_report},
        {"hf_watch_drop", &copy.watch_drop},
        {"hf_fail_at", &copy.fail_at},
        {"hf_fail_count", &copy.fail_count},
        {"hf_fail_end", &copy.fail_end},
        {"hf_heap_new", &copy.heap_new},
        {"hf_heap_malloc", &copy.heap_malloc},
        {"hf_heap_drop", &copy.heap_drop},
        {"hf_trim", &copy.trim},
    };
    if (handle == NULL)
        dprintf(2, "%s\n", dlerror());
    must(handle != NULL);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *address = dlsym(handle, wanted[i].name);
        must(address != NULL);
        memcpy(wanted[i].slot, &address, sizeof address);
    }
    return copy;
}

static inline struct copy copy_open(const char *path)
{
    return copy_of(dlopen(path, RTLD_NOW | RTLD_LOCAL));
}

static inline struct copy copy_open_apart(const char *path)
{
    return copy_of(dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL));
}

static inline struct hf_stats copy_stats(const struct copy *copy)
{
    struct hf_stats stats = {.size = sizeof stats};
    must(copy->stats(&stats) == 0);
    return stats;
}

/* Whether the copy knows a live block of the heap that begins at `p`. */
static inline bool copy_has(const struct copy *copy, const void *p)
{
    struct hf_owner owner = {.size = sizeof owner};
    must(copy->owner_of(p, &owner) == 0);
    return owner.kind == HF_OWNER_HEAP && owner.block == p;
}

/* Each copy frees, resizes and measures the other's blocks. */
static inline void must_share(const struct copy *one, const struct copy *other)
{
    const size_t sizes[] = {0, 10, 1000, 20000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        unsigned char *blocks[] = {one->malloc(size), one->calloc(1, size),
                                   one->memalign(4096, size), one->realloc(NULL, size + 1)};
        for (size_t k = 0; k < 4; k++) {
            unsigned char *p = blocks[k];
            must(p != NULL && one->owns(p) && other->owns(p));
            must(other->usable_size(p) == one->usable_size(p));
            must(other->usable_size(p) >= size);
            must(copy_has(one, p) && copy_has(other, p));
            memset(p, 7, size);
            p = other->realloc(p, size + 5000);
            must(p != NULL && one->owns(p) && (size == 0 || p[size - 1] == 7));
            other->free(p);
        }
    }
    char *s = one->strdup("shared");
    must(other->owns(s) && strcmp(s, "shared") == 0);
    other->free(s);
    /* Freeing through the other copy must release the memory. */
    void *large = one->malloc(5 << 20);
    other->free(large);
    must(!copy_has(one, large));
}

/* A record that one copy made can be dropped through the other; both count it once. */
static inline void must_share_records(const struct copy *one, const struct copy *other)
{
    struct hf_release *record = NULL;
    struct hf_stats before = copy_stats(one);
    must(one->release_new(&record, one->malloc(10), one->free, "record") == 0);
    must(copy_stats(other).releases_live == before.releases_live + 1);
    must(one->release_is(record) && other->release_is(record));
    other->release_drop(record);
    must(copy_stats(one).releases_live == before.releases_live);
    must(copy_stats(one).releases_run == before.releases_run + 1);
    must(copy_stats(other).releases_run == before.releases_run + 1);
    must(!one->release_is(record) && !other->release_is(record));
}

/* `heap` is the heap, and `forward` forwards to it. */
static inline void must_be_one_heap(const struct copy *heap, const struct copy *forward)
{
    must(heap->handle != forward->handle);
    must(copy_stats(heap).forwards == 0);
    must(copy_stats(forward).forwards == 1);
    must(heap->range->size > 0);
    must(heap->range->base == forward->range->base);
    must(heap->range->size <= forward->range->size);
    must(copy_stats(heap).region_reserved == copy_stats(forward).region_reserved);
    must_share(heap, forward);
    must_share(forward, heap);
    must_share_records(heap, forward);
    must_share_records(forward, heap);
}

/* Which copy is opened, and how. */
struct opening {
    struct copy (*open)(const char *path);
    const char *const *path;
};

/* Opens a copy and then another one, and is for outcome_of_call(): the first becomes the heap. */
static inline void first_is_heap(void *openings)
{
    const struct opening *opening = openings;
    struct copy first = opening[0].open(*opening[0].path);
    struct copy second = opening[1].open(*opening[1].path);
    must_be_one_heap(&first, &second);
}

/* Either of two copies may be opened first. */
static inline void assert_one_heap_in_either_order(struct opening one, struct opening other)
{
    assert_succeeds(outcome_of_call(first_is_heap, (struct opening[]){one, other}));
    assert_succeeds(outcome_of_call(first_is_heap, (struct opening[]){other, one}));
}

static inline void must_succeed(void (*body)(void *))
{
    struct outcome outcome;
    outcome_of_function(&outcome, body, NULL);
    assert_exited(&outcome, 0, 0, "");
}

#endif
