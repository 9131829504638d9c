/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of tables that `homefree doctor --pid` reads in a running process, from outside
 * (loader/record/live_state.h). Each description is a constant beside the table that it describes,
 * so it takes no time in the process and cannot become wrong.
 *
 * A reader sees a table while the process changes it, and trusts nothing in it.
 *
 * Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_BASE_LIVE_TABLES_H
#define HOMEFREE_ALLOC_BASE_LIVE_TABLES_H

#include <stdint.h>

/* The stubs, and what each calls for pointers that are not the heap's: a table with `per_function`
 * rows, each with an entry for each routed function. */
struct hf_live_stubs {
    const void *originals;  /* rows of entries without anything between them */
    uint64_t original_size; /* bytes of an entry */
    uint64_t original_real; /* where in an entry the original is; NULL: the stub is not in use */
    uint64_t original_stub; /* where in an entry the stub's address is */
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

/* The heap's blocks (alloc/spans/entry.h): where its books lie, and where in them what is. Numbers
 * are bytes, unless they say otherwise. */
struct hf_live_blocks {
    const void *region;   /* two words: where it begins, its size */
    const void *entries;  /* a word: the table of entries, by an address >> unit_shift */
    const void *sizes;    /* of a block of each class: a word each */
    const void *classes;  /* what else there is of a class */
    const void *large;    /* the owner that an entry has if a large block begins there */
    uint64_t class_count; /* classes */
    uint64_t class_size;  /* of one of `classes` */
    uint64_t class_step;  /* there: 4 bytes: from one block to the next */
    uint64_t class_units; /* there: a byte: a span's units */
    uint64_t unit_shift;  /* bits */
    uint64_t entry_size;
    uint64_t entry_owner;  /* there: a word; 0: nothing begins there */
    uint64_t entry_state;  /* there: a word: the states of a span; the record of a large block */
    uint64_t entry_first;  /* there: 4 bytes: the low half of the address of the block 0 */
    uint64_t entry_class;  /* there: a byte */
    uint64_t entry_waits;  /* there: a byte; not 0: of a large block, freed */
    uint64_t span_size;    /* of a span's record, which ends where its states begin */
    uint64_t span_unit;    /* there: 4 bytes: its first unit, from the region's on */
    uint64_t span_blocks;  /* there: 2 bytes: blocks */
    uint64_t span_before;  /* there: a byte: the first one's number */
    uint64_t live;         /* the state of a live block, which is a byte, */
    uint64_t sampled;      /* that of one that a profile samples, */
    uint64_t limited;      /* and the lowest of those that count for a limit */
    uint64_t large_word;   /* in a large block's record: a word: its address + its state */
    uint64_t large_size;   /* there: a word */
    uint64_t large_states; /* the highest state */
    uint64_t large_live;   /* the lowest one of a live block */
    uint64_t large_least;  /* the lowest one of a block that has pages */
};

/* The profile of the heap (profile_book.h): a word that is 0 as long as there was none, and then
 * leads to a table, where a word at `book` leads to a word that has the book's address, or 0. */
struct hf_live_profile {
    const void *functions;
    uint64_t book;
};

#endif
