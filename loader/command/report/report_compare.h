/*
 * What changed since an older report: findings that are new, gone, more or fewer.
 *
 * Two findings are the same if the rule, the allocator, and on both sides the object, the function
 * called and the calling function agree; that is Python's where the object calls for Python. Lines
 * and addresses do not count, as they change with every build. Where one report does not know a
 * calling function, the rest decides.
 *
 * Owns: nothing; everything is in the caller's keep. One thread.
 */
#ifndef HF_LOADER_COMMAND_REPORT_REPORT_COMPARE_H
#define HF_LOADER_COMMAND_REPORT_REPORT_COMPARE_H

#include "loader/command/report/merged.h"

enum hf_change { HF_CHANGE_NEW, HF_CHANGE_MORE, HF_CHANGE_FEWER, HF_CHANGE_GONE, HF_CHANGE_SAME };

struct hf_compared_side {
    const char *object, *function, *symbol; /* NULL: unknown */
};

struct hf_compared {
    const char *rule, *severity, *allocator; /* `allocator`: NULL: unknown */
    struct hf_compared_side allocated, freed;
    uint64_t before, after; /* counts */
    enum hf_change change;
};

struct hf_comparison {
    const char *old;           /* the path of the older report */
    struct hf_compared *items; /* new ones first; each kind worst first */
    size_t items_count;
    size_t changes[HF_CHANGE_SAME + 1]; /* how many of each kind */
};

/*
 * Compares with the report at `old`: a file, a folder, or a document that --json wrote. Returns
 * false after an error message if it cannot be read.
 */
bool hf_comparison_make(struct hf_comparison *comparison, const struct hf_merged *merged,
                        const char *old);

/* Writes the member "compare" of the open object. */
void hf_comparison_write(struct hf_json *json, const struct hf_comparison *comparison);

const char *hf_change_name(enum hf_change change);

#endif
