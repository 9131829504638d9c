/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Searches a symbol table for many names in one pass. A small hash of a name's first four bytes, or
 * of its last four for endings, selects the patterns to compare it with, so the cost of a name does
 * not depend on the number of patterns.
 *
 * Patterns: "malloc" is a whole name, "mi_*" a prefix, "*mallctl" an ending of at least four
 * letters. Endings match only C names: names that begin with _Z or _R (C++, Rust) or that are
 * longer than 127 letters are not compared with them.
 *
 * The caller owns the matcher and the patterns to which it points. Matching only reads it, so any
 * number of threads may share it. Nothing is allocated.
 */
#ifndef HOMEFREE_LOADER_ELF_ELF_NAMES_H
#define HOMEFREE_LOADER_ELF_ELF_NAMES_H

#include "loader/elf/elf_file.h"

#define HF_NAMES_MAX 400

struct hf_names {
    const char *const *patterns;
    size_t count;
    bool has_endings;
    uint16_t starts[512];         /* by the first four bytes: a pattern's number + 1 */
    uint16_t ends[256];           /* by the last four bytes, of endings */
    uint16_t firsts[256];         /* by the first byte: prefixes of less than four letters */
    uint16_t next[HF_NAMES_MAX];  /* the next with the same hash */
    uint8_t length[HF_NAMES_MAX]; /* of the letters, without the star */
};

/* Result: 0; -EINVAL for an invalid pattern; -E2BIG for more than HF_NAMES_MAX. */
int hf_names_prepare(struct hf_names *names, const char *const *patterns, size_t count);

/* The number of the first pattern that matches, or -1. */
int hf_names_match(const struct hf_names *names, const char *name);

/* False ends the visit. */
typedef bool hf_names_visitor(const struct hf_elf_symbol *symbol, size_t pattern, void *context);

/* Visits every symbol of the table, defined or not, whose name matches, without its version;
 * otherwise as hf_elf_symbols(). */
int hf_names_visit(const struct hf_names *names, struct hf_elf *elf, enum hf_elf_table table,
                   hf_names_visitor *visit, void *context);

#endif
