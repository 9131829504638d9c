/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a function refers to where several instructions form an address (aarch64): ADRP gives a page
 * and ADD, or the offset of a load or store, the place in it, and the two may stand apart, with
 * jumps, copies and stores to the stack between them.
 *
 * Every value that may be in a register counts, whichever way the function takes. What becomes of
 * an address that leaves the registers cannot be followed, and need not be: it refers to the object
 * that lies there. A compiler goes from one object to another by constants alone, and only between
 * objects of one section (-fsection-anchors), so constants are followed.
 *
 * The file is hostile; see image.h. Owns: nothing. Uses malloc. Any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_FLOW_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_FLOW_H

#include "satellites/adopt/hidden/functions.h"

struct hf_flow_reference {
    uint64_t where;  /* the instruction that forms the address, or a part of it */
    uint64_t target; /* the address, or that of a page, if it is not known where in the page */
    bool page;
};

struct hf_flow {
    const struct hf_image *image;
    const struct hf_functions *functions;
    /* Whether an address may lead to one that matters; NULL: each does. */
    bool (*matters)(uint64_t address, void *context);
    /* False ends it. */
    bool (*visit)(const struct hf_flow_reference *reference, void *context);
    void *context;
};

/*
 * Visits what a function refers to by registers, by address of the instruction, and what it refers
 * to directly. Calls and jumps are visited as well, unless `matters` is there. Result: 0, -ENOMEM,
 * or -ENOTSUP: the function is too large or outside the file.
 */
int hf_flow_follow(const struct hf_flow *flow, const struct hf_function *function);

#endif
