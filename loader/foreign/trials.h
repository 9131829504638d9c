/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trials: calls the functions of a foreign allocator that was found in an object, to see whether
 * they are what they seem. Runs in routing passes, under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_TRIALS_H
#define HOMEFREE_LOADER_FOREIGN_TRIALS_H

#include "alloc/base/dynlink.h"
#include "alloc/owner/foreign.h"

/* The functions of an allocator, as far as they were found. */
struct hf_trial_functions {
    void *question, *allocate, *realloc, *usable_size, *release;
    void *deletes[HF_DELETE_FORMS];
    void *trim;
    const char *trim_name;
    struct hf_rtree tree;
    enum hf_trim_form trim_form;
    enum hf_free_form form;
    enum hf_foreign_question kind;
};

/* jemalloc's options decide whether its realloc() of size 0 frees or allocates. */
bool hf_trial_zero_frees(void *mallctl);

/* Verifies the functions' rtree: it must contain freshly allocated blocks of every size, and no
 * address that is not the allocator's. `has` tests for a block. */
bool hf_trial_tree(const struct hf_trial_functions *functions,
                   bool (*has)(const struct hf_rtree *tree, const void *ptr));

/* Finds an rtree without its symbol, and verifies it. An rtree for 48-bit addresses takes 2 MiB of
 * variables, so few places qualify; the limit is for programs that have far more variables. */
bool hf_trial_search_tree(const struct hf_object *object, struct hf_trial_functions *functions);

/* Whether exported functions belong to the allocator whose pages have this number: a block large
 * enough to get a new mapping must lie in such pages. Otherwise a release function could lead back
 * to its caller. */
bool hf_trial_owns_pages(unsigned number, const struct hf_trial_functions *functions);

#endif
