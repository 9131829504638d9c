/*
 * The layout of tables that `homefree doctor --pid` reads in a running process, from outside
 * (loader/record/live_state.h). Each description is a constant beside the table that it describes,
 * so it takes no time in the process and cannot become wrong.
 *
 * A reader sees a table while the process changes it, and trusts nothing in it.
 *
 * Owns nothing.
 */
#ifndef HOMEFREE_LIVE_TABLES_H
#define HOMEFREE_LIVE_TABLES_H

#include <stdint.h>

/* The stubs, and what each calls for pointers that are not the heap's: two tables with a row for
 * each routed function and `per_function` entries in a row. */
struct hf_live_stubs {
    const void *stubs;      /* rows that begin with the addresses of the stubs; NULL: none */
    uint64_t stubs_row;     /* bytes of a row */
    const void *originals;  /* rows of entries without anything between them */
    uint64_t original_size; /* bytes of an entry */
    uint64_t original_real; /* where in an entry the original is; NULL: the stub is not in use */
    uint64_t functions, per_function;
};

/* The foreign allocators, by number. */
struct hf_live_foreign {
    const void *entries;
    const void *states; /* a byte for each; `known`: the entry is complete */
    uint64_t count, known;
    uint64_t entry_size;
    uint64_t entry_name; /* where in an entry: a string */
    uint64_t entry_map;  /* the link map of the object that holds the allocator; or NULL, */
    uint64_t entry_path; /* and then the string that is the link map's name */
    uint64_t entry_form; /* four bytes; 0: none of its functions can be called */
    /* The page map: words, each of which stands for 2^leaf_shift bytes of addresses: the number of
     * all their pages, if it is a byte, or the address of a byte for each page. */
    const void *pages;
    uint64_t pages_count, leaf_shift, page_shift;
};

#endif
