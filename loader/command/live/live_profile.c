/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_profile.h. Addresses are the process's; here they are only numbers.
 */
#include "loader/command/live/live_profile.h"

#include "alloc/base/live_tables.h"

#include <stdlib.h>
#include <string.h>

enum { PLACE_MOST = 4096 };
#define BOOK_MOST (UINT64_C(1) << 26)

/* The copy. */
struct book {
    const struct hf_book *head;
    const char *bytes;
    uint64_t used;
};

/* ---- finding it ----------------------------------------------------------------------------- */

static bool read_word(const struct hf_live_process *process, uint64_t address, uint64_t *out)
{
    return hf_live_read(process, address, out, sizeof *out);
}

/* Stores 0 if there is no book. */
static bool find_book(const struct hf_live_process *process, uint64_t description, uint64_t *out)
{
    struct hf_live_profile profile;
    uint64_t functions, place;
    *out = 0;
    if (!hf_live_read(process, description, &profile, sizeof profile) ||
        !read_word(process, (uint64_t)(uintptr_t)profile.functions, &functions))
        return false;
    if (functions == 0)
        return true;
    return profile.book <= PLACE_MOST && read_word(process, functions + profile.book, &place) &&
           read_word(process, place, out);
}

static bool copy_book(const struct hf_live_process *process, uint64_t address, struct book *out)
{
    struct hf_book head;
    char *bytes = NULL;
    if (!hf_live_read(process, address, &head, sizeof head) ||
        memcmp(head.magic, HF_BOOK_MAGIC, sizeof head.magic) != 0 || head.bytes > BOOK_MOST ||
        head.used < sizeof head || head.used > head.bytes || head.mean == 0 ||
        (bytes = malloc(head.used)) == NULL || !hf_live_read(process, address, bytes, head.used)) {
        free(bytes);
        return false;
    }
    memcpy(bytes, &head, sizeof head); /* as it was checked */
    *out = (struct book){(const struct hf_book *)(const void *)bytes, bytes, head.used};
    return true;
}

/* ---- what references lead to ---------------------------------------------------------------- */

/* At least `least` bytes; NULL if it cannot be. `size` receives how many there are. */
static const void *node_at(const struct book *book, uint32_t reference, size_t least, size_t *size)
{
    const uint64_t at = (uint64_t)reference * HF_BOOK_UNIT;
    if (at < sizeof *book->head + sizeof(struct hf_book_node) || at > book->used)
        return NULL;
    const struct hf_book_node *node =
        (const struct hf_book_node *)(const void *)(book->bytes + at) - 1;
    *size = node->size;
    return *size >= least && *size <= book->used - at ? node + 1 : NULL;
}

static const char *text_at(const struct book *book, uint32_t reference)
{
    size_t size;
    const char *text = node_at(book, reference, 1, &size);
    return text != NULL && text[size - 1] == '\0' ? text : "";
}

static void read_stack(const struct book *book, uint32_t reference, struct hf_live_sample *out)
{
    size_t size;
    const struct hf_book_stack *stack = node_at(book, reference, sizeof *stack, &size);
    out->object = "";
    if (stack == NULL || stack->frames > HF_BOOK_FRAMES_MAX || stack->python > HF_BOOK_FRAMES_MAX ||
        size < sizeof *stack + stack->frames * sizeof(uint64_t) + stack->python * sizeof(uint32_t))
        return;
    out->stack = reference;
    out->object = text_at(book, stack->object);
    out->frames = (const uint64_t *)(const void *)(stack + 1);
    out->frames_count = stack->frames;
    const uint32_t *places = (const uint32_t *)(const void *)(out->frames + stack->frames);
    for (size_t i = 0; i < stack->python; i++) {
        const struct hf_book_place *place = node_at(book, places[i], sizeof *place, &size);
        struct hf_live_python *frame = &out->python[out->python_count++];
        *frame = (struct hf_live_python){"", "", 0};
        if (place != NULL)
            *frame = (struct hf_live_python){text_at(book, place->function),
                                             text_at(book, place->file), place->line};
    }
}

static void visit_all(const struct book *book, hf_live_profile_visitor *visit, void *context,
                      struct hf_live_profiled *out)
{
    const uint64_t at = (uint64_t)book->head->samples * HF_BOOK_UNIT;
    const struct hf_book_sample *samples = (const void *)(book->bytes + at);
    if (at > book->used || book->head->samples_used > (book->used - at) / sizeof *samples)
        return;
    for (uint32_t i = 0; i < book->head->samples_used; i++) {
        struct hf_live_sample sample = {.block = samples[i].block, .bytes = samples[i].bytes};
        if (sample.block == 0 || sample.bytes == 0)
            continue;
        out->samples++;
        sample.weight_blocks = hf_book_weight(book->head, sample.bytes);
        sample.weight_bytes = (double)sample.bytes * sample.weight_blocks;
        read_stack(book, samples[i].stack, &sample);
        visit(context, &sample);
    }
}

bool hf_live_profile_read(const struct hf_live_process *process, uint64_t description,
                          hf_live_profile_visitor *visit, void *context,
                          struct hf_live_profiled *out)
{
    uint64_t address;
    struct book book;
    *out = (struct hf_live_profiled){0};
    if (!find_book(process, description, &address))
        return false;
    if (address == 0)
        return true;
    if (!copy_book(process, address, &book))
        return false;
    out->mean = book.head->mean;
    out->lost = book.head->lost;
    visit_all(&book, visit, context, out);
    free((void *)(uintptr_t)book.bytes);
    return true;
}
