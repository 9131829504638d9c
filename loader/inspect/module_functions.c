/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See module_functions.h.
 */
#include "loader/inspect/module_functions.h"

#include <stddef.h>
#include <string.h>

const struct hf_module_function_name hf_module_functions[HF_MODULE_FUNCTION_COUNT] = {
#define HF_MODULE_FUNCTION(id, name, minor) {name, minor},
#include "loader/inspect/module_functions.def"
#undef HF_MODULE_FUNCTION
};

const char *hf_module_function_module(const char *rest)
{
    return rest + (rest[0] == 'U' ? 2 : 1);
}

enum hf_module_function hf_module_function_of(const char *symbol, const char **rest)
{
    for (int i = 0; i < HF_MODULE_FUNCTION_COUNT; i++) {
        const size_t length = strlen(hf_module_functions[i].name);
        if (strncmp(symbol, hf_module_functions[i].name, length) != 0)
            continue;
        const char *after = symbol + length;
        if ((after[0] != '_' && (after[0] != 'U' || after[1] != '_')) ||
            hf_module_function_module(after)[0] == '\0')
            continue;
        if (rest != NULL)
            *rest = after;
        return (enum hf_module_function)i;
    }
    return HF_MODULE_FUNCTION_NONE;
}
