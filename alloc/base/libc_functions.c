/*
 * Owns one constant table. See libc_functions.h. May be used at any stage.
 */
#include "alloc/base/libc_functions.h"

#include <malloc.h>
#include <stdlib.h>

const struct hf_libc hf_libc_functions = {malloc,  calloc, memalign,
                                          realloc, free,   malloc_usable_size};
