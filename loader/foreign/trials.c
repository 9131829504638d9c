/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. See trials.h. What is called, under the loader's lock:
 * - hf_trial_zero_frees() calls jemalloc's mallctl();
 * - hf_trial_tree() and hf_trial_search_tree() allocate and free jemalloc blocks to verify its
 *   rtree;
 * - hf_trial_owns_pages() allocates and frees blocks through malloc() and free(), or operator new
 *   and delete, that the object exports.
 *
 * This is safe for these reasons:
 * - Locks. A deadlock needs an allocator that waits for the loader's lock while it holds a lock of
 *   its own. dlopen() runs every constructor under the loader's lock, and constructors allocate, so
 *   such an allocator would deadlock without homefree, too.
 * - Initialisation. A pass inside a constructor may see an object whose constructors have not run.
 *   jemalloc and functions that replace malloc() initialise themselves at the first call, because
 *   other constructors may allocate first. rpmalloc's own functions, which do not, are never called
 *   here.
 * - Re-entry. The allocator's mmap(2) calls reach stubs that take no lock. If it loads an object,
 *   the nested pass returns at once (route.c).
 * - Exceptions. operator new throws when memory is short. hf_trial_owns_pages(), which needs up to
 *   200 MiB, tests for room first; verifying an rtree takes less than 3 MiB.
 * - Cancellation is disabled while the loader's lock is held (loader_lock.c).
 */
#include "loader/foreign/trials.h"

#include "alloc/owner/dispatch.h"
#include "alloc/owner/foreign_pages.h"

#include <string.h>
#include <sys/mman.h>

bool hf_trial_zero_frees(void *mallctl)
{
    const char *action = NULL;
    size_t size = sizeof action;
    int result = ((int (*)(const char *, void *, size_t *, void *, size_t))mallctl)(
        "opt.zero_realloc", (void *)&action, &size, NULL, 0);
    return result == 0 && action != NULL && strcmp(action, "free") == 0;
}

static void call_release(const struct hf_trial_functions *functions, void *ptr)
{
    const struct hf_foreign_allocator allocator = {.form = functions->form,
                                                   .release = functions->release};
    hf_foreign_call_free(&allocator, ptr, NULL);
}

static void *allocate(const struct hf_trial_functions *functions, size_t size)
{
    if (functions->allocate != NULL)
        return ((void *(*)(size_t))functions->allocate)(size);
    return ((void *(*)(void *, size_t))functions->realloc)(NULL, size);
}

bool hf_trial_tree(const struct hf_trial_functions *functions,
                   bool (*has)(const struct hf_rtree *tree, const void *ptr))
{
    const struct hf_rtree *tree = &functions->tree;
    static const size_t sizes[] = {16, 128, 1024, 8192, 32768, 262144, 2 << 20};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *blocks[COUNT] = {NULL};
    bool right = !hf_rtree_proves(tree, &blocks) && !hf_rtree_proves(tree, tree->root) &&
                 !hf_rtree_proves(tree, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = allocate(functions, sizes[i]);
        right &= blocks[i] == NULL || has(tree, blocks[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (blocks[i] != NULL)
            call_release(functions, blocks[i]);
    return right && blocks[0] != NULL;
}

bool hf_trial_search_tree(const struct hf_object *object, struct hf_trial_functions *functions)
{
    enum { SEARCH_MAX = 64 << 20, TRIES_MAX = 16 };
    bool found = false;
    void *block = allocate(functions, 1024);
    if (block == NULL)
        return false;
    struct hf_object segments = *object;
    hf_object_segments(&segments);
    for (size_t i = 0; i < segments.writable_count && !found; i++) {
        size_t size = segments.writable[i].size, cursor = 0;
        size = size < SEARCH_MAX ? size : SEARCH_MAX;
        for (int tries = 0; tries < TRIES_MAX && !found &&
                            hf_rtree_search((const void *)segments.writable[i].start, size, block,
                                            &cursor, &functions->tree);
             tries++)
            found = hf_trial_tree(functions, hf_rtree_describes);
    }
    call_release(functions, block);
    return found;
}

bool hf_trial_owns_pages(unsigned number, const struct hf_trial_functions *functions)
{
    static const size_t sizes[] = {4 << 20, 40 << 20, 200 << 20};
    bool right = false;
    if (functions->allocate == NULL && functions->realloc == NULL)
        return false;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !right; i++) {
        /* operator new must not throw through this frame, so test for room first. */
        void *capacity = mmap(NULL, 2 * sizes[i], PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (capacity == MAP_FAILED)
            break;
        munmap(capacity, 2 * sizes[i]);
        void *block = allocate(functions, sizes[i]);
        right = block != NULL && hf_foreign_pages_id(block) == number;
        if (block != NULL)
            call_release(functions, block);
    }
    return right;
}
