/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See profile_core.h. Owns nothing.
 */
#include "satellites/profile/profile_core.h"

int hf_heap_sample(const struct hf_sample_functions *functions, size_t mean)
{
    return hf_core()->sample(functions, mean);
}

const struct hf_cpython *hf_cpython(void)
{
    return hf_core()->cpython();
}

const struct hf_cpython *hf_cpython_find(const void *anchor)
{
    return hf_core()->cpython_find(anchor);
}

bool hf_cpython_attached(const struct hf_cpython *cpython)
{
    return hf_core()->cpython_attached(cpython);
}
