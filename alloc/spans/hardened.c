/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See hardened.h.
 */
#include "alloc/spans/hardened.h"

#include "alloc/base/apart.h"
#include "alloc/base/fork_lock.h"
#include "alloc/heap/region.h"
#include "alloc/spans/between.h"
#include "alloc/spans/guards.h"
#include "alloc/spans/large.h"

#include <sched.h>
#include <sys/mman.h>

/* Below a limit. */
static inline uint32_t random_number(struct hf_local *local, uint32_t limit)
{
    uint64_t x = local->random;
    if (HF_UNLIKELY(x == 0))
        x = hf_guard_hash(local);
    x = x * UINT64_C(0x5851f42d4c957f2d) + UINT64_C(0x14057b7ef767814f);
    local->random = x;
    return (uint32_t)((x >> 32) * limit >> 32);
}

/* ---- small blocks ---- */

/* Blocks are multiples of HF_GRAIN. Those of at most four parts, of a grain or a line, are taken as
 * four that may overlap, because no processor foresees how often a loop over a block runs. */
typedef uint64_t pair __attribute__((vector_size(HF_GRAIN), may_alias));
static const size_t GRAIN = HF_GRAIN, LINE = (size_t)4 * HF_GRAIN, SEVERAL = (size_t)16 * HF_GRAIN;

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline pair look_at(const char *at)
{
    return *(const pair *)__builtin_assume_aligned(at, HF_GRAIN);
}

static inline pair look_at_line(const char *at)
{
    return look_at(at) | look_at(at + GRAIN) | look_at(at + 2 * GRAIN) | look_at(at + 3 * GRAIN);
}

static inline __attribute__((always_inline)) bool is_clear(const char *block, size_t size)
{
    const size_t grain = size - GRAIN, line = size - LINE;
    pair set;
    if (size <= LINE) {
        set = look_at(block) | look_at(block + least(GRAIN, grain)) |
              look_at(block + least(2 * GRAIN, grain)) | look_at(block + grain);
    } else {
        set = look_at_line(block + line);
        for (size_t i = 0; size > SEVERAL && i < line; i += LINE)
            set |= look_at_line(block + i);
        if (size <= SEVERAL)
            set |= look_at_line(block) | look_at_line(block + least(LINE, line)) |
                   look_at_line(block + least(2 * LINE, line));
    }
    return (set[0] | set[1]) == 0;
}

static inline void clear_at(char *at)
{
    *(pair *)__builtin_assume_aligned(at, HF_GRAIN) = (pair){0, 0};
}

static inline void clear_line(char *at)
{
    clear_at(at);
    clear_at(at + GRAIN);
    clear_at(at + 2 * GRAIN);
    clear_at(at + 3 * GRAIN);
}

/* Calls of memset() cost more than most blocks' bytes. */
static inline __attribute__((always_inline)) void clear_block(char *block, size_t size)
{
    const size_t grain = size - GRAIN, line = size - LINE;
    if (size <= LINE) {
        clear_at(block);
        clear_at(block + least(GRAIN, grain));
        clear_at(block + least(2 * GRAIN, grain));
        clear_at(block + grain);
    } else if (size <= SEVERAL) {
        clear_line(block);
        clear_line(block + least(LINE, line));
        clear_line(block + least(2 * LINE, line));
        clear_line(block + line);
    } else {
        memset(block, 0, size);
    }
}

static __attribute__((noinline, cold, noreturn)) void written(const void *block, size_t size)
{
    const char *byte = block;
    while (*byte == 0)
        byte++;
    hf_heap_written_after_free(block, size, byte);
}

static inline void mark(void *block, uint8_t *state, size_t size, size_t asked)
{
    __atomic_store_n(state, HF_BUSY, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    hf_guard_mark(block, size, asked);
    __atomic_store_n(state, HF_LIVE, __ATOMIC_RELEASE);
}

/* Blocks that a program takes one after the other, it mostly uses so, and processors foresee that:
 * so a block is drawn from the free ones of eight neighbours, or of four if they are large.
 * Anything wider, several rows or strides too, takes up to twice as long. */
static inline unsigned window_of(size_t size)
{
    enum { SMALL = 96 };
    unsigned window = size <= SMALL ? 8 : 4;
    __asm__("" : "+r"(window)); /* or the compiler compares at each use */
    return window;
}

/* The bin's mask is not empty. */
static inline __attribute__((always_inline)) void *take(struct hf_local *local, struct hf_bin *bin,
                                                        size_t asked)
{
    const uint64_t mask = bin->mask;
    unsigned index = (unsigned)__builtin_ctzll(mask);
    if (hf_hardened_has(HF_HARDENED_PLACES)) {
        const unsigned width = window_of(bin->size), window = index & -width;
        const unsigned turn = random_number(local, width);
        const uint32_t some = (uint32_t)(mask >> window) & (((uint32_t)1 << width) - 1);
        const uint32_t turned = (some | some << width) >> turn;
        index = window + (((unsigned)__builtin_ctz(turned) + turn) & (width - 1));
    }
    bin->mask = mask & ~((uint64_t)1 << index);
    char *block = bin->group_first + (size_t)index * bin->size;
    if (hf_hardened_has(HF_HARDENED_CLEAR) && HF_UNLIKELY(!is_clear(block, bin->size)))
        written(block, bin->size);
    mark(block, bin->group_state + index, bin->size, asked);
    return block;
}

void *hf_hardened_take(struct hf_local *local, unsigned class, size_t asked)
{
    struct hf_bin *bin = &local->bins[class];
    return HF_LIKELY(bin->mask != 0) || hf_bin_refill(local, class) ? take(local, bin, asked)
                                                                    : NULL;
}

void *hf_hardened_malloc(size_t size)
{
    struct hf_local *local = hf_local_own();
    if (HF_UNLIKELY(local == NULL) || HF_UNLIKELY(size - 1 >= HF_LARGEST - hf_guards.least))
        return NULL;
    struct hf_bin *bin = &local->bins[hf_class_of(size + hf_guards.least)];
    return HF_LIKELY(bin->mask != 0) ? take(local, bin, size) : NULL;
}

void hf_hardened_resize(void *ptr, struct hf_entry *entry, size_t asked, size_t size)
{
    uint8_t *state;
    const size_t usable = hf_class_sizes[entry->class];
    (void)hf_entry_state(entry, ptr, &state);
    const uint8_t before = __atomic_load_n(state, __ATOMIC_RELAXED);
    __atomic_store_n(state, HF_BUSY, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    hf_guard_wipe(ptr, usable, asked);
    mark(ptr, state, usable, size);
    if (HF_UNLIKELY(before != HF_LIVE))
        __atomic_store_n(state, before, __ATOMIC_RELEASE);
}

/* Whether the end of a neighbour is as it should be, as far as that can be told at one look: its
 * thread may be taking it or freeing it. */
static inline __attribute__((always_inline)) bool looks_whole(const char *block,
                                                              const uint8_t *state, size_t size)
{
    const uint8_t before = __atomic_load_n(state, __ATOMIC_ACQUIRE);
    bool whole = true;
    if (hf_state_is_live(before)) {
        const size_t asked = hf_guard_asked(block, size);
        whole = hf_guard_is_possible(size, asked) && hf_guard_is_whole(block, size, asked);
    } else if (before != HF_NONE && before != HF_BUSY && hf_hardened_has(HF_HARDENED_CLEAR)) {
        whole = *((const uint64_t *)(const void *)(block + size) - 1) == 0;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return whole && __atomic_load_n(state, __ATOMIC_RELAXED) == before;
}

/* What is wrong at every look is wrong. */
static __attribute__((noinline)) void look_again(const void *ptr, const char *block,
                                                 const uint8_t *state, size_t size,
                                                 const void *caller)
{
    enum { LOOKS = 100 };
    for (int i = 0; i < LOOKS; i++) {
        if (looks_whole(block, state, size))
            return;
        (void)sched_yield();
    }
    hf_heap_neighbour(ptr, block, caller);
}

/* Of the block in front: what it wrote past its end may be in this one. What this one, or the block
 * behind it, wrote past theirs shows in their own guards. */
static inline __attribute__((always_inline)) void check_neighbour(char *ptr, const uint8_t *state,
                                                                  size_t size, const void *caller)
{
    if (HF_UNLIKELY(!looks_whole(ptr - size, state - 1, size)))
        look_again(ptr, ptr - size, state - 1, size, caller);
}

static void set_free(struct hf_local *local, struct hf_freed freed)
{
    struct hf_span *span = hf_entry_span(hf_entry_of(freed.block));
    __atomic_store_n(freed.state, HF_FREE, __ATOMIC_RELEASE);
    if (HF_UNLIKELY(++span->free == span->when))
        hf_span_reached(local, span);
}

static void keep_waiting(struct hf_local *local, unsigned class, struct hf_freed freed)
{
    struct hf_freed *top = local->tops[class] + 1;
    __atomic_store_n(freed.state, HF_STACKED, __ATOMIC_RELEASE);
    if (top != local->limits[class]) {
        *top = freed;
        local->tops[class] = top;
        return;
    }
    struct hf_freed *leaves = top - 1 - random_number(local, hf_classes[class].stack);
    const struct hf_freed left = *leaves;
    *leaves = freed;
    set_free(local, left);
}

/* A block that is BUSY. */
static inline __attribute__((always_inline)) void give(struct hf_local *local, char *ptr,
                                                       uint8_t *state, struct hf_entry *entry,
                                                       const struct hf_local *owner)
{
    const size_t size = hf_classes[entry->class].size;
    if (hf_hardened_has(HF_HARDENED_CLEAR))
        clear_block(ptr, size);
    else
        memset(ptr + size - sizeof(uint64_t), 0, sizeof(uint64_t));
    if (owner != local)
        hf_span_give_remote(state, entry);
    else if (hf_hardened_has(HF_HARDENED_WAIT))
        keep_waiting(local, entry->class, (struct hf_freed){ptr, state});
    else
        set_free(local, (struct hf_freed){ptr, state});
}

int hf_hardened_give(struct hf_local *local, void *ptr, struct hf_entry *entry, const void *caller)
{
    const struct hf_local *owner = __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE);
    uint8_t *state, live = HF_LIVE;
    if (owner == NULL || entry->class == HF_CLASS_NOTHING)
        return hf_span_give(local, ptr, entry);
    if (!hf_entry_state(entry, ptr, &state))
        return hf_span_check(ptr, entry);
    if (hf_hardened_has(HF_HARDENED_NEIGHBOURS))
        check_neighbour(ptr, state, hf_classes[entry->class].size, caller);
    if (!__atomic_compare_exchange_n(state, &live, HF_BUSY, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return hf_span_check(ptr, entry);
    give(local, ptr, state, entry, owner);
    return -1;
}

/* The state of a live block of the calling thread's that has a guard; NULL if it is not that. */
static inline uint8_t *own_block(const struct hf_local *local, const void *ptr,
                                 const struct hf_entry *entry)
{
    uint8_t *state;
    return HF_LIKELY(local != NULL) &&
                   HF_LIKELY(__atomic_load_n(&entry->owner, __ATOMIC_RELAXED) == local) &&
                   HF_LIKELY(entry->class != HF_CLASS_NOTHING) &&
                   HF_LIKELY(hf_entry_state(entry, ptr, &state)) &&
                   HF_LIKELY(__atomic_load_n(state, __ATOMIC_RELAXED) == HF_LIVE)
               ? state
               : NULL;
}

/* As in the other tiers, the owner alone turns LIVE into something else without an exchange. */
static inline __attribute__((always_inline)) void give_own(struct hf_local *local, void *ptr,
                                                           uint8_t *state, struct hf_entry *entry,
                                                           const void *caller)
{
    if (hf_hardened_has(HF_HARDENED_NEIGHBOURS))
        check_neighbour(ptr, state, hf_classes[entry->class].size, caller);
    __atomic_store_n(state, HF_BUSY, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    give(local, ptr, state, entry, local);
}

/* Another local heap's block, or what the slow path knows what is wrong with. */
static __attribute__((noinline)) bool free_elsewhere(struct hf_local *local, void *ptr,
                                                     struct hf_entry *entry, const void *caller)
{
    uint8_t *state;
    if (!hf_entry_has_span(entry) || entry->class == HF_CLASS_NOTHING ||
        !hf_entry_state(entry, ptr, &state) || __atomic_load_n(state, __ATOMIC_RELAXED) != HF_LIVE)
        return false;
    (void)hf_guard_verify(ptr, hf_classes[entry->class].size, caller, HF_CORRUPT_IN_FREE);
    return hf_hardened_give(local, ptr, entry, caller) < 0;
}

bool hf_hardened_free(void *ptr, struct hf_entry *entry, const void *caller)
{
    struct hf_local *local = hf_local_own();
    uint8_t *state = own_block(local, ptr, entry);
    if (HF_UNLIKELY(state == NULL))
        return free_elsewhere(local, ptr, entry, caller);
    (void)hf_guard_verify(ptr, hf_classes[entry->class].size, caller, HF_CORRUPT_IN_FREE);
    give_own(local, ptr, state, entry, caller);
    return true;
}

void *hf_hardened_realloc(void *ptr, size_t size, const void *caller)
{
    struct hf_local *local = hf_local_own();
    struct hf_entry *entry = hf_entry_of(ptr);
    uint8_t *state = own_block(local, ptr, entry);
    const size_t capacity = hf_guard_capacity(size);
    if (state == NULL || size - 1 >= HF_LARGEST || capacity > HF_LARGEST)
        return NULL;
    const size_t usable = hf_classes[entry->class].size;
    const size_t asked = hf_guard_verify(ptr, usable, caller, HF_CORRUPT_IN_REALLOC);
    if (hf_class_of(capacity) == entry->class) {
        hf_hardened_resize(ptr, entry, asked, size);
        return ptr;
    }
    void *moved = hf_hardened_malloc(size);
    if (moved != NULL) {
        memcpy(moved, ptr, size < asked ? size : asked);
        give_own(local, ptr, state, entry, caller);
    }
    return moved;
}

/* ---- large blocks ---- */

/*
 * A block of large.h that holds, one after the other: two sealed words, the requested size and the
 * offset of its first byte; a canary; the program's bytes, aligned, as far behind as they can be; a
 * canary, with checks:full a whole one, otherwise less than the alignment; the page that nobody may
 * touch. An entry's `waits` says that
 * nobody may touch any of it.
 */

enum { WORDS = 2 * sizeof(uint64_t), CANARY = 64 };

struct place {
    size_t offset, whole; /* whole: with the page */
};

static struct place place_of(size_t size, size_t alignment)
{
    alignment = alignment > WORDS ? alignment : WORDS;
    struct place place;
    size += hf_guards.large;
    if (alignment <= hf_page_size) {
        const size_t open = (size + alignment + hf_page_size - 1) & -hf_page_size;
        place.offset = (open - size) & -alignment;
        place.whole = open + hf_guard_page();
    } else {
        place.offset = alignment;
        place.whole = ((alignment + size + hf_page_size - 1) & -hf_page_size) + hf_guard_page();
    }
    return place;
}

size_t hf_hardened_large_whole(size_t size)
{
    return place_of(size, 0).whole;
}

static uint64_t seal(const uint64_t *word, uint64_t value)
{
    return value * HF_GUARD_FACTOR ^ hf_guard_hash(word);
}

static uint64_t unseal(const uint64_t *word)
{
    return (*word ^ hf_guard_hash(word)) * HF_GUARD_INVERSE;
}

/* Both canaries: of the bytes of one repeated word. */
struct canary {
    unsigned char *at;
    size_t size;
};

static struct canary front(unsigned char *base, size_t offset)
{
    const size_t size = least(offset - WORDS, CANARY);
    return (struct canary){base + offset - size, size};
}

static struct canary behind(unsigned char *base, size_t offset, size_t size, size_t whole)
{
    unsigned char *at = base + offset + size;
    return (struct canary){at, least((size_t)(base + whole - hf_guard_page() - at), CANARY)};
}

static unsigned char canary_byte(const unsigned char *base, const unsigned char *at)
{
    return (unsigned char)(hf_guard_pattern(hf_guard_hash(base)) >> (uintptr_t)at % 8 * 8);
}

static void write_canary(const unsigned char *base, struct canary canary)
{
    for (size_t i = 0; i < canary.size; i++)
        canary.at[i] = canary_byte(base, canary.at + i);
}

static bool is_whole(const unsigned char *base, struct canary canary)
{
    unsigned char different = 0;
    for (size_t i = 0; i < canary.size; i++)
        different |= canary.at[i] ^ canary_byte(base, canary.at + i);
    return different == 0;
}

void *hf_hardened_take_large(size_t size, size_t alignment, bool zeroed)
{
    const struct place place = place_of(size, alignment);
    if (size > PTRDIFF_MAX / 2 || place.whole < size)
        return NULL;
    unsigned char *base =
        hf_large_take(place.whole, alignment > hf_page_size ? alignment : hf_page_size, zeroed);
    if (base == NULL)
        return NULL;
    uint64_t *words = (uint64_t *)(void *)base;
    words[0] = seal(&words[0], size);
    words[1] = seal(&words[1], place.offset);
    write_canary(base, front(base, place.offset));
    write_canary(base, behind(base, place.offset, size, place.whole));
    if (hf_guard_page() != 0)
        hf_guard_pages_close((char *)base + place.whole - hf_page_size, hf_page_size);
    return base + place.offset;
}

size_t hf_hardened_check_large(const void *ptr, const void *caller, enum hf_corruption purpose,
                               int *wrong)
{
    const void *block;
    const size_t whole = hf_large_holds(ptr, &block);
    unsigned char *base = (unsigned char *)(uintptr_t)block;
    *wrong = HF_CORRUPT_NO_BLOCK;
    if (whole == 0)
        return 0;
    *wrong = HF_CORRUPT_FREED;
    if (hf_entry_of(base)->waits)
        return 0;
    const uint64_t *words = (const uint64_t *)(const void *)base;
    const size_t size = unseal(&words[0]), offset = unseal(&words[1]);
    if (size > whole || offset > whole || offset < WORDS)
        hf_heap_overflowed(ptr, caller, purpose, SIZE_MAX);
    *wrong = HF_CORRUPT_INSIDE;
    if ((const unsigned char *)ptr != base + offset)
        return 0;
    const size_t end = offset + size + hf_guards.large;
    const size_t used = ((end + hf_page_size - 1) & -hf_page_size) + hf_guard_page();
    if (!is_whole(base, front(base, offset)) || !is_whole(base, behind(base, offset, size, used)))
        hf_heap_overflowed(ptr, caller, purpose, size);
    *wrong = -1;
    return size;
}

size_t hf_hardened_holds_large(const void *ptr, const void **block)
{
    size_t size = hf_large_holds(ptr, block), offset;
    if (size == 0 || hf_entry_of(*block)->waits) {
        *block = NULL;
        return 0;
    }
    const uint64_t *words = *block;
    size = unseal(&words[0]);
    offset = unseal(&words[1]);
    *block = (const char *)*block + offset;
    if (ptr == *block || (uintptr_t)ptr - (uintptr_t)*block < size)
        return size;
    *block = NULL;
    return 0;
}

const void *hf_hardened_first(const void *base)
{
    return hf_entry_of(base)->waits ? NULL
                                    : (const char *)base + unseal((const uint64_t *)base + 1);
}

/* Those that wait, the oldest at `next`. */
enum { PLACES = 64 };
static const size_t MOST_WAITING = (size_t)64 << 20;
static struct {
    char *base;
    size_t size;
} waiting[PLACES] HF_APART;
static unsigned oldest, newest; /* counted up; places are taken from the first to the second */
static size_t all_waiting;
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

/* Nobody may touch a block that waits, nor find in it later what it held. Clearing pages takes less
 * time than new ones do. */
enum { KEEPS = 4 << 20, LOOKS = 256 };

/* Those that keep their pages weigh more. */
static size_t weight(size_t size)
{
    return size > KEEPS ? size : 8 * size;
}

/* What has memory. */
static void clear(char *base, size_t size)
{
    unsigned char present[LOOKS];
    for (size_t part; size != 0; base += part, size -= part) {
        part = least(size, LOOKS * hf_page_size);
        const bool known = mincore(base, part, present) == 0;
        for (size_t i = 0; i < part / hf_page_size; i++)
            if (!known || (present[i] & 1) != 0)
                memset(base + i * hf_page_size, 0, hf_page_size);
    }
}

static void forbid(char *base, size_t size)
{
    if (size > KEEPS) {
        hf_guard_pages_close(base, size);
        return;
    }
    if (hf_guard_pages_open(base, size)) /* the last page */
        clear(base, size);
    (void)mprotect(base, size, PROT_NONE);
}

static bool allow(char *base, size_t size)
{
    return size > KEEPS ? hf_guard_pages_open(base, size)
                        : mprotect(base, size, PROT_READ | PROT_WRITE) == 0;
}

/* With the lock. */
static void end_waiting(size_t most, unsigned count)
{
    while (oldest != newest && (all_waiting > most || newest - oldest > count)) {
        char *base = waiting[oldest % PLACES].base;
        const size_t size = waiting[oldest % PLACES].size;
        oldest++;
        all_waiting -= weight(size);
        if (HF_UNLIKELY(!allow(base, size)))
            continue; /* it waits for ever */
        hf_entry_of(base)->waits = 0;
        (void)hf_large_give(base);
    }
}

int hf_hardened_give_large(void *ptr)
{
    const void *block;
    uint8_t waits = 0;
    const size_t size = hf_large_holds(ptr, &block);
    char *base = (char *)(uintptr_t)block;
    if (size == 0 || !__atomic_compare_exchange_n(&hf_entry_of(base)->waits, &waits, 1, false,
                                                  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return HF_CORRUPT_FREED;
    if (hf_hardened_has(HF_HARDENED_WAIT)) {
        forbid(base, size);
        pthread_mutex_lock(&lock);
        end_waiting(MOST_WAITING, PLACES - 1);
        waiting[newest % PLACES].base = base;
        waiting[newest++ % PLACES].size = size;
        all_waiting += weight(size);
        end_waiting(MOST_WAITING, PLACES);
        pthread_mutex_unlock(&lock);
        return -1;
    }
    if (HF_UNLIKELY(!hf_guard_pages_open(base, size)))
        return -1; /* it waits for ever */
    hf_entry_of(base)->waits = 0;
    return hf_large_give(base);
}

int hf_hardened_defer_large(const void *ptr, const void *caller)
{
    const void *base;
    return hf_large_holds(ptr, &base) != 0 && !hf_entry_of(base)->waits
               ? hf_large_defer(base, caller)
               : HF_CORRUPT_FREED;
}

void hf_hardened_move(char *to, size_t capacity, char *from, size_t size)
{
    const size_t head = -(uintptr_t)from & (hf_page_size - 1);
    if (size > KEEPS) {
        const size_t whole = (size - head) & -hf_page_size;
        memcpy(to, from, head);
        to += head, from += head, size -= head;
        if (((uintptr_t)to & (hf_page_size - 1)) == 0 && capacity - head > whole + hf_page_size &&
            hf_region_moves(whole)) {
            /* Where no pages could be mapped again, they are when the block has waited, or it waits
             * for ever. */
            (void)hf_region_move(to, whole + hf_page_size, from, whole);
            to += whole, from += whole, size -= whole;
        }
        for (; size > KEEPS; to += KEEPS, from += KEEPS, size -= KEEPS) {
            memcpy(to, from, KEEPS);
            (void)madvise(from, KEEPS, MADV_DONTNEED);
        }
    }
    memcpy(to, from, size);
}

void hf_hardened_empty(void)
{
    pthread_mutex_lock(&lock);
    end_waiting(0, 0);
    pthread_mutex_unlock(&lock);
}
