/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Generates the version script that makes a module export the functions that CPython calls
 * (loader/inspect/module_functions.def) and nothing else.
 *
 * Owns: the rules for module names, linker symbols and version nodes, and the text of the script.
 * Used by: the command `homefree exports` and the Check suites. Performs no input or output: the
 * caller decides where names come from and where the text goes.
 *
 * Rules for every function here:
 *   - threads: one list is used by one thread at a time; lists share nothing;
 *   - may be called at any time between main() and exit(3); allocates with malloc(3);
 *   - strings that are passed in are copied; functions that return int return 0 or a negative
 * errno, and leave the list unchanged if they fail.
 */
#ifndef HOMEFREE_LOADER_COMMAND_EXPORTS_VERSION_SCRIPT_H
#define HOMEFREE_LOADER_COMMAND_EXPORTS_VERSION_SCRIPT_H

#include "loader/command/exports/punycode.h"

#include <stdbool.h>
#include <stddef.h>

/* An ordered set of linker symbols: each once, in the order in which it was first added. */
struct hf_exports;

/*
 * Creates an empty list. Returns the list, which the caller frees with hf_exports_free(), or NULL
 * if memory ran out.
 */
struct hf_exports *hf_exports_new(void);

/* Frees a list and its symbols. NULL is allowed. */
void hf_exports_free(struct hf_exports *list);

/* A module is a file, and no Linux file system allows a longer file name (NAME_MAX). */
enum { HF_EXPORTS_LONGEST_COMPONENT = 255 };
enum { HF_EXPORTS_REST_SIZE = 2 + HF_PUNYCODE_SIZE(HF_EXPORTS_LONGEST_COMPONENT) };

/*
 * Writes what follows PyInit or PyModExport in the name of a function by which CPython enters the
 * module `name` (in: UTF-8): "_<name>", or for a name beyond ASCII "U_<punycode of name, '-'
 * written as '_'>" (PEP 489). A dotted name stands for its last component, as it does for the
 * import system.
 *
 * Errors: -EINVAL if hf_exports_module_fault(name) is not NULL.
 */
int hf_exports_module_rest(const char *name, char rest[HF_EXPORTS_REST_SIZE]);

/*
 * Adds every function by which CPython may enter the module `name` (in: UTF-8), as symbols that the
 * module need not define: one of them is enough.
 *
 * Errors: -EINVAL if hf_exports_module_fault(name) is not NULL, -ENOMEM.
 */
int hf_exports_add_module(struct hf_exports *list, const char *name);

/*
 * Adds one linker symbol (in: as object files spell it, mangled for C++).
 *
 * Errors: -EINVAL if hf_exports_symbol_fault(symbol) is not NULL, -ENOMEM.
 */
int hf_exports_add_symbol(struct hf_exports *list, const char *symbol);

/* The number of symbols in the list. */
size_t hf_exports_count(const struct hf_exports *list);

/* The symbol at `index` (in: below hf_exports_count()), valid as long as the list. */
const char *hf_exports_symbol(const struct hf_exports *list, size_t index);

/* Whether the module need not define that symbol; it is written so that no linker asks for it. */
bool hf_exports_is_optional(const struct hf_exports *list, size_t index);

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

/*
 * Writes the version script.
 *
 *   list    in: what to export
 *   node    in: the version node that the symbols belong to; NULL for an anonymous script
 *   text    out: the script, NUL-terminated, ends with a newline; the caller frees it with free(3)
 *   length  out: bytes in *text without the NUL
 *
 * Errors: -EINVAL for an empty list (a module that exports nothing cannot be loaded) and for a node
 * with a fault, -ENOMEM. *text is NULL then.
 */
int hf_exports_script(const struct hf_exports *list, const char *node, char **text, size_t *length);

#endif
