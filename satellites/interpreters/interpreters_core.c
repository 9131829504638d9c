/*
 * See interpreters_core.h. The pointer is sealed; it is written when the satellite begins, before
 * anybody has one of its functions.
 */
#include "satellites/interpreters/interpreters_core.h"

#include "alloc/base/seal.h"

#include <homefree/homefree.h>

static union {
    const struct hf_interpreters_core *it;
    char pages[HF_SEAL_SIZE(void *)];
} core HF_SEALED;

void hf_core_begin(const struct hf_interpreters_core *given)
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    core.it = given;
    hf_seal_close(&seal);
}

const struct hf_interpreters_observer *hf_core_observer(void)
{
    return core.it->observer;
}

void *hf_malloc(size_t size)
{
    return core.it->malloc(size);
}

void *hf_calloc(size_t count, size_t size)
{
    return core.it->calloc(count, size);
}

void *hf_realloc(void *ptr, size_t size)
{
    return core.it->realloc(ptr, size);
}

void hf_free(void *ptr)
{
    core.it->free(ptr);
}

const struct hf_cpython *hf_cpython(void)
{
    return core.it->cpython();
}

const struct hf_cpython *hf_cpython_find(const void *anchor)
{
    return core.it->cpython_find(anchor);
}

const struct hf_cpython_interpreters *hf_cpython_interpreters(void)
{
    return core.it->cpython_interpreters();
}

bool hf_cpython_attached(const struct hf_cpython *cpython)
{
    return core.it->cpython_attached(cpython);
}

int hf_python_install(const struct hf_python_options *options, struct hf_python_state *out)
{
    return core.it->python_install(options, out);
}

int hf_python_share(const void *array, struct hf_release **out)
{
    return core.it->python_share(array, out);
}

int hf_release_new_attempt(struct hf_release **out, void *pointer, int (*attempt)(void *pointer),
                           const char *name)
{
    return core.it->release_new_attempt(out, pointer, attempt, name);
}

void hf_release_take(struct hf_release *release)
{
    core.it->release_take(release);
}

void hf_release_drop(struct hf_release *release)
{
    core.it->release_drop(release);
}

void hf_doctor_search_place(const struct hf_frame *crash, struct hf_doctor_place *out)
{
    core.it->search_place(crash, out);
}
