/* The table; see errors.h. Every pointer goes through a volatile, so that the compiler does not
 * know what happens to it. */
#include "errors.h"

#include <stdint.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void *volatile hidden;

static void *hide(void *ptr)
{
    hidden = ptr;
    return hidden;
}

static char *filled(const struct family *heap, size_t size)
{
    char *p = hide(heap->malloc(size));
    memset(p, 'x', size);
    return p;
}

/* ---- freed twice ---- */

static void twice(const struct family *heap, size_t size, size_t amount)
{
    (void)amount;
    char *p = filled(heap, size);
    heap->free(p);
    heap->free(hide(p));
}

/* Frees `amount` other blocks between the two frees. */
static void interleaved(const struct family *heap, size_t size, size_t amount)
{
    enum { MOST = 300 };
    char *p = filled(heap, size), *others[MOST];
    for (size_t i = 0; i < amount; i++)
        others[i] = filled(heap, size);
    heap->free(p);
    for (size_t i = 0; i < amount; i++)
        heap->free(others[i]);
    heap->free(hide(p));
}

static void after_realloc_to_nothing(const struct family *heap, size_t size, size_t amount)
{
    (void)amount;
    char *p = filled(heap, size), *q = filled(heap, size);
    (void)hide(heap->realloc(p, 0));
    heap->free(q);
    heap->free(hide(p));
}

static void after_moving(const struct family *heap, size_t size, size_t amount)
{
    (void)amount;
    char *p = filled(heap, size);
    char *moved = hide(heap->realloc(p, 50 * size + 100000));
    heap->free(hide(p));
    heap->free(moved);
}

static void resized_after_free(const struct family *heap, size_t size, size_t amount)
{
    (void)amount;
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(p);
    heap->free(q);
    (void)hide(heap->realloc(hide(p), 2 * size));
}

static void measured_after_free(const struct family *heap, size_t size, size_t amount)
{
    (void)amount;
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(p);
    heap->free(q);
    (void)heap->usable_size(hide(p));
}

/* ---- not the start of a block ---- */

static void inside(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size);
    heap->free(hide(p + amount));
}

static void before_the_first_byte(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size);
    heap->free(hide(p - amount));
}

static void resized_inside(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size);
    (void)hide(heap->realloc(hide(p + amount), 2 * size));
}

static void never_allocated(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size);
    heap->free(hide(p + amount));
}

/* ---- wrong size ---- */

static void sized(const struct family *heap, size_t size, size_t amount)
{
    heap->free_sized(filled(heap, size), amount);
}

static void aligned_sized(const struct family *heap, size_t size, size_t amount)
{
    heap->free_aligned_sized(hide(heap->memalign(64, size)), 64, amount);
}

/* ---- past the end ---- */

static void overflow(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size), *q = filled(heap, size);
    memset(p + size, 'o', amount);
    heap->free(hide(p));
    heap->free(q);
}

static void overflow_with_zeros(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size), *q = filled(heap, size);
    memset(p + size, 0, amount);
    heap->free(hide(p));
    heap->free(q);
}

static void overflow_one_byte_further(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size), *q = filled(heap, size);
    p[size + amount - 1] ^= 0x55;
    heap->free(hide(p));
    heap->free(q);
}

static void overflow_seen_by_realloc(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size), *q = filled(heap, size);
    memset(p + size, 'o', amount);
    (void)hide(heap->realloc(hide(p), 3 * size));
    heap->free(q);
}

static void overflow_seen_by_measuring(const struct family *heap, size_t size, size_t amount)
{
    char *p = filled(heap, size), *q = filled(heap, size);
    memset(p + size, 'o', amount);
    (void)heap->usable_size(hide(p));
    heap->free(q);
}

static void overflow_after_resizing(const struct family *heap, size_t size, size_t amount)
{
    char *p = hide(heap->realloc(filled(heap, size), size / 2 + 1));
    memset(p + size / 2 + 1, 'o', amount);
    heap->free(hide(p));
}

static void overflow_of_calloc(const struct family *heap, size_t size, size_t amount)
{
    char *p = hide(heap->calloc(1, size));
    memset(p + size, 'o', amount);
    heap->free(hide(p));
}

static void overflow_of_memalign(const struct family *heap, size_t size, size_t amount)
{
    char *p = hide(heap->memalign(256, size));
    memset(p + size, 'o', amount);
    heap->free(hide(p));
}

/* ---- the table: each row is run with each of its sizes and amounts ---- */

static const size_t none[] = {0}, few_sizes[] = {24, 100, 3000, 200000},
                    sizes[] = {1, 24, 100, 1000, 10000, 200000, 3 << 20},
                    end_sizes[] = {1, 13, 24, 100, 1000, 5000, 100000}, between[] = {1, 3, 30, 300},
                    offsets[] = {1, 4, 8, 16}, backwards[] = {8, 16},
                    past[] = {1, 2, 7, 8, 9, 15, 16}, one[] = {1},
                    wrong_sizes[] = {0, 1, 23, 99, 4096},
                    far[] = {(size_t)1 << 30, ((size_t)1 << 31) + 8};

#define FREE_ALREADY "free"
#define ROW(make, text, sizes, amounts)                                 \
    {                                                                   \
#        make, make, text, sizes, COUNT(sizes), amounts, COUNT(amounts) \
    }

static const struct row {
    const char *name;
    void (*make)(const struct family *heap, size_t size, size_t amount);
    const char *text;
    const size_t *sizes;
    size_t sizes_count;
    const size_t *amounts;
    size_t amounts_count;
} rows[] = {
    ROW(twice, FREE_ALREADY, sizes, none),
    ROW(interleaved, FREE_ALREADY, few_sizes, between),
    ROW(after_realloc_to_nothing, FREE_ALREADY, few_sizes, none),
    ROW(after_moving, FREE_ALREADY, few_sizes, none),
    ROW(resized_after_free, FREE_ALREADY, few_sizes, none),
    ROW(measured_after_free, FREE_ALREADY, few_sizes, none),
    ROW(inside, "inside", few_sizes, offsets),
    ROW(before_the_first_byte, "inside", few_sizes, backwards),
    ROW(resized_inside, "inside", few_sizes, one),
    ROW(never_allocated, "no block", few_sizes, far),
    ROW(sized, "is freed as one of", few_sizes, wrong_sizes),
    ROW(aligned_sized, "is freed as one of", few_sizes, wrong_sizes),
    ROW(overflow, "were overwritten", end_sizes, past),
    ROW(overflow_with_zeros, "were overwritten", end_sizes, one),
    ROW(overflow_one_byte_further, "were overwritten", end_sizes, past),
    ROW(overflow_seen_by_realloc, "were overwritten", end_sizes, one),
    ROW(overflow_seen_by_measuring, "were overwritten", few_sizes, one),
    ROW(overflow_after_resizing, "were overwritten", end_sizes, one),
    ROW(overflow_of_calloc, "were overwritten", end_sizes, one),
    ROW(overflow_of_memalign, "were overwritten", end_sizes, one),
};

_Bool error_at(size_t number, struct error *out)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        size_t cases = row->sizes_count * row->amounts_count;
        if (number < cases) {
            *out = (struct error){row->name, row->make, row->text,
                                  row->sizes[number / row->amounts_count],
                                  row->amounts[number % row->amounts_count]};
            return 1;
        }
        number -= cases;
    }
    return 0;
}
