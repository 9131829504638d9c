/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the record of memory that CUDA gave to others: a list of blocks in the order of their
 * addresses, the libraries that they came from (sealed), and the names of the objects that asked
 * for them. Blocks' pages are marked in the table of foreign pages, so that only frees of such
 * pages look here, and stay marked: a pool's page may hold several blocks. Whoever unmaps pages
 * clears the marks (mmap_tracking.h).
 *
 * `lock` guards what is written, and is held while nothing is called. Readers take no lock: they
 * look again if `changes` says that the list was changed meanwhile, and only if that happens often
 * do they wait for the lock. In a forked child, where CUDA cannot be used, nothing is freed. If the
 * list was being changed at the fork, all marked pages count as CUDA's there.
 */
#include "satellites/cuda/space/others.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fork_lock.h"
#include "alloc/base/libc_functions.h"
#include "alloc/base/maps.h"
#include "alloc/base/options.h"
#include "alloc/base/seal.h"
#include "alloc/owner/foreign_pages.h"
#include "satellites/cuda/cuda_core.h"
#include "satellites/cuda/driver/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum {
    BLOCKS_MAX = 32768, /* what comes after is not recorded */
    SOURCES_MAX = 32,
    NAMES_MAX = 64,
    NAMES_SIZE = 16384,
    PATIENCE = 64
};

struct source {
    const void *map;
    const char *release_name, *object;
    void *release;
};

/* The first source is none. */
static HF_SEALED_UNION(struct source[SOURCES_MAX], sources) table HF_SEALED;
static atomic_uint sources_count;

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic(size_t) hf_others_count;
static atomic_uint changes; /* odd while the list is changed */
static atomic_bool forked, torn;

/* The list. Each word is read and written at once. */
enum { WORDS = sizeof(struct hf_others_block) / sizeof(uintptr_t) };
struct entry {
    _Atomic(uintptr_t) words[WORDS];
};
_Static_assert(sizeof(struct entry) == sizeof(struct hf_others_block), "there is no padding");
static struct entry *_Atomic entries;

static struct {
    const char *names[NAMES_MAX];
    size_t count, used;
    char bytes[NAMES_SIZE];
} names;

/* ---- the list ---- */

static struct hf_others_block load(const struct entry *entry)
{
    uintptr_t words[WORDS];
    struct hf_others_block block;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&entry->words[i], memory_order_relaxed);
    memcpy(&block, words, sizeof block);
    return block;
}

static void store(struct entry *entry, const struct hf_others_block *block)
{
    uintptr_t words[WORDS];
    memcpy(words, block, sizeof words);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&entry->words[i], words[i], memory_order_relaxed);
}

static uintptr_t end_of(const struct entry *entry)
{
    const struct hf_others_block block = load(entry);
    return block.start + block.size;
}

/* The first block that ends behind an address. */
static size_t index_of(const struct entry *list, size_t count, uintptr_t address)
{
    size_t first = 0, end = count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (end_of(&list[middle]) <= address)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static bool look(uintptr_t address, struct hf_others_block *out)
{
    const struct entry *list = atomic_load_explicit(&entries, memory_order_acquire);
    const size_t count = atomic_load_explicit(&hf_others_count, memory_order_acquire);
    if (list == NULL)
        return false;
    const size_t at = index_of(list, count, address);
    if (at == count)
        return false;
    *out = load(&list[at]);
    return out->start <= address;
}

static bool find(const void *ptr, struct hf_others_block *out)
{
    for (int tries = 0; tries < PATIENCE; tries++) {
        const unsigned before = atomic_load_explicit(&changes, memory_order_acquire);
        const bool found = look((uintptr_t)ptr, out);
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 0 && atomic_load_explicit(&changes, memory_order_relaxed) == before)
            return found;
    }
    pthread_mutex_lock(&lock);
    const bool found = look((uintptr_t)ptr, out);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Replaces the blocks from `first` up to `end` by this one, if there is one. Under the lock. */
static void replace(size_t first, size_t end, const struct hf_others_block *block)
{
    struct entry *list = atomic_load_explicit(&entries, memory_order_relaxed);
    const size_t count = hf_others_count, added = block != NULL ? 1 : 0;
    atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
    atomic_thread_fence(memory_order_release);
    if (first + added > end)
        for (size_t i = count; i-- > end;) {
            const struct hf_others_block moved = load(&list[i]);
            store(&list[i + 1], &moved);
        }
    else if (first + added < end)
        for (size_t i = end; i < count; i++) {
            const struct hf_others_block moved = load(&list[i]);
            store(&list[i - (end - first - added)], &moved);
        }
    if (block != NULL)
        store(&list[first], block);
    atomic_store_explicit(&hf_others_count, count - (end - first) + added, memory_order_release);
    atomic_fetch_add_explicit(&changes, 1, memory_order_release);
}

/* Under the lock. */
static bool make_list(void)
{
    if (entries != NULL)
        return true;
    void *at = mmap(NULL, BLOCKS_MAX * sizeof(struct entry), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    atomic_store_explicit(&entries, at, memory_order_release);
    return true;
}

static bool insert(const struct hf_others_block *block)
{
    const int saved_errno = errno;
    pthread_mutex_lock(&lock);
    const bool ready = make_list();
    if (ready) {
        const size_t count = hf_others_count, first = index_of(entries, count, block->start);
        size_t end = first;
        while (end < count && load(&entries[end]).start < block->start + block->size)
            end++;
        if (end > first || count < BLOCKS_MAX)
            replace(first, end, block);
    }
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return ready;
}

/* Takes the block that starts there off the list. */
static bool take(const void *ptr, struct hf_others_block *out)
{
    pthread_mutex_lock(&lock);
    const size_t count = hf_others_count;
    const size_t at = count != 0 ? index_of(entries, count, (uintptr_t)ptr) : 0;
    bool found = at < count;
    if (found) {
        *out = load(&entries[at]);
        found = out->start == (uintptr_t)ptr;
    }
    if (found)
        replace(at, at + 1, NULL);
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- sources and names ---- */

/* The library that memory comes from, with the name of the function that gives it back: a number;
 * 0 if it is not known. map: the library's link_map; release: a string constant. Lock-free. */
static unsigned source_of(const void *map, const char *release)
{
    const unsigned count = atomic_load_explicit(&sources_count, memory_order_acquire);
    for (unsigned i = 1; i <= count; i++)
        if (table.sources[i].map == map && table.sources[i].release_name == release)
            return i;
    return 0;
}

/* Makes it known; the library must never be unloaded. 0 if it has no such function, or there are
 * too many. Takes the loader's lock. */
static unsigned add_source(const void *map, const char *release)
{
    struct hf_object object;
    struct hf_seal seal;
    (void)hf_cuda_take_driver();
    void *function =
        map != NULL && hf_dynlink_open(map, &object) ? hf_object_address(&object, release) : NULL;
    if (function == NULL || !hf_seal_open(&seal))
        return 0;
    unsigned source = source_of(map, release);
    if (source == 0 && sources_count < SOURCES_MAX - 1) {
        source = sources_count + 1;
        table.sources[source] = (struct source){map, release, hf_dynlink_name(map), function};
        atomic_store_explicit(&sources_count, source, memory_order_release);
    }
    hf_seal_close(&seal);
    return source;
}

/* A string that is never freed; NULL if there is no room. The objects that ask are few. */
static const char *keep_name(const char *name)
{
    const char *kept = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < names.count && kept == NULL; i++)
        if (strcmp(names.names[i], name) == 0)
            kept = names.names[i];
    const size_t size = strlen(name) + 1;
    if (kept == NULL && names.count < NAMES_MAX && size <= NAMES_SIZE - names.used) {
        kept = memcpy(names.bytes + names.used, name, size);
        names.names[names.count++] = kept;
        names.used += size;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

/* ---- messages ---- */

static const char *const descriptions[] = {
    [HF_OTHERS_DEVICE] = "CUDA, memory of a device",
    [HF_OTHERS_MANAGED] = "CUDA, managed memory",
    [HF_OTHERS_POOLED] = "CUDA, a stream-ordered pool",
    [HF_OTHERS_PINNED] = "CUDA, page-locked memory",
    [HF_OTHERS_REGISTERED] = "CUDA, registered memory",
    [HF_OTHERS_MAPPED] = "CUDA, mapped memory of a device",
};

static bool is_on_host(const struct hf_others_block *block)
{
    return block->memory == HF_OTHERS_PINNED || block->memory == HF_OTHERS_MANAGED;
}

/* Ends a line about a block: "…'s (CUDA, …), which OBJECT allocated". */
static void add_block(struct hf_text *text, const struct hf_others_block *block)
{
    hf_text_say(text, " of others (%s", descriptions[block->memory]);
    if (block->device >= 0)
        hf_text_say(text, " %d", block->device);
    hf_text_say(text, "), allocated by %s", block->object);
}

static __attribute__((noreturn, cold)) void
end_inside(const void *ptr, const struct hf_others_block *block, const void *caller)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, "free", ptr);
    hf_text_add(&text, "the pointer is inside a block");
    add_block(&text, block);
    hf_text_add(&text, ", not at its first byte");
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; going on would hand it to libc, which did not allocate it; free the "
                       "pointer that the allocation returned");
    hf_core()->fatal(&text);
}

static __attribute__((noreturn, cold)) void end_freed(const void *ptr, const void *caller)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, "free", ptr);
    hf_text_add(&text, "the pointer is memory that CUDA had given out, and no block that is in use "
                       "starts there: it was freed already");
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; going on would hand it to libc, which did not allocate it; let one side "
                       "own the block");
    hf_core()->fatal(&text);
}

/* Ends the process, or returns if the block is to be leaked. */
static __attribute__((noinline, cold)) void
homeless(const void *ptr, const struct hf_others_block *block, const void *caller)
{
    static atomic_bool warned;
    struct hf_text text;
    const bool leaks = hf_options.unknown_free == HF_UNKNOWN_FREE_LEAK;
    if (leaks && atomic_exchange(&warned, true))
        return;
    (leaks ? hf_text_begin_warning : hf_text_begin_fatal)(&text, "free", ptr);
    hf_text_add(&text, "a block");
    add_block(&text, block);
    hf_text_add(&text, block->memory == HF_OTHERS_MAPPED
                           ? ", which only a call that also says its size can unmap"
                           : ", from a library whose function for freeing it was not found");
    hf_text_add_caller(&text, caller);
    if (leaks) {
        hf_text_add(&text, "; leaked because of HOMEFREE_CONF=unknown_free:leak; later ones of "
                           "CUDA's are leaked without a warning");
        hf_text_write(&text);
        return;
    }
    hf_text_add(&text, "; going on would hand it to libc, which did not allocate it; free the "
                       "block by the function of CUDA's that belongs to the one that allocated it");
    hf_core()->fatal(&text);
}

static __attribute__((noreturn, cold)) void
end_resized(const void *ptr, const struct hf_others_block *block, const void *caller)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, "realloc", ptr);
    hf_text_add(&text, "a block");
    add_block(&text, block);
    hf_text_add(&text, ", which the host cannot copy");
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; going on would hand it to libc, which did not allocate it; allocate a "
                       "new block and copy with cudaMemcpyAsync()");
    hf_core()->fatal(&text);
}

/* ---- going home ---- */

/* Frees a block that is off the list: 0, -ENOENT if CUDA does not know it. What CUDA cannot free
 * any more is left. */
static int release(const struct hf_others_block *block)
{
    const struct source *source = &table.sources[block->source];
    return hf_cuda_release(source->release, (void *)block->start, block->context,
                           block->memory == HF_OTHERS_POOLED);
}

static void free_theirs(void *ptr, const void *caller)
{
    struct hf_others_block block;
    if (atomic_load(&forked))
        return; /* left, as everything of CUDA's */
    if (!find(ptr, &block))
        end_freed(ptr, caller);
    if (block.memory == HF_OTHERS_MAPPED)
        return homeless(ptr, &block, caller);
    if (block.start != (uintptr_t)ptr)
        end_inside(ptr, &block, caller);
    if (block.source == 0)
        return homeless(ptr, &block, caller);
    if (!take(ptr, &block))
        end_freed(ptr, caller);
    const int result = release(&block);
    if (result == -ENODEV)
        homeless(ptr, &block, caller);
    /* It ended with its context, or was freed unseen: it is somebody else's by now, or nobody's. */
    if (result == -ENOENT)
        hf_core()->free_foreign(ptr);
}

static size_t usable_size(const void *ptr, const void *caller)
{
    struct hf_others_block block;
    (void)caller;
    return find(ptr, &block) && block.start == (uintptr_t)ptr ? block.size : 0;
}

/* A block that grows moves to libc, as blocks of all allocators do that cannot resize. */
static void *resize_theirs(void *ptr, size_t size, const void *caller)
{
    struct hf_others_block block;
    if (size == 0) {
        free_theirs(ptr, caller);
        return NULL;
    }
    if (!find(ptr, &block))
        end_freed(ptr, caller);
    if (block.start != (uintptr_t)ptr)
        end_inside(ptr, &block, caller);
    if (!is_on_host(&block))
        end_resized(ptr, &block, caller);
    if (size <= block.size)
        return ptr;
    void *moved = hf_libc()->malloc(size);
    if (moved == NULL)
        return NULL;
    memcpy(moved, ptr, block.size);
    free_theirs(ptr, caller);
    return moved;
}

bool hf_others_describe(const void *ptr, struct hf_owner *owner)
{
    struct hf_others_block block;
    if (!hf_others_any() || !find(ptr, &block))
        return false;
    /* Memory may be unmapped without an end of its registration. */
    if (block.memory == HF_OTHERS_REGISTERED && owner->kind == HF_OWNER_UNMAPPED)
        return false;
    owner->kind = HF_OWNER_CUDA;
    owner->allocator = descriptions[block.memory];
    owner->object = block.object;
    owner->block = (const void *)block.start;
    owner->block_size = block.size;
    owner->device =
        block.device >= 0 || atomic_load(&forked) ? block.device : hf_cuda_device_of(ptr);
    return true;
}

const void *hf_others_caller(const void *ptr)
{
    struct hf_others_block block;
    return hf_others_any() && find(ptr, &block) ? block.caller : NULL;
}

static void describe(const void *ptr, struct hf_owner *owner)
{
    (void)hf_others_describe(ptr, owner);
}

static const struct hf_hosted theirs = {
    .free = free_theirs,
    .realloc = resize_theirs,
    .usable_size = usable_size,
    .describe = describe,
};

/* Asked only for marked pages. What is not recorded there, and cannot be read, was CUDA's: no
 * block of another allocator. */
static bool is_theirs(const void *ptr)
{
    struct hf_others_block block;
    char byte;
    if (find(ptr, &block))
        return block.memory != HF_OTHERS_REGISTERED;
    return atomic_load(&torn) || !hf_maps_read(ptr, &byte, sizeof byte);
}

/* ---- recording ---- */

/* The number of the pages; 0 if all are taken. */
static unsigned page_number(void)
{
    static atomic_uint known;
    unsigned number = atomic_load_explicit(&known, memory_order_acquire), none = 0;
    if (number != 0)
        return number;
    number = hf_core()->foreign_reserve();
    if (number == 0)
        return 0;
    const struct link_map *map = hf_dynlink_find(hf_core()->region);
    const struct hf_foreign_allocator allocator = {
        .name = "CUDA",
        .object = hf_dynlink_name(map),
        .map = map,
        .kind = HF_QUESTION_TRUE,
        .question = (void *)is_theirs,
        .form = HF_FREE_HOSTED,
        .maps_all = true,
        .only_pages = true,
        .hosted = &theirs,
    };
    hf_core()->foreign_publish(number, &allocator);
    if (!atomic_compare_exchange_strong(&known, &none, number))
        return none; /* two threads began; one number has no pages */
    hf_core()->ask();
    return number;
}

static void mark_pages(uintptr_t start, size_t size)
{
    const uintptr_t mask = HF_FOREIGN_PAGES_PAGE - 1, first = start & ~mask;
    const unsigned number = page_number();
    if (number != 0)
        (void)hf_core()->mark_pages((const void *)first, ((start + size + mask) & ~mask) - first,
                                    number);
}

void hf_others_given(const struct hf_cuda_given *given)
{
    const enum hf_others_memory memory = given->memory;
    unsigned source = source_of(given->map, given->release);
    if (source == 0 && hf_core()->pin(given->function) == 0)
        source = add_source(given->map, given->release);
    struct hf_others_block block = {
        .start = (uintptr_t)given->at,
        .size = given->size,
        .caller = given->caller,
        .memory = (uint8_t)memory,
        .source = (uint8_t)source,
    };
    if (given->at == NULL || given->size == 0 || block.start + block.size < block.start)
        return;
    const struct link_map *map = hf_dynlink_find(given->caller);
    block.object = map != NULL ? keep_name(hf_dynlink_name(map)) : NULL;
    const int device = hf_cuda_here(&block.context);
    /* A stream, a pool or a mapping may be of another device than the thread's. */
    const bool is_heres = memory != HF_OTHERS_POOLED && memory != HF_OTHERS_MAPPED;
    block.device = (int16_t)(is_heres ? device : -1);
    /* Marked first: whoever finds a mark looks for the block. */
    if (memory != HF_OTHERS_REGISTERED)
        mark_pages(block.start, block.size);
    (void)insert(&block);
}

/* Whether a function that is meant for one kind of memory takes another. */
static bool fits(uint8_t memory, enum hf_others_memory meant)
{
    if (meant == HF_OTHERS_DEVICE)
        return memory == HF_OTHERS_DEVICE || memory == HF_OTHERS_MANAGED ||
               memory == HF_OTHERS_POOLED;
    return memory == (uint8_t)meant;
}

bool hf_others_freeing(void *ptr, enum hf_others_memory meant, struct hf_others_block *block,
                       int *result)
{
    *block = (struct hf_others_block){.start = 0};
    struct hf_others_block found;
    if (ptr == NULL || atomic_load(&forked) || !find(ptr, &found) || found.start != (uintptr_t)ptr)
        return false;
    const bool is_right = fits(found.memory, meant);
    /* A registration and a mapping end by their own functions alone, and those free nothing. */
    if (!is_right && (meant == HF_OTHERS_REGISTERED || found.memory == HF_OTHERS_REGISTERED ||
                      found.memory == HF_OTHERS_MAPPED || found.source == 0))
        return false;
    if (!take(ptr, &found))
        return false;
    if (is_right) {
        *block = found;
        return false;
    }
    *result = release(&found) == 0 ? HF_CUDA_SUCCESS : HF_CUDA_INVALID_VALUE;
    return true;
}

void hf_others_keep(const struct hf_others_block *block)
{
    if (block->start != 0)
        (void)insert(block);
}

void hf_others_unmapped(void *at, size_t size)
{
    const uintptr_t end = (uintptr_t)at + size;
    pthread_mutex_lock(&lock);
    const size_t count = hf_others_count,
                 first = count != 0 ? index_of(entries, count, (uintptr_t)at) : 0;
    size_t last = first;
    while (last < count && load(&entries[last]).memory == HF_OTHERS_MAPPED &&
           load(&entries[last]).start < end)
        last++;
    if (last > first)
        replace(first, last, NULL);
    pthread_mutex_unlock(&lock);
}

/* ---- fork ---- */

void hf_others_in_child(void)
{
    if (atomic_load(&changes) % 2 != 0) {
        atomic_store(&torn, true);
        atomic_store(&hf_others_count, 0);
        atomic_fetch_add(&changes, 1);
    }
    if (hf_others_any() || atomic_load(&torn))
        atomic_store(&forked, true);
}
