/*
 * What the tests of the seam to CUDA share. The seam's files are linked into each program, and each
 * behaviour runs in a process of its own, which the double of CUDA has not seen before.
 */
#ifndef HOMEFREE_TESTS_CUDA_SEAM_H
#define HOMEFREE_TESTS_CUDA_SEAM_H

#include "death.h"
#include "satellites/cuda/driver/cuda.h"

#include <stddef.h>
#include <string.h>

/* Whether the reason contains a text. */
static inline int reason_has(const char *text)
{
    char reason[512];
    hf_cuda_reason(reason, sizeof reason);
    return strstr(reason, text) != NULL;
}

/* Whether the reason is empty. */
static inline int reason_is_empty(void)
{
    char reason[512] = "?";
    hf_cuda_reason(reason, sizeof reason);
    return reason[0] == '\0';
}

#endif
