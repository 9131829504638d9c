/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that an inspection searches symbol tables for, combined in one matcher so that each
 * symbol is examined once. No state; any thread.
 */
#include "loader/inspect/inspect_parts.h"

#include <errno.h>

/* The functions that an allocator exports when it replaces the process's allocator. Those that
 * allocate come first. */
static const char *const allocator_functions[] = {
    "malloc",   "calloc",  "realloc",       "reallocarray",
    "memalign", "pvalloc", "valloc",        "posix_memalign",
    "_Znwm*",   "_Znam*",  "aligned_alloc", "malloc_usable_size",
    "free",     "cfree",   "free_sized",    "free_aligned_sized",
    "_ZdlPv*",  "_ZdaPv*",
};
enum { ALLOCATING_COUNT = 11 };

/* libc's functions whose results the caller must free. The allocating functions are among them and
 * come earlier in the matcher. */
static const char *const handing_functions[] = {
#define HF_SHIM(name, result, parameters, arguments, call) #name,
#define HF_SHIM_VARIADIC(name, parameters, last, call)     #name,
#include "shim/functions.def"
};

enum {
    FUNCTIONS_COUNT = sizeof allocator_functions / sizeof allocator_functions[0],
    HANDING_COUNT = sizeof handing_functions / sizeof handing_functions[0],
};

int hf_inspect_names(struct hf_names *matcher, const char *patterns[HF_NAMES_MAX])
{
    size_t count = 0;
    if (hf_allocator_patterns_count + FUNCTIONS_COUNT + HANDING_COUNT > HF_NAMES_MAX)
        return -E2BIG;
    for (size_t i = 0; i < hf_allocator_patterns_count; i++)
        patterns[count++] = hf_allocator_patterns[i];
    for (size_t i = 0; i < FUNCTIONS_COUNT; i++)
        patterns[count++] = allocator_functions[i];
    for (size_t i = 0; i < HANDING_COUNT; i++)
        patterns[count++] = handing_functions[i];
    return hf_names_prepare(matcher, patterns, count);
}

bool hf_inspect_name_allocates(int pattern)
{
    return pattern >= 0 && (size_t)pattern >= hf_allocator_patterns_count &&
           (size_t)pattern < hf_allocator_patterns_count + ALLOCATING_COUNT;
}

enum hf_inspect_name hf_inspect_name_kind(int pattern)
{
    if (pattern < 0)
        return HF_NAME_OTHER;
    if ((size_t)pattern < hf_allocator_patterns_count)
        return HF_NAME_ALLOCATOR;
    return (size_t)pattern < hf_allocator_patterns_count + FUNCTIONS_COUNT ? HF_NAME_FUNCTION
                                                                           : HF_NAME_HANDING;
}
