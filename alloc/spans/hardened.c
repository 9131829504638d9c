/*
 * See hardened.h.
 */
#include "alloc/spans/hardened.h"

#include "alloc/base/fork_lock.h"
#include "alloc/heap/region.h"
#include "alloc/spans/between.h"
#include "alloc/spans/guards.h"
#include "alloc/spans/large.h"

#include <sched.h>
#include <sys/mman.h>

static uint32_t random_number(struct hf_local *local)
{
    uint64_t x = local->random;
    if (HF_UNLIKELY(x == 0))
        x = hf_guard_hash(local) | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    local->random = x;
    return (uint32_t)(x >> 32);
}

/* ---- small blocks ---- */

/* Blocks are whole words, and at least two. */
static const uint64_t *first_set(const void *block, size_t size)
{
    const uint64_t *at = block, *end = at + size / sizeof *at;
    for (; at < end; at += 2)
        if (HF_UNLIKELY((at[0] | at[1]) != 0))
            return at[0] != 0 ? at : at + 1;
    return NULL;
}

static __attribute__((noinline, cold, noreturn)) void written(const void *block, size_t size,
                                                              const void *at)
{
    const char *byte = at;
    while (*byte == 0)
        byte++;
    hf_heap_written_after_free(block, size, byte);
}

static void mark(void *block, uint8_t *state, size_t size, size_t asked)
{
    __atomic_store_n(state, HF_BUSY, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    hf_guard_mark(block, size, asked);
    __atomic_store_n(state, HF_LIVE, __ATOMIC_RELEASE);
}

/* The bin's mask is not empty. Blocks that a program takes one after the other, it mostly uses so:
 * they remain close to each other. */
enum { WINDOW = 8 };

static void *take(struct hf_local *local, struct hf_bin *bin, size_t asked)
{
    const uint64_t mask = bin->mask;
    unsigned index = (unsigned)__builtin_ctzll(mask);
    if (hf_hardened_has(HF_HARDENED_PLACES)) {
        const unsigned window = index & -(unsigned)WINDOW, turn = random_number(local) % WINDOW;
        const uint32_t some = (uint32_t)(mask >> window) & (((uint32_t)1 << WINDOW) - 1);
        const uint32_t turned = some >> turn | some << (WINDOW - turn);
        index = window + ((unsigned)__builtin_ctz(turned) + turn) % WINDOW;
    }
    bin->mask = mask & ~((uint64_t)1 << index);
    char *block = bin->group_first + (size_t)index * bin->size;
    const uint64_t *set = hf_hardened_has(HF_HARDENED_CLEAR) ? first_set(block, bin->size) : NULL;
    if (HF_UNLIKELY(set != NULL))
        written(block, bin->size, set);
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
    const size_t room = hf_guard_room(size);
    struct hf_local *local = hf_local_own();
    if (HF_UNLIKELY(local == NULL) || HF_UNLIKELY(size - 1 >= HF_LARGEST) ||
        HF_UNLIKELY(room > HF_LARGEST))
        return NULL;
    struct hf_bin *bin = &local->bins[hf_class_of(room)];
    return HF_LIKELY(bin->mask != 0) ? take(local, bin, size) : NULL;
}

void hf_hardened_resize(void *ptr, struct hf_entry *entry, size_t asked, size_t size)
{
    uint8_t *state;
    const size_t usable = hf_class_sizes[entry->class];
    (void)hf_entry_state(entry, ptr, &state);
    __atomic_store_n(state, HF_BUSY, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    hf_guard_wipe(ptr, usable, asked);
    mark(ptr, state, usable, size);
}

/* Whether the end of a neighbour is as it should be, as far as that can be told at one look: its
 * thread may be taking it or freeing it. */
static bool looks_whole(const char *block, const uint8_t *state, size_t size)
{
    const uint8_t before = __atomic_load_n(state, __ATOMIC_ACQUIRE);
    bool whole = true;
    if (before == HF_LIVE) {
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
    hf_heap_neighbour(ptr, block, caller, HF_CORRUPT_IN_FREE);
}

static void check_neighbours(char *ptr, const uint8_t *state, const struct hf_entry *entry,
                             size_t size, const void *caller)
{
    const struct hf_span *span = hf_entry_span(entry);
    const uint32_t index = (uint32_t)(state - entry->state);
    if (index != span->before && HF_UNLIKELY(!looks_whole(ptr - size, state - 1, size)))
        look_again(ptr, ptr - size, state - 1, size, caller);
    if (index + 1 < span->before + (uint32_t)span->blocks &&
        HF_UNLIKELY(!looks_whole(ptr + size, state + 1, size)))
        look_again(ptr, ptr + size, state + 1, size, caller);
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
    struct hf_freed *leaves = top - 1 - random_number(local) % hf_classes[class].stack;
    const struct hf_freed left = *leaves;
    *leaves = freed;
    set_free(local, left);
}

int hf_hardened_give(struct hf_local *local, void *ptr, struct hf_entry *entry, const void *caller)
{
    const struct hf_local *owner = __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE);
    uint8_t *state, live = HF_LIVE;
    if (owner == NULL || entry->class == HF_CLASS_NOTHING)
        return hf_span_give(local, ptr, entry);
    const unsigned class = entry->class;
    const size_t size = hf_classes[class].size;
    if (!hf_entry_state(entry, ptr, &state))
        return hf_span_check(ptr, entry);
    if (hf_hardened_has(HF_HARDENED_NEIGHBOURS))
        check_neighbours(ptr, state, entry, size, caller);
    if (!__atomic_compare_exchange_n(state, &live, HF_BUSY, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return hf_span_check(ptr, entry);
    if (hf_hardened_has(HF_HARDENED_CLEAR))
        memset(ptr, 0, size);
    else
        memset((char *)ptr + size - sizeof(uint64_t), 0, sizeof(uint64_t));
    if (owner != local) {
        hf_span_give_remote(state, entry);
        return -1;
    }
    if (hf_hardened_has(HF_HARDENED_WAIT))
        keep_waiting(local, class, (struct hf_freed){ptr, state});
    else
        set_free(local, (struct hf_freed){ptr, state});
    return -1;
}

bool hf_hardened_free(void *ptr, struct hf_entry *entry, const void *caller)
{
    uint8_t *state;
    const struct hf_local *owner = __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE);
    if (HF_UNLIKELY(owner == NULL) || HF_UNLIKELY(owner == HF_LARGE_OWNER) ||
        HF_UNLIKELY(entry->class == HF_CLASS_NOTHING) ||
        HF_UNLIKELY(!hf_entry_state(entry, ptr, &state)) ||
        HF_UNLIKELY(__atomic_load_n(state, __ATOMIC_RELAXED) != HF_LIVE))
        return false;
    (void)hf_guard_verify(ptr, hf_classes[entry->class].size, caller, HF_CORRUPT_IN_FREE);
    return hf_hardened_give(hf_local_own(), ptr, entry, caller) < 0;
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

static uint64_t seal(const uint64_t *word, uint64_t value)
{
    return value * HF_GUARD_FACTOR ^ hf_guard_hash(word);
}

static uint64_t unseal(const uint64_t *word)
{
    return (*word ^ hf_guard_hash(word)) * HF_GUARD_INVERSE;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
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
} waiting[PLACES];
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
    hf_guard_pages_open(base, size); /* the last page */
    clear(base, size);
    (void)mprotect(base, size, PROT_NONE);
}

static void allow(char *base, size_t size)
{
    if (size > KEEPS)
        hf_guard_pages_open(base, size);
    else
        (void)mprotect(base, size, PROT_READ | PROT_WRITE);
}

/* With the lock. */
static void end_waiting(size_t most, unsigned count)
{
    while (oldest != newest && (all_waiting > most || newest - oldest > count)) {
        char *base = waiting[oldest % PLACES].base;
        const size_t size = waiting[oldest % PLACES].size;
        oldest++;
        all_waiting -= weight(size);
        allow(base, size);
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
    hf_guard_pages_open(base, size);
    hf_entry_of(base)->waits = 0;
    return hf_large_give(base);
}

void hf_hardened_empty(void)
{
    pthread_mutex_lock(&lock);
    end_waiting(0, 0);
    pthread_mutex_unlock(&lock);
}
