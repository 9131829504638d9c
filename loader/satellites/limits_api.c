/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions of homefree/limit.h. Limits are those of the heap's instance, to which
 * every other one forwards. It has them in a satellite (satellites/limits/), which it opens when
 * the first limit begins.
 *
 * Owns the satellite's place, which is sealed.
 */
#include "loader/satellites/limits_api.h"

#include "alloc/base/satellite.h"
#include "alloc/heap/instance.h"
#include "alloc/start/trim.h"
#include "loader/adopt/no_memory.h"

#include <errno.h>
#include <homefree/alloc.h>

static const struct hf_limits_core core_functions = {
    .limited = hf_limited,
    .open = hf_limited_open,
    .close = hf_limited_close,
    .malloc_limited = hf_limited_malloc,
    .claim = hf_limited_claim,
    .refuse = hf_limited_refuse,
    .growth = hf_limited_growth,
    .malloc = hf_malloc,
    .free = hf_free,
    .usable_size = hf_usable_size,
    .new_failed = hf_new_failed,
    .trim = hf_trim_in_call,
    .slots_all = hf_limit_slots_all,
    .slots_from = hf_limit_slots_from,
    .slots_offer = hf_limit_slots_offer,
    .cpython_find = hf_cpython_find,
    .cpython_attached = hf_cpython_attached,
};
static HF_SEALED_UNION(struct hf_satellite, satellite) place HF_SEALED = {
    .satellite = {.name = "limits", .core = &core_functions}};

/* The heap's instance's functions; NULL: there are none. */
static const struct hf_limits_functions *functions(void)
{
    const struct hf_instance_functions *other = hf_instance_other();
    return other == NULL ? hf_satellite_functions(&place.satellite) : other->limits;
}

int hf_limit_begin(struct hf_limit **out, const char *path, uint64_t bytes,
                   const struct hf_limit_options *options)
{
    if (out == NULL || (path != NULL && path[0] == '\0'))
        return -EINVAL;
    const struct hf_limits_functions *to = functions();
    if (to == NULL && hf_instance_forward() == NULL &&
        hf_heaps() != NULL) /* diagnostics mode has blocks of its own */
        to = hf_satellite_open(&place.satellite, NULL, 0);
    return to != NULL ? to->begin(out, path, bytes, options) : -ENOTSUP;
}

int hf_limit_add(struct hf_limit *limit, const char *path)
{
    const struct hf_limits_functions *to = functions();
    if (limit == NULL || path == NULL || path[0] == '\0' || to == NULL)
        return -EINVAL;
    return to->add(limit, path);
}

int hf_limit_set(struct hf_limit *limit, uint64_t bytes)
{
    const struct hf_limits_functions *to = functions();
    return limit != NULL && to != NULL ? to->set(limit, bytes) : -EINVAL;
}

int hf_limit_read(const struct hf_limit *limit, struct hf_limit_state *out)
{
    const struct hf_limits_functions *to = functions();
    if (limit == NULL || out == NULL || out->size <= sizeof(size_t) || to == NULL)
        return -EINVAL;
    return to->read(limit, out);
}

int hf_limit_number(const struct hf_limit *limit)
{
    const struct hf_limits_functions *to = functions();
    return to != NULL && to->number != NULL ? to->number(limit) : -EINVAL;
}

int hf_limit_each(hf_limit_visitor *visit, void *context)
{
    const struct hf_limits_functions *to = functions();
    if (visit == NULL)
        return -EINVAL;
    return to != NULL ? to->each(visit, context) : 0;
}

int hf_limit_end(struct hf_limit *limit)
{
    const struct hf_limits_functions *to = functions();
    if (limit == NULL)
        return 0;
    return to != NULL ? to->end(limit) : -EINVAL;
}

const struct hf_limits_functions hf_limits_offered = {
    .begin = hf_limit_begin,
    .add = hf_limit_add,
    .set = hf_limit_set,
    .read = hf_limit_read,
    .each = hf_limit_each,
    .end = hf_limit_end,
    .number = hf_limit_number,
};
