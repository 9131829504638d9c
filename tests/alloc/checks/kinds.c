/* The table; see kinds.h. Every pointer goes through a volatile, so that the compiler does not know
 * what happens to it. */
#include "kinds.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum {
    SECRET = 0x5a,
    MOST = 400,
    FAR = 1 << 20 /* behind any span, and where a loop that runs away ends */
};

static void *volatile hidden;

static char *hide(void *ptr)
{
    hidden = ptr;
    return hidden;
}

static char *filled(const struct family *heap, size_t size)
{
    char *p = hide(heap->malloc(size));
    memset(p, SECRET, size);
    return p;
}

/* A call that does nothing for the program, but is one more occasion to look at the heap: enough of
 * them that the blocks freed earlier no longer wait. */
static void go_on(const struct family *heap, size_t size)
{
    const size_t calls = size > 100000 ? 300 : 20000;
    for (size_t i = 0; i < calls; i++)
        heap->free(hide(heap->malloc(size)));
}

/* Blocks of one size, of which one is in the middle. */
struct crowd {
    char *all[MOST];
    size_t count;
};

static char *middle_of(const struct family *heap, size_t size, struct crowd *crowd)
{
    crowd->count = size > 100000 ? 20 : MOST;
    for (size_t i = 0; i < crowd->count; i++)
        crowd->all[i] = filled(heap, size);
    return hide(crowd->all[crowd->count / 2]);
}

static void free_others(const struct family *heap, const struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->count; i++)
        if (i != crowd->count / 2)
            heap->free(crowd->all[i]);
}

static void free_crowd(const struct family *heap, const struct crowd *crowd)
{
    heap->free(crowd->all[crowd->count / 2]);
    free_others(heap, crowd);
}

/* ---- overflow and underflow: writes, and one read ---- */

/* A byte that is there already, as one of a canary may be, would be no error. */
static void write_at(const struct family *heap, size_t size, ptrdiff_t offset, size_t length,
                     int value)
{
    struct crowd crowd;
    char *p = middle_of(heap, size, &crowd);
    if (length == 1 && p[offset] == value)
        p = hide(crowd.all[crowd.count / 2 - 1]);
    memset(hide(p + offset), value, length);
    free_crowd(heap, &crowd);
}

static void one_byte_past(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, (ptrdiff_t)size, 1, 'o');
}

static void terminator_past(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, (ptrdiff_t)size, 1, 0);
}

static void word_past(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, (ptrdiff_t)size, 8, 'o');
}

static void line_past(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, (ptrdiff_t)size, 64, 'o');
}

static void page_past(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, (ptrdiff_t)size, 4096, 'o');
}

static void runs_away(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, (ptrdiff_t)size, FAR, 'o');
}

static void reads_away(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    const volatile char *p = filled(heap, size);
    unsigned sum = 0;
    for (size_t i = 0; i < FAR; i++)
        sum += (unsigned char)p[size + i];
    hidden = (void *)(uintptr_t)sum;
}

static void one_byte_before(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, -1, 1, 'u');
}

static void word_before(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, -8, 8, 'u');
}

static void line_before(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    write_at(heap, size, -64, 64, 'u');
}

static void past_the_shrunk(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    const size_t less = size - size / 4;
    char *p = hide(heap->realloc(filled(heap, size), less));
    p[less] = 'o';
    heap->free(hide(p));
}

static void past_and_resized(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    struct crowd crowd;
    char *p = middle_of(heap, size, &crowd);
    memset(p + size, 'o', 8);
    p = hide(heap->realloc(p, 3 * size));
    heap->free(p);
    free_others(heap, &crowd);
}

/* Who overflows stays; its neighbours go. */
static void past_of_one_that_stays(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    struct crowd crowd;
    char *p = middle_of(heap, size, &crowd);
    memset(p + size, 'o', 16);
    free_others(heap, &crowd);
}

/* ---- freed twice ---- */

static void twice(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size);
    heap->free(p);
    heap->free(hide(p));
}

static void twice_with_another_between(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(p);
    heap->free(q);
    heap->free(hide(p));
}

static void twice_with_many_between(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    struct crowd crowd;
    char *p = middle_of(heap, size, &crowd);
    free_crowd(heap, &crowd);
    heap->free(hide(p));
}

struct errand {
    const struct family *heap;
    char *p;
};

static void *frees(void *context)
{
    const struct errand *errand = context;
    errand->heap->free(errand->p);
    return NULL;
}

static void twice_by_two_threads(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    struct errand errand = {heap, filled(heap, size)};
    pthread_t thread;
    if (pthread_create(&thread, NULL, frees, &errand) != 0 || pthread_join(thread, NULL) != 0)
        _exit(1);
    heap->free(hide(errand.p));
}

static void freed_after_it_moved(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size), *q = filled(heap, size);
    char *moved = hide(heap->realloc(p, 50 * size + 100000));
    if (moved == p)
        _exit(KIND_PREVENTED); /* there was no second block */
    heap->free(hide(p));
    heap->free(q);
}

/* ---- not the first byte of a block ---- */

static void free_at(const struct family *heap, size_t size, ptrdiff_t offset)
{
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(hide(p + offset));
    heap->free(q);
}

static void second_byte(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    free_at(heap, size, 1);
}

static void second_word(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    free_at(heap, size, 4);
}

static void middle(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    free_at(heap, size, (ptrdiff_t)(size / 2));
}

static void one_past_the_end(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    free_at(heap, size, (ptrdiff_t)size);
}

/* A header that the program thinks is in front. */
static void word_in_front(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    free_at(heap, size, -8);
}

static void never_allocated(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    free_at(heap, size, (ptrdiff_t)1 << 31);
}

static void variable(const struct family *heap, size_t size, size_t unused)
{
    static _Alignas(64) char words[64];
    (void)unused, (void)size;
    heap->free(hide(words + size % sizeof words));
}

static void stack(const struct family *heap, size_t size, size_t unused)
{
    _Alignas(64) char words[64] = "";
    (void)unused, (void)size;
    heap->free(hide(words));
}

/* ---- mismatched delete and size ---- */

static void sized(const struct family *heap, size_t size, size_t said)
{
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free_sized(hide(p), said);
    heap->free_sized(q, size);
}

static void half_the_size(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    sized(heap, size, size / 2);
}

static void twice_the_size(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    sized(heap, size, 2 * size);
}

static void a_byte_more(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    sized(heap, size, size + 1);
}

static void ten_times_the_size(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    sized(heap, size, 10 * size);
}

static void no_size(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    sized(heap, size, 0);
}

static void wrong_alignment(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *all[MOST];
    for (size_t i = 0; i < MOST; i++) {
        all[i] = filled(heap, size);
        if ((uintptr_t)all[i] % ((size_t)1 << 21) == 0)
            continue;
        heap->free_aligned_sized(hide(all[i]), (size_t)1 << 21, size);
        return;
    }
}

/* ---- use after free, reuse, zeroing ---- */

static void written_after_free(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(p);
    memset(hide(p), 'w', 4);
    go_on(heap, size);
    heap->free(q);
}

static void read_after_free(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(p);
    p = hide(p);
    size_t found = 0;
    for (size_t i = 0; i < size; i++)
        found += p[i] == SECRET;
    heap->free(q);
    if (found == 0)
        _exit(KIND_PREVENTED);
}

static void resized_after_free(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(p);
    heap->free(q);
    (void)hide(heap->realloc(hide(p), 2 * size));
}

static void measured_after_free(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size), *q = filled(heap, size);
    heap->free(p);
    heap->free(q);
    (void)heap->usable_size(hide(p));
}

/* A dangling pointer soon points to another object. */
static void reused_at_once(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = filled(heap, size), *q = filled(heap, size);
    bool reused = false;
    heap->free(p);
    for (int i = 0; i < 4; i++)
        reused |= heap->malloc(size) == p;
    heap->free(q);
    if (!reused)
        _exit(KIND_PREVENTED);
}

/* What one part of a program left is in the block that another part gets. */
static void left_for_the_next(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    struct crowd crowd;
    (void)middle_of(heap, size, &crowd);
    free_crowd(heap, &crowd);
    for (size_t i = 0; i < 2 * crowd.count; i++) {
        const char *p = hide(heap->malloc(size));
        for (size_t j = 0; j < size; j++)
            if (p[j] == SECRET)
                return;
    }
    _exit(KIND_PREVENTED);
}

/* ---- blocks of no bytes ---- */

static void written_of_no_bytes(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    char *p = hide(heap->malloc(size));
    p[0] = 'w';
    heap->free(p);
}

static void read_of_no_bytes(const struct family *heap, size_t size, size_t unused)
{
    (void)unused;
    const volatile char *p = hide(heap->malloc(size));
    hidden = (void *)(uintptr_t)p[0];
}

/* ---- the table ---- */

static const size_t sizes[KIND_SIZES] = {8, 4096, 256 << 10}, none[] = {0};

#define FREED       "is free already", "no block that is in use", NULL
#define NOT_A_BLOCK "inside a block", "no block that is in use", NULL
#define SIZE        "is freed as one of", NULL
#define OVERWRITTEN "were overwritten", NULL
#define BRACED(...) \
    {               \
        __VA_ARGS__ \
    }
#define KIND(make, texts, ...)                         \
    {                                                  \
#        make, make, BRACED texts, BRACED(__VA_ARGS__) \
    }

/* By default, hardened, full. */
static const struct kind kinds[] = {
    KIND(one_byte_past, (OVERWRITTEN), "---", "SSF", "EEE"),
    KIND(terminator_past, (OVERWRITTEN), "---", "SSF", "EEE"),
    KIND(word_past, (OVERWRITTEN), "---", "SSF", "EEE"),
    KIND(line_past, (OVERWRITTEN), "---", "SSF", "SSE"),
    KIND(page_past, (OVERWRITTEN), "---", "SSF", "SSF"),
    KIND(runs_away, (OVERWRITTEN), "---", "FFF", "FFF"),
    KIND(reads_away, (OVERWRITTEN), "---", "FFF", "FFF"),
    KIND(one_byte_before, (OVERWRITTEN), "---", "SSS", "SSS"),
    KIND(word_before, (OVERWRITTEN), "---", "SSS", "SSS"),
    KIND(line_before, (OVERWRITTEN), "---", "SSS", "SSS"),
    KIND(past_the_shrunk, (OVERWRITTEN), "---", "SSF", "EEE"),
    KIND(past_and_resized, (OVERWRITTEN), "---", "SSF", "EEE"),
    KIND(past_of_one_that_stays, (OVERWRITTEN), "---", "SSF", "SS-"),

    KIND(twice, (FREED), "EEE", "EEE", "EEE"),
    KIND(twice_with_another_between, (FREED), "EEE", "EEE", "EEE"),
    KIND(twice_with_many_between, (FREED), "EEE", "EEE", "EEE"),
    KIND(twice_by_two_threads, (FREED), "EEE", "EEE", "EEE"),
    KIND(freed_after_it_moved, (FREED), "EEE", "EEE", "EEE"),

    KIND(second_byte, (NOT_A_BLOCK), "EEE", "EEE", "EEE"),
    KIND(second_word, (NOT_A_BLOCK), "EEE", "EEE", "EEE"),
    KIND(middle, (NOT_A_BLOCK), "EEE", "EEE", "EEE"),
    KIND(one_past_the_end, ("is free already", "inside a block", "no block that is in use", NULL),
         "EEE", "EEE", "EEE"),
    KIND(word_in_front, (NOT_A_BLOCK), "EEE", "EEE", "EEE"),
    KIND(never_allocated, (NOT_A_BLOCK), "EEE", "EEE", "EEE"),
    KIND(variable, ("is static data", NULL), "EEE", "EEE", "EEE"),
    KIND(stack, ("is on a stack", NULL), "EEE", "EEE", "EEE"),

    KIND(half_the_size, (SIZE), "--E", "EEE", "EEE"),
    KIND(twice_the_size, (SIZE), "-EE", "EEE", "EEE"),
    KIND(a_byte_more, (SIZE), "-EE", "EEE", "EEE"),
    KIND(ten_times_the_size, (SIZE), "EEE", "EEE", "EEE"),
    KIND(no_size, (SIZE), "E-E", "EEE", "EEE"),
    KIND(wrong_alignment, ("alignment", NULL), "---", "EEE", "EEE"),

    KIND(written_after_free, ("after it was freed", NULL), "---", "EEF", "EEF"),
    KIND(read_after_free, (NULL), "---", "PPF", "PPF"),
    KIND(resized_after_free, (FREED), "EEE", "EEE", "EEE"),
    KIND(measured_after_free, (FREED), "EEE", "EEE", "EEE"),
    KIND(reused_at_once, (NULL), "---", "PPP", "PPP"),
    KIND(left_for_the_next, (NULL), "---", "PPP", "PPP"),
};

static const struct kind kinds_of_nothing[] = {
    KIND(written_of_no_bytes, (NULL), "F", "F", "F"),
    KIND(read_of_no_bytes, (NULL), "F", "F", "F"),
};

size_t kind_at(size_t number, struct kind *out, const size_t **of)
{
    if (number < COUNT(kinds)) {
        *out = kinds[number];
        *of = sizes;
        return COUNT(sizes);
    }
    number -= COUNT(kinds);
    if (number >= COUNT(kinds_of_nothing))
        return 0;
    *out = kinds_of_nothing[number];
    *of = none;
    return COUNT(none);
}
