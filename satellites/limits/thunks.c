/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See thunks.h. Any thread, at any stage, as malloc(). Compiled with -fexceptions: operator new
 * throws through it.
 */
#include "satellites/limits/thunks.h"

#include "alloc/base/seal.h"

#include <errno.h>
#include <string.h>

enum { MALLOCS = 64, OTHERS = 512, NO_LIMIT = HF_LIMITS_COUNT };

struct place {
    void *function; /* NULL: not in use */
    uint8_t limit;  /* atomic; NO_LIMIT: it has ended */
    uint8_t kind;   /* enum hf_limit_kind */
};
static union {
    struct {
        struct place mallocs[MALLOCS], others[OTHERS];
    } it;
    char pages[HF_SEAL_SIZE(struct place[MALLOCS + OTHERS])];
} table HF_SEALED;

/* ---- malloc ---- */

static __attribute__((noinline)) void *malloc_slow(unsigned limit, size_t size)
{
    const struct hf_limits_core *const core = hf_core();
    if (limit == NO_LIMIT)
        return core->malloc(size);
    for (bool again = false;; again = true) {
        if (hf_limited_fits(&core->limited[limit], size)) {
            void *block = core->malloc(size);
            if (block == NULL)
                return NULL;
            if (core->claim(limit, block, false)) {
                hf_policy_counted(limit, block);
                return block;
            }
            core->free(block);
        }
        if (again || !hf_policy_exceeded(limit, size))
            return core->refuse(limit);
    }
}

static inline __attribute__((always_inline)) void *count_malloc(const struct place *place,
                                                                size_t size)
{
    return hf_core()->malloc_limited(__atomic_load_n(&place->limit, __ATOMIC_RELAXED), size,
                                     malloc_slow);
}

/* ---- the others ---- */

/* They have four arguments at most, all of them integers or pointers. */
typedef uintptr_t any_function(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);

static void *block_of(unsigned kind, uintptr_t result, uintptr_t first)
{
    void *block = NULL;
    if (kind != HF_LIMIT_OUT)
        return (void *)result;
    if ((int)result == 0)
        memcpy(&block, (const void *)first, sizeof block);
    return block;
}

/* The block that is resized, and its new size; NULL if there is none. */
static void *resized_block(unsigned kind, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                           size_t *size)
{
    const bool heap = kind == HF_LIMIT_HEAP_RESIZE || kind == HF_LIMIT_HEAP_RESIZE_ARRAY;
    if (kind < HF_LIMIT_RESIZE)
        return NULL;
    *size = heap ? c : b;
    if ((kind == HF_LIMIT_RESIZE_ARRAY || kind == HF_LIMIT_HEAP_RESIZE_ARRAY) &&
        __builtin_mul_overflow(*size, heap ? d : c, size))
        *size = SIZE_MAX;
    return (void *)(heap ? b : a);
}

/* The call returned no block: by how much it would have been above the limit; 0 if that was not
 * why. */
static uint64_t missing(const void *before, size_t size)
{
    if (before == NULL || errno != ENOMEM)
        return 0;
    const size_t usable = hf_core()->usable_size(before);
    return size > usable ? size - usable : 0;
}

static __attribute__((noinline)) uintptr_t count_other(const struct place *place, uintptr_t a,
                                                       uintptr_t b, uintptr_t c, uintptr_t d,
                                                       const void *caller)
{
    any_function *const function = (any_function *)place->function;
    const struct hf_limits_core *const core = hf_core();
    const unsigned limit = __atomic_load_n(&place->limit, __ATOMIC_RELAXED), kind = place->kind;
    if (__builtin_expect(limit == NO_LIMIT, 0))
        return function(a, b, c, d);
    const int saved_errno = errno;
    size_t size = 0;
    void *before = resized_block(kind, a, b, c, d, &size);
    for (bool again = false;;) {
        uint64_t asked = before != NULL ? core->growth(limit, before, size) : 0;
        const bool called = asked == 0 || hf_limited_fits(&core->limited[limit], asked);
        void *block = NULL;
        if (called) {
            if (before != NULL)
                errno = 0; /* or an older one would be taken for this call's */
            const uintptr_t result = function(a, b, c, d);
            block = block_of(kind, result, a);
            const bool counted = block != NULL && core->claim(limit, block, before != NULL);
            asked = counted || (before != NULL && kind == HF_LIMIT_RESIZE_OR_FREE) ? 0
                    : block != NULL ? core->usable_size(block)
                                    : missing(before, size);
            if (before != NULL && errno == 0)
                errno = saved_errno;
            if (counted)
                hf_policy_counted(limit, block);
            if (asked == 0)
                return result;
        }
        if (block != NULL)
            core->free(block);
        if (!again && hf_policy_exceeded(limit, asked)) {
            again = true;
            continue;
        }
        if (before == NULL || !called)
            (void)core->refuse(limit); /* otherwise the heap has counted it */
        if (kind == HF_LIMIT_RESIZE_OR_FREE)
            core->free(before);
        errno = ENOMEM;
        if (kind != HF_LIMIT_THROWS)
            return kind == HF_LIMIT_OUT ? ENOMEM : 0;
        core->new_failed(caller); /* throws, or has called the new handler */
    }
}

/* ---- the table ---- */

#define CALL_MALLOC(number)                                           \
    static void *malloc_##number(size_t size)                         \
    {                                                                 \
        return count_malloc(&table.it.mallocs[HF_HEX(number)], size); \
    }
#define CALL_OTHER(number)                                                              \
    static uintptr_t other_##number(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) \
    {                                                                                   \
        return count_other(&table.it.others[HF_HEX(number)], a, b, c, d,                \
                           __builtin_return_address(0));                                \
    }
#define ADDRESS_MALLOC(number) (void *)malloc_##number,
#define ADDRESS_OTHER(number)  (void *)other_##number,

/* Three digits of sixteen. */
#define HF_HEX(number) 0x##number
/* clang-format off */
#define EACH_16(F, first)                                                               \
    F(first##0) F(first##1) F(first##2) F(first##3) F(first##4) F(first##5) F(first##6) \
    F(first##7) F(first##8) F(first##9) F(first##a) F(first##b) F(first##c) F(first##d) \
    F(first##e) F(first##f)
#define EACH_64(F, first) \
    EACH_16(F, first##0) EACH_16(F, first##1) EACH_16(F, first##2) EACH_16(F, first##3)
#define EACH_256(F, first)                                                              \
    EACH_64(F, first)                                                                   \
    EACH_16(F, first##4) EACH_16(F, first##5) EACH_16(F, first##6) EACH_16(F, first##7) \
    EACH_16(F, first##8) EACH_16(F, first##9) EACH_16(F, first##a) EACH_16(F, first##b) \
    EACH_16(F, first##c) EACH_16(F, first##d) EACH_16(F, first##e) EACH_16(F, first##f)
#define EACH_512(F) EACH_256(F, 0) EACH_256(F, 1)
/* clang-format on */
_Static_assert(MALLOCS == 64 && OTHERS == 512, "as many are made");

EACH_64(CALL_MALLOC, 0)
EACH_512(CALL_OTHER)
static void *const malloc_thunks[MALLOCS] = {EACH_64(ADDRESS_MALLOC, 0)};
static void *const other_thunks[OTHERS] = {EACH_512(ADDRESS_OTHER)};

/* The place of that function, or a new one. */
static size_t find_place(const struct place *places, size_t count, unsigned limit, unsigned kind,
                         const void *function)
{
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        const struct place *place = &places[i];
        if (place->function == NULL)
            return found < count ? found : i;
        if (place->function == function && place->kind == kind) {
            if (place->limit == limit)
                return i;
            if (place->limit == NO_LIMIT)
                found = i;
        }
    }
    return found;
}

void *hf_thunk_for(unsigned limit, enum hf_limit_kind kind, void *function)
{
    struct place *places = kind == HF_LIMIT_MALLOC ? table.it.mallocs : table.it.others;
    const size_t count = kind == HF_LIMIT_MALLOC ? MALLOCS : OTHERS;
    const size_t at = find_place(places, count, limit, kind, function);
    struct hf_seal seal;
    if (at == count)
        return NULL;
    if (places[at].function == NULL || places[at].limit != limit) {
        if (!hf_seal_open(&seal))
            return NULL;
        places[at].kind = (uint8_t)kind;
        places[at].function = function;
        __atomic_store_n(&places[at].limit, (uint8_t)limit, __ATOMIC_RELEASE);
        hf_seal_close(&seal);
    }
    return kind == HF_LIMIT_MALLOC ? malloc_thunks[at] : other_thunks[at];
}

static const struct place *place_at(const void *address)
{
    for (size_t i = 0; i < MALLOCS && table.it.mallocs[i].function != NULL; i++)
        if (malloc_thunks[i] == address)
            return &table.it.mallocs[i];
    for (size_t i = 0; i < OTHERS && table.it.others[i].function != NULL; i++)
        if (other_thunks[i] == address)
            return &table.it.others[i];
    return NULL;
}

void *hf_thunk_function(const void *address, unsigned *limit)
{
    const struct place *place = place_at(address);
    if (place == NULL)
        return NULL;
    *limit = place->limit;
    return place->function;
}

static void end_places(struct place *places, size_t count, unsigned limit)
{
    for (size_t i = 0; i < count; i++)
        if (places[i].function != NULL && places[i].limit == limit)
            __atomic_store_n(&places[i].limit, NO_LIMIT, __ATOMIC_RELEASE);
}

void hf_thunks_end(unsigned limit)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    end_places(table.it.mallocs, MALLOCS, limit);
    end_places(table.it.others, OTHERS, limit);
    hf_seal_close(&seal);
}
