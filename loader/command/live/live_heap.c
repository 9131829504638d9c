/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_heap.h. Addresses in the description are the process's; here they are only numbers.
 */
#include "loader/command/live/live_heap.h"

#include "alloc/base/live_tables.h"

#include <string.h>

enum {
    PLACE_MOST = 4096, /* where something is in something */
    ENTRY_MOST = 256,
    SPAN_MOST = 256,
    LARGE_MOST = 256,
    BLOCKS_MOST = UINT16_MAX, /* of a span */
    BEFORE_MOST = UINT8_MAX,
    STATES_MOST = 16,
    UNIT_SHIFT_LEAST = 12,
    UNIT_SHIFT_MOST = 30,
    BATCH = 512 /* entries that are read at a time */
};
#define REGION_MOST (UINT64_C(1) << 47)

struct reading {
    const struct hf_live_process *process;
    struct hf_live_blocks blocks;
    hf_live_heap_visitor *visit;
    void *context;
    struct hf_live_heap *out;
    uint64_t region[2]; /* where it begins, its size */
    uint64_t table;     /* of the entry of address 0 */
    struct {
        uint32_t step;
        uint8_t units;
    } classes[HF_LIVE_CLASSES_MOST];
};

static uint64_t number_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

static uint64_t number_at(const unsigned char *bytes, uint64_t place, size_t size)
{
    uint64_t number = 0; /* both are little-endian */
    memcpy(&number, bytes + place, size);
    return number;
}

/* ---- what the process says of its books ----------------------------------------------------- */

static bool fits(uint64_t place, size_t size, uint64_t whole)
{
    return place <= whole && size <= whole - place;
}

static bool makes_sense(const struct hf_live_blocks *b)
{
    return b->class_count <= HF_LIVE_CLASSES_MOST && b->class_size <= PLACE_MOST &&
           fits(b->class_step, 4, b->class_size) && fits(b->class_units, 1, b->class_size) &&
           b->unit_shift >= UNIT_SHIFT_LEAST && b->unit_shift <= UNIT_SHIFT_MOST &&
           b->entry_size <= ENTRY_MOST && fits(b->entry_owner, 8, b->entry_size) &&
           fits(b->entry_state, 8, b->entry_size) && fits(b->entry_first, 4, b->entry_size) &&
           fits(b->entry_class, 1, b->entry_size) && fits(b->entry_waits, 1, b->entry_size) &&
           b->span_size <= SPAN_MOST && fits(b->span_unit, 4, b->span_size) &&
           fits(b->span_blocks, 2, b->span_size) && fits(b->span_before, 1, b->span_size) &&
           fits(b->large_word, 8, LARGE_MOST) && fits(b->large_size, 8, LARGE_MOST) &&
           b->large_states < STATES_MOST && (b->large_states & (b->large_states + 1)) == 0;
}

static bool read_classes(struct reading *reading)
{
    const struct hf_live_blocks *b = &reading->blocks;
    unsigned char row[PLACE_MOST];
    for (uint64_t i = 0; i < b->class_count; i++) {
        if (!hf_live_read(reading->process, number_of(b->sizes) + i * sizeof(uint64_t),
                          &reading->out->classes[i].size, sizeof(uint64_t)) ||
            !hf_live_read(reading->process, number_of(b->classes) + i * b->class_size, row,
                          b->class_size))
            return false;
        reading->classes[i].step = (uint32_t)number_at(row, b->class_step, 4);
        reading->classes[i].units = row[b->class_units];
    }
    reading->out->count = b->class_count;
    return true;
}

static bool read_description(struct reading *reading, uint64_t address)
{
    struct hf_live_blocks *b = &reading->blocks;
    return hf_live_read(reading->process, address, b, sizeof *b) && makes_sense(b) &&
           hf_live_read(reading->process, number_of(b->region), reading->region,
                        sizeof reading->region) &&
           reading->region[0] <= REGION_MOST && reading->region[1] <= REGION_MOST &&
           hf_live_read(reading->process, number_of(b->entries), &reading->table,
                        sizeof reading->table) &&
           read_classes(reading);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void found(const struct reading *reading, struct hf_live_block block)
{
    if (reading->visit != NULL)
        reading->visit(reading->context, &block);
}

static void read_large(struct reading *reading, const unsigned char *entry, uint64_t unit)
{
    const struct hf_live_blocks *b = &reading->blocks;
    const uint64_t record = number_at(entry, b->entry_state, 8);
    uint64_t word, size, again;
    /* As the heap's own look: the size is that of the block if the word is the same afterwards. */
    if (!hf_live_read(reading->process, record + b->large_word, &word, sizeof word) ||
        !hf_live_read(reading->process, record + b->large_size, &size, sizeof size) ||
        !hf_live_read(reading->process, record + b->large_word, &again, sizeof again))
        return;
    const uint64_t state = word & b->large_states, address = word - state;
    if (again - (again & b->large_states) != address || address >> b->unit_shift != unit ||
        state < b->large_least || size > REGION_MOST)
        return; /* gone, or not the block's first entry */
    const bool live = state >= b->large_live && entry[b->entry_waits] == 0;
    *(live ? &reading->out->large_live : &reading->out->large_free) += 1;
    *(live ? &reading->out->large_live_bytes : &reading->out->large_free_bytes) += size;
    found(reading, (struct hf_live_block){address, size, true, live});
}

/* Returns the units of the span that begins at a unit; 1 if none does. */
static uint64_t read_span(struct reading *reading, const unsigned char *entry, uint64_t unit)
{
    static unsigned char states[SPAN_MOST + BEFORE_MOST + BLOCKS_MOST];
    const struct hf_live_blocks *b = &reading->blocks;
    const uint64_t at = number_at(entry, b->entry_state, 8), class = entry[b->entry_class];
    if (class >= b->class_count ||
        !hf_live_read(reading->process, at - b->span_size, states, b->span_size) ||
        number_at(states, b->span_unit, 4) != unit - (reading->region[0] >> b->unit_shift))
        return 1;
    const size_t blocks = number_at(states, b->span_blocks, 2), before = states[b->span_before];
    if (!hf_live_read(reading->process, at, states, before + blocks))
        return 1;
    struct hf_live_class *sum = &reading->out->classes[class];
    const uint64_t start = unit << b->unit_shift, units = reading->classes[class].units;
    const uint64_t first =
        start - (uint32_t)((uint32_t)start - (uint32_t)number_at(entry, b->entry_first, 4));
    for (size_t i = before; i < before + blocks; i++) {
        const bool live =
            states[i] == b->live || states[i] == b->sampled || states[i] >= b->limited;
        *(live ? &sum->live : &sum->free) += 1;
        found(reading, (struct hf_live_block){first + i * reading->classes[class].step, sum->size,
                                              false, live});
    }
    sum->spans++;
    sum->bytes += units << b->unit_shift;
    return units != 0 ? units : 1;
}

bool hf_live_heap_read(const struct hf_live_process *process, uint64_t description,
                       hf_live_heap_visitor *visit, void *context, struct hf_live_heap *out)
{
    static unsigned char entries[BATCH * ENTRY_MOST];
    struct reading reading = {.process = process, .visit = visit, .context = context, .out = out};
    memset(out, 0, sizeof *out);
    if (!read_description(&reading, description))
        return false;
    const struct hf_live_blocks *b = &reading.blocks;
    out->region = reading.region[0];
    out->region_size = reading.region[1];
    const uint64_t begin = reading.region[0] >> b->unit_shift;
    const uint64_t end = begin + (reading.region[1] >> b->unit_shift);
    for (uint64_t next = begin; next < end;) {
        const uint64_t batch = next, count = end - next < BATCH ? end - next : BATCH;
        if (!hf_live_read(process, reading.table + batch * b->entry_size, entries,
                          count * b->entry_size)) {
            out->left_out = true;
            break;
        }
        while (next < batch + count && !out->left_out) {
            const unsigned char *entry = entries + (next - batch) * b->entry_size;
            const uint64_t owner = number_at(entry, b->entry_owner, 8);
            uint64_t units = 1;
            if (owner == number_of(b->large))
                read_large(&reading, entry, next);
            else if (owner != 0)
                units = read_span(&reading, entry, next);
            next += units;
            out->left_out = hf_live_takes_too_long(process);
        }
        if (out->left_out)
            break;
    }
    return true;
}
