/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the passes over one file collect; see inspect_gather.h. Owns nothing.
 */
#include "loader/inspect/inspect_gather.h"

#include <string.h>

static bool is_mangled(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

/* Prefers plain names to mangled ones, which tell a reader less. */
void hf_gather_keep(struct hf_kept_names *names, const char *name)
{
    size_t at = names->kept;
    names->count++;
    if (!is_mangled(name))
        while (at > 0 && is_mangled(names->first[at - 1]))
            at--;
    if (at == HF_INSPECTION_NAMES_MAX)
        return;
    if (names->kept < HF_INSPECTION_NAMES_MAX)
        names->kept++;
    memmove(names->first + at + 1, names->first + at,
            (names->kept - at - 1) * sizeof names->first[0]);
    names->first[at] = name;
}

void hf_gather_copy(struct hf_gather *gather, const struct hf_kept_names *names, const char **out,
                    size_t *count)
{
    for (size_t i = 0; i < names->kept; i++) {
        out[i] = hf_inspection_copy(gather->inspection, names->first[i]);
        if (out[i] == NULL) {
            gather->out_of_memory = true;
            return;
        }
        ++*count;
    }
}
