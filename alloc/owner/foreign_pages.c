/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of foreign pages: its root, and leaves that are allocated by mmap(2), published by
 * compare-and-exchange and never freed. Any thread, without a lock. See foreign_pages.h.
 */
#include "alloc/owner/foreign_pages.h"

#include "alloc/base/apart.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

HF_APART uintptr_t hf_foreign_pages_root[(size_t)1 << (HF_USER_BITS - HF_FOREIGN_PAGES_LEAF_SHIFT)];

#define LEAF_PAGES ((size_t)1 << (HF_FOREIGN_PAGES_LEAF_SHIFT - HF_FOREIGN_PAGES_SHIFT))

/* The range of root entries ever used, so that counting does not read all of it. */
static size_t lowest = SIZE_MAX, highest;

static void note(size_t entry)
{
    size_t seen = __atomic_load_n(&lowest, __ATOMIC_RELAXED);
    while (entry < seen && !__atomic_compare_exchange_n(&lowest, &seen, entry, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    seen = __atomic_load_n(&highest, __ATOMIC_RELAXED);
    while (entry > seen && !__atomic_compare_exchange_n(&highest, &seen, entry, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* The leaf of an entry, allocated on first use; NULL if there is no memory for it. */
static uint8_t *leaf_of(size_t entry)
{
    uintptr_t seen = __atomic_load_n(&hf_foreign_pages_root[entry], __ATOMIC_ACQUIRE);
    if (seen > UINT8_MAX)
        return (uint8_t *)seen;
    int saved_errno = errno;
    /* Not mmap(): a preloaded tcmalloc defines its own, whose inner call is routed and would
     * recurse here for ever. */
    uint8_t *leaf = (uint8_t *)syscall(SYS_mmap, NULL, LEAF_PAGES, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (leaf == MAP_FAILED) {
        errno = saved_errno;
        return NULL;
    }
    for (;;) {
        if (seen != HF_FOREIGN_PAGES_UNKNOWN)
            memset(leaf, (int)seen, LEAF_PAGES);
        uintptr_t before = seen;
        if (__atomic_compare_exchange_n(&hf_foreign_pages_root[entry], &seen, (uintptr_t)leaf,
                                        false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            break;
        if (seen > UINT8_MAX) { /* another thread published a leaf first */
            munmap(leaf, LEAF_PAGES);
            leaf = (uint8_t *)seen;
            break;
        }
        if (before != HF_FOREIGN_PAGES_UNKNOWN && seen == HF_FOREIGN_PAGES_UNKNOWN)
            memset(leaf, 0, LEAF_PAGES);
    }
    errno = saved_errno;
    return leaf;
}

/* Sets pages [first, end) of one entry. */
static bool set_part(size_t entry, size_t first, size_t end, unsigned id)
{
    uintptr_t seen = __atomic_load_n(&hf_foreign_pages_root[entry], __ATOMIC_ACQUIRE);
    bool whole = first == 0 && end == LEAF_PAGES;
    while (seen <= UINT8_MAX) {
        if (seen == id)
            return true;
        if (!whole)
            break;
        if (__atomic_compare_exchange_n(&hf_foreign_pages_root[entry], &seen, (uintptr_t)id, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    }
    uint8_t *leaf = leaf_of(entry);
    if (leaf == NULL)
        return false;
    /* Not memset: concurrent readers of other pages must see each byte whole, and clearing must not
     * make untouched zero pages of the map resident. */
    for (size_t page = first; page < end; page++)
        if (__atomic_load_n(&leaf[page], __ATOMIC_RELAXED) != id)
            __atomic_store_n(&leaf[page], (uint8_t)id, __ATOMIC_RELEASE);
    return true;
}

/* The whole pages in a range, as page numbers; false if there are none. */
static bool pages_of(const void *start, size_t size, uint64_t *first, uint64_t *end)
{
    const uintptr_t page = (uintptr_t)1 << HF_FOREIGN_PAGES_SHIFT,
                    limit = (uintptr_t)1 << HF_USER_BITS;
    uintptr_t from = (uintptr_t)start;
    if (from >= limit || size == 0)
        return false;
    uintptr_t to = size < limit - from ? from + size : limit;
    *first = (from + page - 1) >> HF_FOREIGN_PAGES_SHIFT;
    *end = to >> HF_FOREIGN_PAGES_SHIFT;
    return *first < *end;
}

bool hf_foreign_pages_set(const void *start, size_t size, unsigned id)
{
    uint64_t first, end;
    bool complete = true;
    if (!pages_of(start, size, &first, &end))
        return true;
    if (id != HF_FOREIGN_PAGES_UNKNOWN) {
        note(first / LEAF_PAGES);
        note((end - 1) / LEAF_PAGES);
    }
    while (first < end) {
        size_t entry = first / LEAF_PAGES, at = first % LEAF_PAGES;
        size_t count = end - first < LEAF_PAGES - at ? end - first : LEAF_PAGES - at;
        complete &= set_part(entry, at, at + count, id);
        first += count;
    }
    return complete;
}

bool hf_foreign_pages_any(const void *start, size_t size)
{
    uint64_t first, end;
    if (__atomic_load_n(&lowest, __ATOMIC_RELAXED) == SIZE_MAX ||
        !pages_of(start, size, &first, &end))
        return false;
    for (size_t entry = first / LEAF_PAGES; entry <= (end - 1) / LEAF_PAGES; entry++)
        if (__atomic_load_n(&hf_foreign_pages_root[entry], __ATOMIC_RELAXED) !=
            HF_FOREIGN_PAGES_UNKNOWN)
            return true;
    return false;
}

void hf_foreign_pages_forget(unsigned id)
{
    size_t end = __atomic_load_n(&highest, __ATOMIC_RELAXED);
    for (size_t entry = __atomic_load_n(&lowest, __ATOMIC_RELAXED);
         entry <= end && id != HF_FOREIGN_PAGES_UNKNOWN; entry++) {
        uintptr_t leaf = id;
        if (__atomic_compare_exchange_n(&hf_foreign_pages_root[entry], &leaf,
                                        (uintptr_t)HF_FOREIGN_PAGES_UNKNOWN, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            leaf <= UINT8_MAX)
            continue;
        for (size_t page = 0; page < LEAF_PAGES; page++) {
            uint8_t expected = (uint8_t)id;
            if (__atomic_load_n((uint8_t *)leaf + page, __ATOMIC_RELAXED) == expected)
                __atomic_compare_exchange_n((uint8_t *)leaf + page, &expected,
                                            HF_FOREIGN_PAGES_UNKNOWN, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED);
        }
    }
}

void hf_foreign_pages_visit(unsigned id,
                            void (*visit)(const void *start, size_t size, void *context),
                            void *context)
{
    size_t end = __atomic_load_n(&highest, __ATOMIC_RELAXED);
    for (size_t entry = __atomic_load_n(&lowest, __ATOMIC_RELAXED);
         entry <= end && id != HF_FOREIGN_PAGES_UNKNOWN; entry++) {
        uintptr_t start = entry << HF_FOREIGN_PAGES_LEAF_SHIFT;
        uintptr_t leaf = __atomic_load_n(&hf_foreign_pages_root[entry], __ATOMIC_ACQUIRE);
        if (leaf == id)
            visit((const void *)start, LEAF_PAGES << HF_FOREIGN_PAGES_SHIFT, context);
        for (size_t page = 0, first = 0; leaf > UINT8_MAX && page < LEAF_PAGES; first = ++page) {
            while (page < LEAF_PAGES &&
                   __atomic_load_n((const uint8_t *)leaf + page, __ATOMIC_RELAXED) == id)
                page++;
            if (page > first)
                visit((const void *)(start + (first << HF_FOREIGN_PAGES_SHIFT)),
                      (page - first) << HF_FOREIGN_PAGES_SHIFT, context);
        }
    }
}

static void add_size(const void *start, size_t size, void *context)
{
    (void)start;
    *(size_t *)context += size;
}

size_t hf_foreign_pages_bytes(unsigned id)
{
    size_t bytes = 0;
    hf_foreign_pages_visit(id, add_size, &bytes);
    return bytes;
}
