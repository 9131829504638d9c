/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts other functions into the slots of a loaded object through which it calls those of a table.
 * What was read-only is so again afterwards.
 *
 * The thread that has loaded the object, while nobody else is in it.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_WATCHED_SLOTS_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_WATCHED_SLOTS_H

#include "alloc/base/dynlink.h"
#include "loader/elf/elf_file.h"

/* A row of a table; the last one's name is NULL. */
struct hf_watched {
    const char *name;
    void *function; /* NULL: an object that calls it cannot be watched */
    void *original; /* where to write it, if it is not called by its name; before the slot */
};

/* Whether a file imports one of them. 0 or a negative errno. */
int hf_watched_slots_imported(struct hf_elf *elf, const struct hf_watched *all, bool *imported);

/* 0; -ENOTSUP: one is reached otherwise; or another negative errno. */
int hf_watched_slots_change(const struct hf_object *object, const struct hf_watched *all);

#endif
