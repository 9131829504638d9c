/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a watch. Owns nothing; takes the lock of all watches. A visitor may allocate, which an open
 * watch records, so visitors are called without the lock; meanwhile pairs are only added.
 */
#include "alloc/trace/watch_report.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/sized.h"

#include <errno.h>
#include <string.h>

/* Names the sides that are code addresses. The lookup may take the loader's lock, so it runs
 * without ours. */
static void name_sides(struct hf_watch *watch)
{
    for (size_t i = HF_SIDE_FIRST; i < HF_WATCH_SIDES; i++) {
        struct hf_watch_side *side = &watch->sides[i];
        hf_watch_lock();
        const void *code = side->key != NULL && side->is_code && side->name == 0 ? side->key : NULL;
        hf_watch_unlock();
        const struct link_map *map = code != NULL ? hf_dynlink_find(code) : NULL;
        if (map == NULL)
            continue;
        hf_watch_lock();
        if (side->name == 0)
            hf_watch_name(watch, side, hf_dynlink_name(map));
        hf_watch_unlock();
    }
}

static const char *name_of(const struct hf_watch *watch, uint16_t side)
{
    return watch->names + watch->sides[side].name;
}

/* Sides of one name are one object: it was reloaded at another address, or its sides are code
 * addresses. */
static bool is_same(const struct hf_watch *watch, uint16_t a, uint16_t b)
{
    return a == b || strcmp(name_of(watch, a), name_of(watch, b)) == 0;
}

static bool is_crossing(const struct hf_watch *watch, const struct hf_watch_pair *pair)
{
    return pair->count > 0 && !is_same(watch, pair->from, pair->to);
}

static bool is_alike(const struct hf_watch *watch, const struct hf_watch_pair *a,
                     const struct hf_watch_pair *b)
{
    return is_same(watch, a->from, b->from) && is_same(watch, a->to, b->to);
}

/* Sums the pair at `index` and all pairs of the same objects; false if an earlier index covered
 * them. */
static bool crossing_at(const struct hf_watch *watch, size_t index, struct hf_crossing *out)
{
    const struct hf_watch_pair *pair = &watch->pairs[index];
    if (!is_crossing(watch, pair))
        return false;
    *out = (struct hf_crossing){sizeof *out, name_of(watch, pair->from), name_of(watch, pair->to),
                                0, 0};
    for (size_t i = 0; i < HF_WATCH_PAIRS; i++) {
        const struct hf_watch_pair *other = &watch->pairs[i];
        if (other->count == 0 || !is_alike(watch, pair, other))
            continue;
        if (i < index)
            return false;
        out->count += other->count;
        out->bytes += other->bytes;
    }
    return true;
}

int hf_watch_report_here(struct hf_watch *watch, struct hf_watch_report *out,
                         hf_crossing_visitor *visit, void *context)
{
    if (out != NULL && out->size < offsetof(struct hf_watch_report, frees))
        return -EINVAL;
    name_sides(watch);
    hf_watch_lock();
    struct hf_watch_report report = {
        .allocations = watch->allocations,
        .frees = watch->frees,
        .before = watch->before,
        .foreign = watch->foreign,
        .dropped = watch->dropped,
    };
    for (size_t i = 0; i < HF_WATCH_PAIRS; i++)
        if (is_crossing(watch, &watch->pairs[i]))
            report.crossings += watch->pairs[i].count;
    hf_watch_unlock();
    if (out != NULL)
        hf_sized_copy(out, &report, sizeof report);
    for (size_t i = 0; visit != NULL && i < HF_WATCH_PAIRS; i++) {
        struct hf_crossing crossing;
        hf_watch_lock();
        bool found = crossing_at(watch, i, &crossing);
        hf_watch_unlock();
        if (found)
            visit(&crossing, context);
    }
    return 0;
}

int hf_watch_at_here(struct hf_watch *watch, const void *block, struct hf_watch_block *out)
{
    if (out == NULL || out->size < offsetof(struct hf_watch_block, freed))
        return -EINVAL;
    name_sides(watch);
    struct hf_watch_block found = {.allocated_by = "", .freed_by = ""};
    hf_watch_lock();
    const struct hf_watch_entry *entry =
        block != NULL ? hf_watch_find(watch, (uintptr_t)block) : NULL;
    if (entry != NULL) {
        found.allocated = entry->allocated;
        found.freed = entry->freed;
        found.freed_unmatched = entry->freed_unmatched;
        found.allocated_by = name_of(watch, entry->allocated_by);
        found.freed_by = name_of(watch, entry->freed > 0 ? entry->freed_by : HF_SIDE_UNKNOWN);
    }
    hf_watch_unlock();
    hf_sized_copy(out, &found, sizeof found);
    return 0;
}

/* Sums the side at `index` and all sides of the same name; false if it has nothing left, or an
 * earlier index covered it. */
static bool left_at(const struct hf_watch *watch, size_t index, struct hf_left *out)
{
    if (watch->sides[index].left == 0)
        return false;
    *out = (struct hf_left){sizeof *out, name_of(watch, (uint16_t)index), 0, 0};
    for (size_t i = 0; i < HF_WATCH_SIDES; i++) {
        const struct hf_watch_side *other = &watch->sides[i];
        if (other->left == 0 || !is_same(watch, (uint16_t)index, (uint16_t)i))
            continue;
        if (i < index)
            return false;
        out->count += other->left;
        out->bytes += other->left_bytes;
    }
    return true;
}

int hf_watch_left_here(struct hf_watch *watch, hf_left_visitor *visit, void *context)
{
    if (visit == NULL)
        return -EINVAL;
    name_sides(watch);
    for (size_t i = 0; i < HF_WATCH_SIDES; i++) {
        struct hf_left left;
        hf_watch_lock();
        const bool found = left_at(watch, i, &left);
        hf_watch_unlock();
        if (found)
            visit(&left, context);
    }
    return 0;
}

int hf_watch_each_left(struct hf_watch *watch, hf_watch_block_visitor *visit, void *context)
{
    if (watch == NULL || watch->functions->left != hf_watch_left_here)
        return -EINVAL;
    for (size_t i = 0; i < watch->slots; i++) {
        if (__atomic_load_n(&watch->blocks[i].address, __ATOMIC_RELAXED) == 0)
            continue;
        hf_watch_lock();
        const struct hf_watch_entry entry = watch->blocks[i];
        hf_watch_unlock();
        if (entry.live && !entry.old && !entry.elsewhere)
            visit((const void *)entry.address, context);
    }
    return 0;
}
