/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the map of lent pages, whose memory is the region's, and the list of hosted allocators,
 * which only grows; `lock` guards it. A map entry is written only by the thread that lends or takes
 * back its granule, which no other thread has then. Callable at any stage after the region is
 * reserved; calls only the region.
 */
#include "alloc/owner/hosted.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/seal.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/region.h"
#include "alloc/trace/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

const uint8_t *hf_hosted_who;

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static HF_SEALED_UNION(const struct hf_hosted *_Atomic[HF_HOSTED_MAX], hosted) table HF_SEALED;

static size_t granule_of(const void *ptr)
{
    return ((uintptr_t)ptr - hf_region.base) >> HF_HOSTED_GRANULE_BITS;
}

/* The hosted allocator's number in the map, added to the list if new; 0 if the list is full. */
static uint8_t number_of(const struct hf_hosted *hosted)
{
    for (uint8_t i = 0; i < HF_HOSTED_MAX; i++) {
        struct hf_seal seal;
        if (table.hosted[i] == NULL && hf_seal_open(&seal)) {
            table.hosted[i] = hosted;
            hf_seal_close(&seal);
        }
        if (table.hosted[i] == hosted)
            return (uint8_t)(i + 1);
    }
    return 0;
}

static void write_map(const void *address, size_t size, uint8_t number)
{
    uint8_t *map = (uint8_t *)(uintptr_t)hf_hosted_who;
    size_t first = granule_of(address);
    for (size_t i = 0; i < size >> HF_HOSTED_GRANULE_BITS; i++)
        __atomic_store_n(&map[first + i], number, __ATOMIC_RELEASE);
}

void *hf_hosted_map(const struct hf_hosted *hosted, size_t size, size_t alignment, int protection)
{
    if (size == 0 || size % HF_HOSTED_GRANULE != 0 || alignment % HF_HOSTED_GRANULE != 0)
        return NULL;
    pthread_mutex_lock(&lock);
    uint8_t number = number_of(hosted);
    pthread_mutex_unlock(&lock);
    if (number == 0)
        return NULL;
    struct hf_pass pass;
    if (!hf_gate_enter(&pass))
        return NULL;
    const uint8_t *map = hf_region_table(HF_HOSTED_GRANULE_BITS);
    void *at = map != NULL ? hf_region_map_aligned(size, alignment, protection) : MAP_FAILED;
    hf_gate_leave(&pass);
    if (at == MAP_FAILED)
        return NULL;
    if (protection == PROT_NONE) /* what becomes usable without the region's help is dumped, too */
        (void)madvise(at, size, MADV_DODUMP);
    __atomic_store_n(&hf_hosted_who, map, __ATOMIC_RELEASE);
    write_map(at, size, number);
    hf_libc_spare_grown();
    return at;
}

/* Pages taken back while the process was forking, linked through themselves. */
struct returned {
    struct returned *next;
    size_t size;
};
static struct returned *_Atomic returned;

void hf_hosted_catch_up(void)
{
    struct hf_pass pass;
    while (returned != NULL && hf_gate_enter(&pass)) {
        struct returned *pages = atomic_exchange(&returned, NULL);
        while (pages != NULL) {
            struct returned *next = pages->next;
            (void)hf_region_unmap(pages, pages->size);
            pages = next;
        }
        hf_gate_leave(&pass);
    }
}

/* Pages of a granule that is not taken back. */
static void empty(void *address, size_t size)
{
    struct hf_pass pass;
    if (size == 0)
        return;
    if (!hf_gate_enter(&pass)) {
        (void)madvise(address, size, MADV_DONTNEED);
        return;
    }
    (void)hf_region_map(address, size, PROT_NONE, MAP_FIXED);
    hf_gate_leave(&pass);
}

static void take_back(void *address, size_t size)
{
    struct hf_pass pass;
    write_map(address, size, 0);
    if (hf_gate_enter(&pass)) {
        (void)hf_region_unmap(address, size);
        hf_gate_leave(&pass);
        return;
    }
    struct returned *pages = address;
    (void)mprotect(address, sizeof *pages, PROT_READ | PROT_WRITE);
    *pages = (struct returned){.next = returned, .size = size};
    while (!atomic_compare_exchange_weak(&returned, &pages->next, pages))
        ;
    if (!hf_gate_is_closed())
        hf_hosted_catch_up();
}

void hf_hosted_unmap(void *address, size_t size)
{
    char *start = address, *end = start + size;
    char *first = (char *)(((uintptr_t)start + HF_HOSTED_GRANULE - 1) & -HF_HOSTED_GRANULE);
    char *last = (char *)((uintptr_t)end & -HF_HOSTED_GRANULE);
    if (first >= last) {
        empty(start, size);
        return;
    }
    empty(start, (size_t)(first - start));
    take_back(first, (size_t)(last - first));
    empty(last, (size_t)(end - last));
}

void hf_hosted_visit(const struct hf_hosted *hosted,
                     void (*visit)(const void *start, size_t size, void *context), void *context)
{
    const size_t count = hf_hosted_who != NULL ? hf_region.size >> HF_HOSTED_GRANULE_BITS : 0;
    size_t begun = 0;
    for (size_t i = 0; i <= count; i++) {
        if (i < count && hf_hosted_at(i) == hosted)
            continue;
        if (begun < i)
            visit((const char *)hf_region.base + (begun << HF_HOSTED_GRANULE_BITS),
                  (i - begun) << HF_HOSTED_GRANULE_BITS, context);
        begun = i + 1;
    }
}

const struct hf_hosted *hf_hosted_at(size_t granule)
{
    uint8_t number = __atomic_load_n(&hf_hosted_who[granule], __ATOMIC_ACQUIRE);
    return number != 0 ? table.hosted[number - 1] : NULL;
}

bool hf_hosted_free(void *ptr, const void *caller)
{
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    if (HF_LIKELY(hosted == NULL))
        return false;
    if (HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED)) && !hosted->records) {
        struct hf_owner owner = {.object = NULL};
        hosted->describe(ptr, &owner);
        hf_watch_freed_foreign(ptr, owner.block_size, owner.object, caller, true);
    }
    hosted->free(ptr, caller);
    return true;
}

bool hf_hosted_describe(const void *ptr, struct hf_owner *owner)
{
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    if (hosted == NULL)
        return false;
    hosted->describe(ptr, owner);
    return true;
}
