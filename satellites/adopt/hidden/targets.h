/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The set of addresses to which a scan looks for references, and who is told of each.
 *
 * Owns: its map, until hf_targets_close(). Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_TARGETS_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_TARGETS_H

#include "satellites/adopt/hidden/functions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HF_TARGETS_PAGE = 4096,
    HF_TARGETS_PIECE = 16,
    HF_TARGETS_PAGE_BITS = HF_TARGETS_PAGE / HF_TARGETS_PIECE / 8 /* bytes of the map for a page */
};

/* A set of ranges of addresses, as a map with a bit for each 16 bytes. It holds whatever shares
 * such a piece with a member, so that the visitor has to look again. */
struct hf_targets {
    uint64_t first, size; /* of whole pages */
    uint8_t *bits;
    const uint64_t *except; /* ascending: calls and jumps to these do not count */
    size_t except_count;
};
/* Makes an empty set for `size` addresses from `first` on. Result: 0 or -ENOMEM. */
int hf_targets_open(struct hf_targets *targets, uint64_t first, uint64_t size);
void hf_targets_close(struct hf_targets *targets);
/* Whether the set holds the piece in which the address lies, or any of `size` bytes. */
static inline bool hf_targets_has_piece(const struct hf_targets *targets, uint64_t address)
{
    const uint64_t piece = (address - targets->first) / HF_TARGETS_PIECE;
    return address - targets->first < targets->size &&
           (targets->bits[piece / 8] >> piece % 8 & 1) != 0;
}
bool hf_targets_has(const struct hf_targets *targets, uint64_t address, uint64_t size);
bool hf_targets_is_except(const struct hf_targets *targets, uint64_t address);
void hf_targets_add(struct hf_targets *targets, uint64_t address, uint64_t size);

/* A reference at `where` to `target`, in `from`, which is NULL outside of functions. False ends the
 * scan. */
typedef bool hf_scan_visitor(uint64_t where, uint64_t target, const struct hf_function *from,
                             void *context);

#endif
