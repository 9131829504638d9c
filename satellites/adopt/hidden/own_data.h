/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data of an allocator: the variables that nobody but functions of the allocator may use once
 * its entries are replaced, because whoever does shares its state. A variable is known whole where
 * a symbol says how large it is, and by the addresses that the allocator's code names elsewhere. A
 * slot of the global offset table counts as the variable that it leads to.
 *
 * Owns: a table of ranges, until hf_own_data_close(). Reads the analysis, which must stay open as
 * long. Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_OWN_DATA_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_OWN_DATA_H

#include "satellites/adopt/hidden/reach.h"
#include "satellites/adopt/hidden/scan.h"

struct hf_own_data {
    const struct hf_reach *reach;
    struct hf_own_range {
        uint64_t first, end;
    } * ranges; /* by address; they do not overlap */
    size_t count;
    uint64_t *addresses; /* that the allocator's code names, ascending */
    size_t addresses_count;
};

/* Whether a function is the allocator's alone. */
typedef bool hf_own_data_user(uint32_t node, const void *context);

/* The data that those functions use. Result: 0 or -ENOMEM. hf_own_data_close() is harmless after
 * failure. */
int hf_own_data_open(struct hf_own_data *own, const struct hf_reach *reach, hf_own_data_user *owns,
                     const void *context);
void hf_own_data_close(struct hf_own_data *own);

/* Whether what code refers to is the allocator's, or a slot that leads to it. `certain`: it is
 * code, and refers to that; otherwise bytes may look like it by chance, and only what the
 * allocator's code names itself counts. */
bool hf_own_data_has(const struct hf_own_data *own, uint64_t address, bool certain);

/* Whether an address is data by which code and an allocator can share state: not one of the slots
 * for other objects' data, and not an allocator's setting, which others may have. */
bool hf_own_data_is_state(const struct hf_reach *reach, uint64_t address);

/* The variable to which a slot leads; other addresses as they are. */
uint64_t hf_own_data_variable(const struct hf_reach *reach, uint64_t address);

/* Makes the set of what is to be searched for: close it with hf_targets_close(). Result: 0 or
 * -ENOMEM. */
int hf_own_data_targets(const struct hf_own_data *own, struct hf_targets *targets);

#endif
