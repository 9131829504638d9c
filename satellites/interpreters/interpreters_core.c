/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See interpreters_core.h. Owns nothing.
 */
#include "satellites/interpreters/interpreters_core.h"

#include <homefree/homefree.h>

void *hf_malloc(size_t size)
{
    return hf_core()->malloc(size);
}

void *hf_calloc(size_t count, size_t size)
{
    return hf_core()->calloc(count, size);
}

void *hf_realloc(void *ptr, size_t size)
{
    return hf_core()->realloc(ptr, size);
}

void hf_free(void *ptr)
{
    hf_core()->free(ptr);
}

const struct hf_cpython *hf_cpython(void)
{
    return hf_core()->cpython();
}

const struct hf_cpython *hf_cpython_find(const void *anchor)
{
    return hf_core()->cpython_find(anchor);
}

const struct hf_cpython_interpreters *hf_cpython_interpreters(void)
{
    return hf_core()->cpython_interpreters();
}

bool hf_cpython_attached(const struct hf_cpython *cpython)
{
    return hf_core()->cpython_attached(cpython);
}

int hf_python_install(const struct hf_python_options *options, struct hf_python_state *out)
{
    return hf_core()->python_install(options, out);
}

int hf_python_share(const void *array, struct hf_release **out)
{
    return hf_core()->python_share(array, out);
}

int hf_release_new_attempt(struct hf_release **out, void *pointer, int (*attempt)(void *pointer),
                           const char *name)
{
    return hf_core()->release_new_attempt(out, pointer, attempt, name);
}

void hf_release_take(struct hf_release *release)
{
    hf_core()->release_take(release);
}

void hf_release_drop(struct hf_release *release)
{
    hf_core()->release_drop(release);
}

void hf_doctor_search_place(const struct hf_frame *crash, struct hf_doctor_place *out)
{
    hf_core()->search_place(crash, out);
}
