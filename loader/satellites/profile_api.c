/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions of homefree/profile.h. The profile is that of the heap's instance, to
 * which every other one forwards. It has it in a satellite (satellites/profile/), which it opens
 * when the first profile begins.
 *
 * Owns the satellite's place, which is sealed.
 */
#include "loader/satellites/profile_api.h"

#include "alloc/base/options.h"
#include "alloc/base/satellite.h"
#include "alloc/heap/instance.h"

#include <errno.h>

static const struct hf_profile_core core_functions = {
    .sample = hf_heap_sample,
    .cpython_find = hf_cpython_find,
    .cpython_attached = hf_cpython_attached,
};
static HF_SEALED_UNION(struct hf_satellite, satellite) place HF_SEALED = {
    .satellite = {.name = "profile", .core = &core_functions}};

const struct hf_live_profile hf_profile_live = {
    .functions = &place.satellite.functions,
    .book = offsetof(struct hf_profile_functions, book),
};

static bool is_elsewhere(const struct hf_profile_functions **functions)
{
    const struct hf_instance_functions *other = hf_instance_other();
    *functions = other != NULL ? other->profile : hf_satellite_functions(&place.satellite);
    return other != NULL;
}

int hf_profile_begin(size_t mean_bytes)
{
    const struct hf_profile_functions *functions;
    const bool elsewhere = is_elsewhere(&functions);
    if (mean_bytes == 0)
        return -EINVAL;
    if (!elsewhere) {
        if (hf_heaps() == NULL) /* diagnostics mode has blocks of its own */
            return -ENOTSUP;
        functions = hf_satellite_open(&place.satellite, NULL, 0);
    }
    return functions != NULL ? functions->begin(mean_bytes) : -ENOTSUP;
}

int hf_profile_end(void)
{
    const struct hf_profile_functions *functions;
    (void)is_elsewhere(&functions);
    return functions != NULL ? functions->end() : -EINVAL;
}

int hf_profile_each(hf_profile_visitor *visit, void *context)
{
    const struct hf_profile_functions *functions;
    const bool elsewhere = is_elsewhere(&functions);
    if (visit == NULL)
        return -EINVAL;
    if (functions != NULL)
        return functions->each(visit, context);
    return elsewhere ? -ENOTSUP : 0;
}

const struct hf_profile_functions hf_profile_offered = {
    .begin = hf_profile_begin, .end = hf_profile_end, .each = hf_profile_each};

void hf_profile_start(void)
{
    if (hf_options.profile != 0 && hf_instance_forward() == NULL)
        (void)hf_profile_begin(hf_options.profile);
}
