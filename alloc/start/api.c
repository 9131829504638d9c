/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions, but for the malloc family (family.c), that every instance of libhomefree
 * forwards to the heap's copy, and the table of functions that other copies call here. Owns
 * nothing, takes no lock. Callable at any stage: an entry that needs the heap starts it.
 */
#include "alloc/start/api.h"

#include "alloc/base/sized.h"
#include "alloc/deleter/release.h"
#include "alloc/heap/region.h"
#include "alloc/owner/dispatch.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/owner.h"
#include "alloc/space/space_calls.h"
#include "alloc/start/family.h"
#include "alloc/start/trim.h"
#include "alloc/trace/fail.h"

#include <dlfcn.h>
#include <errno.h>

/* ---- owners ---- */

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
    HF_INSTANCE_FORWARD(owner_of, ptr, out);
    return owner_of_any(ptr, out);
}

/* ---- statistics ---- */

static int stats_here(struct hf_stats *out)
{
    if (out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    struct hf_heap_numbers heap;
    const int error = hf_heap_count(&heap);
    if (error != 0)
        return error;
    struct hf_release_counts releases = hf_release_count();
    struct hf_stats stats = {
        .region_reserved = hf_region.limit,
        .region_used = hf_region_used() - hf_spaces_lent(),
        .allocated = heap.allocated,
        .active = heap.active,
        .resident = heap.resident,
        .metadata = heap.metadata,
        .arenas = heap.arenas,
        .releases_live = releases.live,
        .releases_run = releases.run,
        .releases_leaked = releases.leaked,
    };
    hf_sized_copy(out, &stats, sizeof stats);
    return 0;
}

int hf_stats(struct hf_stats *out)
{
    const struct hf_instance_functions *other = hf_instance_other();
    if (other == NULL)
        return stats_here(out);
    int result = other->stats != NULL ? other->stats(out) : -ENOTSUP;
    struct hf_stats forwards = {.forwards = 1};
    if (result == 0 && out->size >= offsetof(struct hf_stats, forwards) + sizeof forwards.forwards)
        out->forwards = forwards.forwards;
    return result;
}

static int stats_of_others_here(hf_other_stats_visitor *visit, void *context)
{
    const int saved_errno = errno;
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator == NULL || allocator->hosted != NULL)
            continue;
        struct hf_other_stats stats = {.allocator = allocator->name, .object = allocator->object};
        if (hf_foreign_call_live(allocator, &stats.live))
            visit(&stats, context);
    }
    errno = saved_errno;
    return 0;
}

int hf_stats_of_others(hf_other_stats_visitor *visit, void *context)
{
    HF_INSTANCE_FORWARD(stats_of_others, visit, context);
    return stats_of_others_here(visit, context);
}

int hf_trim(hf_trim_visitor *visit, void *context)
{
    HF_INSTANCE_FORWARD(trim, visit, context);
    return hf_trim_here(visit, context);
}

const char *hf_version(void)
{
    return HF_VERSION;
}

hf_dlsym_function hf_dlsym(void)
{
    const struct hf_instance_functions *routing = hf_instance_other();
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
    const struct hf_instance_functions *other = hf_instance_other();
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
    HF_INSTANCE_FORWARD(release_make_space, out, pointer, stream, name);
    return make_space_release(out, pointer, stream, name);
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
    HF_INSTANCE_FORWARD(watch_begin, out, capacity);
    return hf_watch_begin_here(out, capacity);
}

/* ---- failure on demand ---- */

int hf_fail_at(uint64_t call, unsigned flags)
{
    HF_INSTANCE_FORWARD(fail_at, call, flags);
    return hf_fail_at_here(call, flags);
}

int hf_fail_count(unsigned flags, struct hf_fail_counts *out)
{
    HF_INSTANCE_FORWARD(fail_count, flags, out);
    return hf_fail_count_here(flags, out);
}

int hf_fail_end(unsigned flags, struct hf_fail_counts *out)
{
    HF_INSTANCE_FORWARD(fail_end, flags, out);
    return hf_fail_end_here(flags, out);
}

/* ---- for other copies ---- */

void hf_api_offer(struct hf_instance_functions *out)
{
    out->heap = (struct hf_heap_functions){hf_malloc,   hf_calloc, hf_realloc,
                                           hf_memalign, hf_free,   hf_usable_size};
    out->owner_of = owner_of_any;
    out->stats = stats_here;
    out->stats_of_others = stats_of_others_here;
    out->trim = hf_trim_here;
    out->release_make = hf_release_make;
    out->release_make_space = make_space_release;
    out->watch_begin = hf_watch_begin_here;
    out->check_freed = hf_check_freed;
    out->fail_at = hf_fail_at_here;
    out->fail_count = hf_fail_count_here;
    out->fail_end = hf_fail_end_here;
    out->spaces = &hf_spaces_here;
    out->foreign = &hf_dispatch_functions;
    out->heaps = hf_heaps;
    out->publish = hf_region_publish;
}
