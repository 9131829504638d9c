/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions, but for the malloc family (family.c), that every instance of libhomefree
 * forwards to the heap's copy, and the table of functions that other copies call here. Owns
 * nothing, takes no lock. Callable at any stage: an entry that needs the heap starts it.
 */
#include "alloc/start/api.h"

#include "alloc/base/sized.h"
#include "alloc/deleter/release.h"
#include "alloc/owner/dispatch.h"
#include "alloc/owner/owner.h"
#include "alloc/space/space_calls.h"
#include "alloc/start/family.h"
#include "alloc/start/stats.h"
#include "alloc/start/trim.h"
#include "alloc/trace/fail.h"

#include <dlfcn.h>
#include <errno.h>

/* The functions to call instead of this copy's own; NULL if this copy is the heap. */
static const struct hf_instance_functions *other_copy(void)
{
    if (HF_UNLIKELY(!hf_instance_started()))
        hf_heap_start();
    return hf_instance_forward();
}

/* ---- owners and statistics ---- */

/* In this copy, with what CUDA's driver knows. */
static int owner_of_any(const void *ptr, struct hf_owner *out)
{
    int error = hf_owner_of_here(ptr, out);
    if (error != 0 || (out->kind != HF_OWNER_UNKNOWN && out->kind != HF_OWNER_UNMAPPED))
        return error;
    struct hf_owner owner = {.kind = out->kind, .device = -1, .interpreter = -1};
    hf_spaces_describe_other(ptr, &owner);
    hf_sized_copy(out, &owner, sizeof owner);
    return 0;
}

int hf_owner_of(const void *ptr, struct hf_owner *out)
{
    const struct hf_instance_functions *other = other_copy();
    return other != NULL ? other->owner_of(ptr, out) : owner_of_any(ptr, out);
}

int hf_stats(struct hf_stats *out)
{
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return hf_stats_here(out);
    int result = other->stats(out);
    struct hf_stats forwards = {.forwards = 1};
    if (result == 0 && out->size >= offsetof(struct hf_stats, forwards) + sizeof forwards.forwards)
        out->forwards = forwards.forwards;
    return result;
}

int hf_stats_of_others(hf_other_stats_visitor *visit, void *context)
{
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return hf_stats_of_others_here(visit, context);
    return other->stats_of_others != NULL ? other->stats_of_others(visit, context) : -ENOTSUP;
}

int hf_trim(hf_trim_visitor *visit, void *context)
{
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return hf_trim_here(visit, context);
    return other->trim != NULL ? other->trim(visit, context) : -ENOTSUP;
}

const char *hf_version(void)
{
    return HF_VERSION;
}

hf_dlsym_function hf_dlsym(void)
{
    const struct hf_instance_functions *routing = other_copy();
    if (routing == NULL)
        routing = hf_instance_own()->functions;
    /* dlsym() of this copy's namespace, whichever copy routes. */
    return routing->lookup_for != NULL ? (hf_dlsym_function)routing->lookup_for((void *)dlsym)
                                       : dlsym;
}

/* ---- releases ---- */

static int make_release(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                        int (*attempt)(void *pointer), const char *name)
{
    if (out == NULL || pointer == NULL || (destroy == NULL && attempt == NULL))
        return -EINVAL;
    const struct hf_instance_functions *other = other_copy();
    return other != NULL && other->release_make != NULL
               ? other->release_make(out, pointer, destroy, attempt, name)
               : hf_release_make(out, pointer, destroy, attempt, name);
}

int hf_release_new(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                   const char *name)
{
    return make_release(out, pointer, destroy, NULL, name);
}

int hf_release_new_attempt(struct hf_release **out, void *pointer, int (*attempt)(void *pointer),
                           const char *name)
{
    return make_release(out, pointer, NULL, attempt, name);
}

/* The heap's copy frees, which is never unloaded. */
static int make_space_release(struct hf_release **out, void *pointer, void *stream,
                              const char *name)
{
    struct hf_space space = {.size = sizeof space, .device = -1};
    (void)hf_spaces_here.of(pointer, &space); /* -ENOENT: the pointer goes to hf_free() */
    return hf_release_make_space(out, pointer, space.device, stream, hf_spaces_here.free, name);
}

int hf_release_new_space(struct hf_release **out, void *pointer, void *stream, const char *name)
{
    if (out == NULL || pointer == NULL)
        return -EINVAL;
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return make_space_release(out, pointer, stream, name);
    return other->release_make_space != NULL ? other->release_make_space(out, pointer, stream, name)
                                             : -ENOTSUP;
}

bool hf_release_is(const void *ptr)
{
    const struct hf_instance_functions *other = hf_instance_forward();
    struct hf_owner owner = {.size = sizeof owner};
    if (ptr == NULL)
        return false;
    if (other != NULL && other->release_make == NULL)
        return hf_release_is_record(ptr, SIZE_MAX); /* no heap knows the block */
    if (!hf_owned(ptr))
        return false;
    if (other == NULL)
        owner.block_size = hf_heap_block(ptr, &owner.block);
    else if (other->owner_of(ptr, &owner) != 0)
        return false;
    return owner.block == ptr && hf_release_is_record(ptr, owner.block_size);
}

/* ---- watches ---- */

int hf_watch_begin(struct hf_watch **out, size_t capacity)
{
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return hf_watch_begin_here(out, capacity);
    return other->watch_begin != NULL ? other->watch_begin(out, capacity) : -ENOTSUP;
}

/* ---- failure on demand ---- */

int hf_fail_at(uint64_t call, unsigned flags)
{
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return hf_fail_at_here(call, flags);
    return other->fail_at != NULL ? other->fail_at(call, flags) : -ENOTSUP;
}

int hf_fail_count(unsigned flags, struct hf_fail_counts *out)
{
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return hf_fail_count_here(flags, out);
    return other->fail_count != NULL ? other->fail_count(flags, out) : -ENOTSUP;
}

int hf_fail_end(unsigned flags, struct hf_fail_counts *out)
{
    const struct hf_instance_functions *other = other_copy();
    if (other == NULL)
        return hf_fail_end_here(flags, out);
    return other->fail_end != NULL ? other->fail_end(flags, out) : -ENOTSUP;
}

/* ---- for other copies ---- */

const struct hf_instance_functions hf_api_functions = {
    .heap = {hf_malloc, hf_calloc, hf_realloc, hf_memalign, hf_free, hf_usable_size},
    .owner_of = owner_of_any,
    .stats = hf_stats_here,
    .trim = hf_trim_here,
    .stats_of_others = hf_stats_of_others_here,
    .release_make = hf_release_make,
    .watch_begin = hf_watch_begin_here,
    .check_freed = hf_check_freed,
    .fail_at = hf_fail_at_here,
    .fail_count = hf_fail_count_here,
    .fail_end = hf_fail_end_here,
    .spaces = &hf_spaces_here,
    .release_make_space = make_space_release,
    .foreign = &hf_dispatch_functions,
    .heaps = hf_heaps,
};
