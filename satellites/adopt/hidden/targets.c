/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See targets.h.
 */
#include "satellites/adopt/hidden/targets.h"

#include <errno.h>
#include <stdlib.h>

enum { PIECE = HF_TARGETS_PIECE, PAGE = HF_TARGETS_PAGE, PAGE_BITS = HF_TARGETS_PAGE_BITS };

int hf_targets_open(struct hf_targets *targets, uint64_t first, uint64_t size)
{
    targets->first = first / PAGE * PAGE;
    targets->size = (size + (first - targets->first) + PAGE - 1) / PAGE * PAGE;
    targets->bits = calloc(targets->size / PAGE + 1, PAGE_BITS);
    return targets->bits != NULL ? 0 : -ENOMEM;
}

void hf_targets_close(struct hf_targets *targets)
{
    free(targets->bits);
    *targets = (struct hf_targets){0};
}

void hf_targets_add(struct hf_targets *targets, uint64_t address, uint64_t size)
{
    const uint64_t from = address - targets->first;
    if (from >= targets->size)
        return;
    const uint64_t most = targets->size - from;
    const uint64_t last = from + (size == 0 ? 0 : size < most ? size - 1 : most - 1);
    for (uint64_t piece = from / PIECE; piece <= last / PIECE; piece++)
        targets->bits[piece / 8] |= (uint8_t)(1U << piece % 8);
}

bool hf_targets_has(const struct hf_targets *targets, uint64_t address, uint64_t size)
{
    const uint64_t end = targets->first + targets->size;
    uint64_t at = address < targets->first ? targets->first : address / PIECE * PIECE;
    for (; at < end && at < address + size; at += PIECE)
        if (hf_targets_has_piece(targets, at))
            return true;
    return false;
}

bool hf_targets_is_except(const struct hf_targets *targets, uint64_t address)
{
    size_t first = 0, end = targets->except_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (targets->except[middle] == address)
            return true;
        if (targets->except[middle] < address)
            first = middle + 1;
        else
            end = middle;
    }
    return false;
}
