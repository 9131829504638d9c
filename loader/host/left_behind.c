/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See left_behind.h. Owns a row for each object that keeps memory, for the process's life, and
 * their lock. A conservative search: each aligned word of the writable data of all objects
 * that points into a block of the interpreter keeps the block, and so does each word of a block
 * that is kept. libhomefree's own data is passed over, because its tables name the arenas.
 */
#include "loader/host/left_behind.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/maps.h"
#include "alloc/heap/internal.h"
#include "loader/host/arena_owners.h"
#include "loader/host/interpreter_heaps.h"
#include "loader/host/pymalloc.h"

#include <errno.h>
#include <homefree/libc.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 4096 /* bytes that are read at once */

/* An arena, or a block of the heap. */
struct left {
    uintptr_t start;
    size_t size;
    bool is_arena, is_kept;
    uint64_t
        *marks; /* an arena's: a bit for each multiple of 16 bytes at which a kept block starts */
};

struct search {
    struct left *left;
    size_t count, capacity;
    uintptr_t lowest, highest;
    struct {
        const uintptr_t *start;
        size_t words;
    } * open; /* blocks that are kept and have not been looked at */
    size_t open_count, open_capacity;
    bool failed;   /* there was no memory: everything stays */
    uint64_t kept; /* bytes of what is kept */
};

/* ---- which objects keep memory ---- */

enum { ROWS = 128 };

/* Never removed, so what a row points to is permanent. */
static struct hf_interpreter_leak rows[ROWS];
static size_t row_count;
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. NULL: there is no room. */
static struct hf_interpreter_leak *row_of(const char *object, const char *why)
{
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].why == why && strcmp(rows[i].object, object) == 0)
            return &rows[i];
    const char *name = row_count < ROWS ? hf_strdup(object) : NULL;
    if (name == NULL)
        return NULL;
    rows[row_count] =
        (struct hf_interpreter_leak){.size = sizeof rows[0], .object = name, .why = why};
    return &rows[row_count++];
}

void hf_leavings_add(const char *object, const char *why, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    struct hf_interpreter_leak *row = row_of(object, why);
    if (row != NULL) {
        row->interpreters++;
        row->bytes += bytes;
    }
    pthread_mutex_unlock(&lock);
}

int hf_leavings_each(hf_interpreter_leak_visitor *visit, void *context)
{
    int result = 0;
    for (size_t i = 0; i < ROWS && result == 0; i++) {
        pthread_mutex_lock(&lock);
        const struct hf_interpreter_leak row = rows[i];
        const bool exists = i < row_count;
        pthread_mutex_unlock(&lock);
        if (!exists)
            break;
        result = visit(context, &row);
    }
    return result;
}

/* ---- what there is ---- */

static void *grown(void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    void *larger = hf_realloc(array, (*capacity * 2 + 64) * size);
    if (larger != NULL)
        *capacity = *capacity * 2 + 64;
    return larger;
}

static bool add(struct search *search, struct left one)
{
    struct left *array = grown(search->left, search->count, &search->capacity, sizeof *array);
    if (array == NULL)
        return false;
    search->left = array;
    search->left[search->count++] = one;
    return true;
}

static int add_block(void *context, void *ptr, size_t size)
{
    return add(context, (struct left){.start = (uintptr_t)ptr, .size = size}) ? 0 : -ENOMEM;
}

static int compare(const void *one, const void *other)
{
    const struct left *first = one, *second = other;
    return (first->start > second->start) - (first->start < second->start);
}

static bool gather(struct search *search, int64_t interpreter, const struct hf_heap *heap)
{
    const size_t arena_size = hf_pymalloc_arena_size();
    size_t position = 0;
    const void *arena;
    while ((arena = hf_arena_owners_next(interpreter, &position)) != NULL) {
        const struct left one = {.start = (uintptr_t)arena,
                                 .size = arena_size,
                                 .is_arena = true,
                                 .marks = hf_calloc(arena_size / 16 / 64, sizeof *one.marks)};
        if (one.marks == NULL || !add(search, one)) {
            hf_free(one.marks);
            return false;
        }
    }
    if (heap != NULL && hf_heaps()->walk(heap, add_block, search) != 0)
        return false;
    if (search->count > 0) {
        qsort(search->left, search->count, sizeof *search->left, compare);
        search->lowest = search->left[0].start;
        search->highest =
            search->left[search->count - 1].start + search->left[search->count - 1].size;
    }
    return true;
}

/* ---- what is kept ---- */

static struct left *find(const struct search *search, uintptr_t address)
{
    size_t from = 0, to = search->count;
    while (to - from > 1) {
        const size_t middle = from + (to - from) / 2;
        if (search->left[middle].start <= address)
            from = middle;
        else
            to = middle;
    }
    struct left *found = &search->left[from];
    return address - found->start < found->size ? found : NULL;
}

static void open_block(struct search *search, uintptr_t start, size_t size)
{
    void *array =
        grown(search->open, search->open_count, &search->open_capacity, sizeof *search->open);
    if (array == NULL) {
        search->failed = true;
        return;
    }
    search->open = array;
    search->open[search->open_count].start = (const uintptr_t *)start;
    search->open[search->open_count++].words = size / sizeof(uintptr_t);
}

static void keep(struct search *search, uintptr_t address)
{
    struct left *found = find(search, address);
    if (found == NULL)
        return;
    uintptr_t start = found->start;
    size_t size = found->size;
    if (found->is_arena) {
        size = hf_pymalloc_block((const void *)address, &start);
        if (size == 0)
            return;
        const size_t index = (start - found->start) / 16;
        const uint64_t bit = UINT64_C(1) << index % 64;
        if ((found->marks[index / 64] & bit) != 0)
            return;
        found->marks[index / 64] |= bit;
    } else if (found->is_kept)
        return;
    search->kept += found->is_kept ? 0 : found->size;
    found->is_kept = true;
    open_block(search, start, size);
}

static void look_at(struct search *search, const uintptr_t *words, size_t count)
{
    for (size_t i = 0; i < count && !search->failed; i++)
        if (HF_UNLIKELY(words[i] - search->lowest < search->highest - search->lowest))
            keep(search, words[i]);
    while (search->open_count > 0 && !search->failed) {
        search->open_count--;
        const uintptr_t *block = search->open[search->open_count].start;
        const size_t size = search->open[search->open_count].words;
        for (size_t i = 0; i < size && !search->failed; i++)
            if (HF_UNLIKELY(block[i] - search->lowest < search->highest - search->lowest))
                keep(search, block[i]);
    }
}

/* The pages of an object's data may be protected, so they are not read in place. */
static void look_through(struct search *search, uintptr_t start, size_t size)
{
    uintptr_t words[PIECE / sizeof(uintptr_t)];
    while (size >= sizeof *words) {
        size_t piece = PIECE - start % PIECE;
        piece = piece < size ? piece : size;
        if (hf_maps_read((const void *)start, words, piece))
            look_at(search, words, piece / sizeof *words);
        start += piece;
        size -= piece;
    }
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct search *search = context;
    const uint64_t before = search->kept;
    (void)size;
    const uintptr_t own = (uintptr_t)&hf_region;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (own - (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) < info->dlpi_phdr[i].p_memsz)
            return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) == 0)
            continue;
        const uintptr_t start = (info->dlpi_addr + segment->p_vaddr + 7) & ~(uintptr_t)7;
        look_through(search, start, info->dlpi_addr + segment->p_vaddr + segment->p_memsz - start);
    }
    if (search->kept != before)
        hf_leavings_add(info->dlpi_name[0] != '\0' ? info->dlpi_name : "the program",
                        "its static data refers to objects", search->kept - before);
    return 0;
}

/* ---- giving back ---- */

static void release(struct search *search, struct hf_heap *heap)
{
    bool all = true;
    for (size_t i = 0; i < search->count; i++)
        all = all && (search->left[i].is_arena || !search->left[i].is_kept);
    for (size_t i = 0; i < search->count; i++) {
        const struct left *one = &search->left[i];
        if (one->is_arena && !one->is_kept)
            hf_pymalloc_arena_free((void *)one->start);
        else if (!one->is_arena && !one->is_kept && !all)
            hf_free((void *)one->start);
    }
    /* A heap with blocks that are kept is never dropped. */
    if (heap != NULL && all)
        (void)hf_heaps()->drop(heap);
}

uint64_t hf_left_behind_give_back(int64_t interpreter)
{
    struct search search = {0};
    uint64_t kept = 0;
    bool is_kept;
    struct hf_heap *heap = hf_interpreter_heap_end(interpreter, &is_kept);
    if (gather(&search, interpreter, heap) && !is_kept) {
        if (search.count > 0)
            (void)dl_iterate_phdr(look_at_object, &search);
        if (!search.failed)
            release(&search, heap);
    }
    for (size_t i = 0; i < search.count && is_kept; i++)
        kept += search.left[i].size;
    for (size_t i = 0; i < search.count; i++)
        hf_free(search.left[i].marks);
    hf_free(search.left);
    hf_free(search.open);
    return kept;
}
