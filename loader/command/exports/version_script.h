/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Generates the version script that makes a module export the functions that CPython calls
 * (loader/inspect/module_functions.def) and nothing else.
 *
 * Owns: the rules for module names, linker symbols and version nodes, and the text of the script.
 * Used by: the command `homefree exports` and the Check suite. Performs no input, and no output but
 * to the stream that it is given.
 *
 * One list is used by one thread at a time; lists share nothing. May be called at any time between
 * main() and exit(3). Strings that are passed in are copied.
 */
#ifndef HOMEFREE_LOADER_COMMAND_EXPORTS_VERSION_SCRIPT_H
#define HOMEFREE_LOADER_COMMAND_EXPORTS_VERSION_SCRIPT_H

#include "loader/command/exports/punycode.h"
#include "loader/command/keep.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* An ordered set of linker symbols: each once, in the order in which it was first added. */
struct hf_exports {
    struct hf_exported {
        const char *symbol;
        bool optional; /* the module need not define it; written so that no linker asks for it */
    } * entries;
    size_t count;
    struct hf_keep *keep;         /* private: its memory */
    struct hf_keep_table symbols; /* private: the same, to be found */
};

void hf_exports_begin(struct hf_exports *list, struct hf_keep *keep);

/* A module is a file, and no Linux file system allows a longer file name (NAME_MAX). */
enum { HF_EXPORTS_LONGEST_COMPONENT = 255 };
enum { HF_EXPORTS_REST_SIZE = 2 + HF_PUNYCODE_SIZE(HF_EXPORTS_LONGEST_COMPONENT) };

/*
 * Writes what follows PyInit or PyModExport in the name of a function by which CPython enters the
 * module `name` (in: without a fault): "_<name>", or for a name beyond ASCII "U_<punycode of name,
 * '-' written as '_'>" (PEP 489). A dotted name stands for its last component, as it does for the
 * import system.
 */
void hf_exports_module_rest(const char *name, char rest[HF_EXPORTS_REST_SIZE]);

/* Adds every function by which CPython may enter the module `name` (in: without a fault), as
 * symbols that the module need not define: one of them is enough. */
void hf_exports_add_module(struct hf_exports *list, const char *name);

/* Adds one linker symbol (in: without a fault, as object files spell it, mangled for C++). */
void hf_exports_add_symbol(struct hf_exports *list, const char *symbol);

/*
 * Explains why `name` cannot be the dotted name of a module. Returns a static text that says what
 * is wrong and what to do, without a newline; NULL if the name is valid.
 *
 * The ASCII rules are exactly Python's. Beyond ASCII, only names that are certainly invalid without
 * Unicode's tables are rejected: text that is not UTF-8, control characters, spaces, punctuation
 * and private use.
 */
const char *hf_exports_module_fault(const char *name);

/*
 * Explains why `symbol` cannot appear in a version script. Wildcards are rejected: this generator
 * replaces scripts that export symbols that nobody listed. Returns the same as
 * hf_exports_module_fault().
 */
const char *hf_exports_symbol_fault(const char *symbol);

/*
 * Explains why `node` cannot name a version node ([A-Za-z_][A-Za-z0-9_.]*). Returns the same as
 * hf_exports_module_fault().
 */
const char *hf_exports_node_fault(const char *node);

/* Writes the version script of a list that is not empty. `node` (in: without a fault): the version
 * node that the symbols belong to; NULL for an anonymous script. */
void hf_exports_script(const struct hf_exports *list, const char *node, FILE *out);

#endif
