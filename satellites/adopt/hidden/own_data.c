/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See own_data.h.
 */
#include "satellites/adopt/hidden/own_data.h"

#include "satellites/adopt/hidden/arrays.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The variable to which a slot leads. False if it is none of this object's. */
static bool pointee(const struct hf_reach *reach, uint64_t slot, uint64_t *to)
{
    *to = hf_image_slot_value(reach->image, slot);
    const struct hf_stretch *stretch = *to != 0 ? hf_image_stretch(reach->image, *to) : NULL;
    return stretch != NULL && stretch->writable;
}

uint64_t hf_own_data_variable(const struct hf_reach *reach, uint64_t address)
{
    uint64_t to;
    return hf_image_is_slot(reach->image, address) && pointee(reach, address, &to) ? to : address;
}

bool hf_own_data_is_state(const struct hf_reach *reach, uint64_t address)
{
    const uint64_t variable = hf_own_data_variable(reach, address);
    if (variable == address && hf_image_is_slot(reach->image, address))
        return hf_image_is_thread_slot(reach->image, address);
    const struct hf_named *object = hf_object_at(reach->functions, variable);
    if (object == NULL)
        return true;
    const size_t node = reach->functions->count + (size_t)(object - reach->functions->objects);
    /* Every function that registers a destructor uses __dso_handle. */
    return strcmp(object->name, "__dso_handle") != 0 && (reach->marks[node] & HF_REACH_STOP) == 0;
}

static int by_range(const void *left, const void *right)
{
    const struct hf_own_range *one = left, *other = right;
    return one->first < other->first ? -1 : one->first > other->first;
}

static struct hf_own_range range_at(const struct hf_reach *reach, uint64_t address)
{
    const struct hf_named *object = hf_object_at(reach->functions, address);
    return object != NULL ? (struct hf_own_range){object->address, object->address + object->size}
                          : (struct hf_own_range){address, address + 1};
}

static void merge(struct hf_own_data *own)
{
    size_t kept = 0;
    if (own->count > 1)
        qsort(own->ranges, own->count, sizeof *own->ranges, by_range);
    for (size_t i = 0; i < own->count; i++) {
        struct hf_own_range *last = kept > 0 ? &own->ranges[kept - 1] : NULL;
        if (last == NULL || own->ranges[i].first > last->end)
            own->ranges[kept++] = own->ranges[i];
        else if (own->ranges[i].end > last->end)
            last->end = own->ranges[i].end;
    }
    own->count = kept;
}

int hf_own_data_open(struct hf_own_data *own, const struct hf_reach *reach, hf_own_data_user *owns,
                     const void *context)
{
    *own = (struct hf_own_data){.reach = reach};
    own->ranges = calloc(reach->uses_count * 2 + 1, sizeof *own->ranges);
    own->addresses = calloc(reach->uses_count + 1, sizeof *own->addresses);
    if (own->ranges == NULL || own->addresses == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < reach->uses_count; i++) {
        const struct hf_data_use *use = &reach->uses[i];
        if (!owns(use->function, context) || !hf_own_data_is_state(reach, use->address))
            continue;
        own->addresses[own->addresses_count++] = use->address;
        own->ranges[own->count++] = range_at(reach, use->address);
        own->ranges[own->count++] = range_at(reach, hf_own_data_variable(reach, use->address));
    }
    if (own->addresses_count > 1)
        qsort(own->addresses, own->addresses_count, sizeof *own->addresses, hf_array_by_address);
    merge(own);
    return 0;
}

void hf_own_data_close(struct hf_own_data *own)
{
    free(own->ranges);
    free(own->addresses);
    *own = (struct hf_own_data){0};
}

static bool has(const struct hf_own_data *own, uint64_t address)
{
    size_t first = 0, end = own->count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (own->ranges[middle].first <= address)
            first = middle + 1;
        else
            end = middle;
    }
    return first > 0 && address < own->ranges[first - 1].end;
}

bool hf_own_data_has(const struct hf_own_data *own, uint64_t address, bool certain)
{
    if (!certain)
        return own->addresses_count > 0 && bsearch(&address, own->addresses, own->addresses_count,
                                                   sizeof address, hf_array_by_address) != NULL;
    return has(own, address) || has(own, hf_own_data_variable(own->reach, address));
}

int hf_own_data_targets(const struct hf_own_data *own, struct hf_targets *targets)
{
    const struct hf_image *image = own->reach->image;
    uint64_t first = UINT64_MAX, end = 0;
    *targets = (struct hf_targets){0};
    if (own->count > 0) {
        first = own->ranges[0].first;
        end = own->ranges[own->count - 1].end;
    }
    for (size_t i = 0; i < image->linkages_count; i++) {
        const struct hf_linkage *table = &image->linkages[i];
        if (table->slots && hf_image_stretch(image, table->address) != NULL) {
            first = table->address < first ? table->address : first;
            end = table->address + 1 > end ? table->address + 1 : end;
        }
    }
    if (first >= end)
        return hf_targets_open(targets, 0, 0);
    for (size_t i = 0; i < image->pointers_count; i++)
        if (hf_image_is_slot(image, image->pointers[i].where) && image->pointers[i].where + 1 > end)
            end = image->pointers[i].where + 1;
    const int error = hf_targets_open(targets, first, end - first);
    if (error != 0)
        return error;
    for (size_t i = 0; i < own->count; i++)
        hf_targets_add(targets, own->ranges[i].first, own->ranges[i].end - own->ranges[i].first);
    for (size_t i = 0; i < image->pointers_count; i++)
        if (hf_image_is_slot(image, image->pointers[i].where) && has(own, image->pointers[i].to))
            hf_targets_add(targets, image->pointers[i].where, 1);
    return 0;
}
