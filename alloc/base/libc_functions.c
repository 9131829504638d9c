/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the constant table of libc's functions. Needs no lock; usable at any stage. See
 * libc_functions.h.
 */
#include "alloc/base/libc_functions.h"

#include <malloc.h>
#include <stdlib.h>

const struct hf_libc hf_libc_functions = {malloc,  calloc, memalign,
                                          realloc, free,   malloc_usable_size};

const bool hf_whole_process = false;

bool hf_libc_is_replaced(void)
{
    return false;
}

void hf_libc_start(void)
{
}
