/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can be reached in a shared object, and from where: from given functions on through direct
 * calls, jumps, addresses in code and tables of pointers; and which code and data elsewhere refers
 * to what was reached. Indirect calls are covered because the address of what they call stands in
 * code or in a table.
 *
 * The file is hostile; see image.h. Code that cannot be decoded is an error, never left out.
 *
 * Owns: the state of one analysis, until hf_reach_close(). Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_REACH_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_REACH_H

#include "satellites/adopt/hidden/functions.h"
#include "satellites/adopt/hidden/references.h"

enum {
    HF_REACH_IN = 1,    /* reached */
    HF_REACH_STOP = 2,  /* an end: references to its beginning do not count, and what refers to it
                           does not reach it */
    HF_REACH_OPEN = 4,  /* reached from elsewhere as well, or through one that is */
    HF_REACH_OUTER = 8, /* refers to what was reached, and is examined itself */
    HF_REACH_OWN = 16   /* the allocator's by its name, which can be hidden from other objects */
};

/* Functions and data objects are nodes: functions by their index, and after them the objects. */
#define HF_REACH_UNKNOWN UINT32_MAX
struct hf_edge {
    uint32_t from, to; /* nodes. From HF_REACH_UNKNOWN: something that is neither refers to it */
};

struct hf_data_use {
    uint64_t address; /* of writable data */
    uint32_t function;
};

struct hf_reach {
    const struct hf_image *image;
    const struct hf_functions *functions;
    const struct hf_references *references;
    uint8_t *marks;           /* by node: HF_REACH_… */
    uint32_t *openers;        /* by node: which one opened it. UNKNOWN also if it is none */
    uint8_t *followed;        /* by index of the pointer: something that is reached refers to it */
    struct hf_edge *pointers; /* by the same index: from which node to which */
    struct hf_edge *edges;
    size_t edges_count, edges_capacity;
    struct hf_data_use *uses;
    size_t uses_count, uses_capacity;
    uint32_t *pending; /* nodes to look at, in the order in which they became known */
    size_t pending_count, done_count, enclosed_count;
    uint32_t shared; /* reached through a linkage table's code, which others may use; or UNKNOWN */
    struct hf_edge *slots; /* `from`: the index of a pointer in a slot that leads to `to` */
    size_t slots_count, slots_capacity;
    struct hf_edge *inside; /* references to a place inside of a STOP, not to its beginning */
    size_t inside_count, inside_capacity;
    const char *why; /* after a failure: a static string */
    uint64_t where;  /* and the address it is about, or 0 */
};

/* The references may be opened later, before hf_reach_enclose(). */
int hf_reach_open(struct hf_reach *reach, const struct hf_image *image,
                  const struct hf_functions *functions, const struct hf_references *references);
void hf_reach_close(struct hf_reach *reach);

/* Marks a node; one that gets HF_REACH_IN is followed by hf_reach_follow(). */
void hf_reach_mark(struct hf_reach *reach, uint32_t node, uint8_t marks);

/* The node in which an address lies, or HF_REACH_UNKNOWN; and its name, or NULL. */
uint32_t hf_reach_node(const struct hf_reach *reach, uint64_t address);
const char *hf_reach_name(const struct hf_reach *reach, uint32_t node);

/* Follows all references from the functions that are reached. Result: 0, -ENOMEM, or -ENOTSUP with
 * `why`. */
int hf_reach_follow(struct hf_reach *reach);

/* Whether a node is unknown or open; whether it is reached; and whether it runs no longer once the
 * STOPs are replaced. */
bool hf_reach_is_open(const struct hf_reach *reach, uint32_t node);
bool hf_reach_is_in(const struct hf_reach *reach, uint32_t node);
bool hf_reach_is_closed(const struct hf_reach *reach, uint32_t node);

/*
 * May be called again after more nodes were marked. Finds what refers to reached functions from
 * elsewhere, adds the functions that do as OUTER, looks for what refers to those, and so on, and
 * marks as OPEN what can be reached from outside all of these: through another reference, or
 * because an OUTER function is exported. Reached functions that are exported are left to the
 * caller. Result: as above.
 */
int hf_reach_enclose(struct hf_reach *reach);

#endif
