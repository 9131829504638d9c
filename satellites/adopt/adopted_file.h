/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes adopted copies: turns a plain copy of a shared object's file into one whose allocator is
 * the heap, according to a plan.
 *
 * In the copy, each entry point begins with a jump through a slot of its own. The dynamic linker
 * fills the slots from symbols that the copy asks libhomefree for, so the file holds no address of
 * this process and others can load it. A segment at the end holds the slots and what had to grow:
 * program headers, symbols, strings, relocations. Everything else stays where it was: addresses,
 * build id, sections, debug files.
 *
 * Stateless. Uses malloc. One thread at a time for each file.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_ADOPTED_FILE_H
#define HOMEFREE_SATELLITES_ADOPT_ADOPTED_FILE_H

#include "satellites/adopt/hidden/plan.h"

struct hf_adopted_facts {
    const char *library; /* libhomefree's soname in this process */
    const char
        *original; /* the absolute path that was asked for; its directory is what $ORIGIN means */
    uint64_t key[2];
};

/*
 * Rewrites the file behind a descriptor open for reading and writing, which holds the bytes of the
 * image's file. Result: 0; -ENOTSUP, with *why: a string like "it has no room for …"; or another
 * negative errno.
 */
int hf_adopted_write(int descriptor, const struct hf_image *image, const struct hf_plan *plan,
                     const struct hf_adopted_facts *facts, const char **why);

#endif
