/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of the functions by which CPython enters an extension module, from
 * module_functions.def. Shared by inspect, the command and the Python extension.
 *
 * No state. Any thread may call this at any time.
 */
#ifndef HOMEFREE_LOADER_INSPECT_MODULE_FUNCTIONS_H
#define HOMEFREE_LOADER_INSPECT_MODULE_FUNCTIONS_H

#include <stdbool.h>

enum hf_module_function {
    HF_MODULE_FUNCTION_NONE = -1,
#define HF_MODULE_FUNCTION(id, name, minor) HF_MODULE_FUNCTION_##id,
#include "loader/inspect/module_functions.def"
#undef HF_MODULE_FUNCTION
    HF_MODULE_FUNCTION_COUNT
};

struct hf_module_function_name {
    const char *name; /* as the symbol begins */
    unsigned minor;   /* of the first CPython 3 that calls it */
};

/* In the order in which CPython looks for them. */
extern const struct hf_module_function_name hf_module_functions[HF_MODULE_FUNCTION_COUNT];

/*
 * Which of them a symbol is.
 *
 *   symbol  in: the name of a symbol
 *   rest    out: what follows the function's name, "_MODULE" or "U_PUNYCODE", within `symbol`; not
 *           set if it is none of them. May be NULL.
 *
 * Returns HF_MODULE_FUNCTION_NONE if it is none of them; also if no module's name follows.
 */
enum hf_module_function hf_module_function_of(const char *symbol, const char **rest);

/* The module's name, or its Punycode, in a rest that hf_module_function_of() returned. */
const char *hf_module_function_module(const char *rest);

#endif
