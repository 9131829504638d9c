/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns this copy's record, hf_forward, the table of functions that other copies call, and whether
 * this copy has started. start/start.c decides what the copy becomes and fills these in, once,
 * under the start lock; afterwards they are read-only and read without a lock. See instance.h.
 */
#include "alloc/heap/instance.h"

#include "alloc/base/seal.h"
#include "alloc/heap/region.h"

#include <stdatomic.h>

/* An exported variable and a hidden alias of it. The inlined hf_owns() reads the exported name
 * through the GOT, because a program may hold the variable in a COPY relocation; the heap itself
 * reads hf_region. If two copies share a scope, the exported name resolves to the first copy's
 * variable; the alias always means our own, for callers that address this copy (dlsym). */
struct hf_region_range hf_region_range;
extern struct hf_region_range own_range
    __attribute__((alias("hf_region_range"), visibility("hidden")));

/* The functions that this copy calls instead of its own, and those that other copies call here. */
static union {
    struct hf_instance_calls {
        const struct hf_heap_functions *heap; /* hf_forward */
        const struct hf_instance_functions *forward;
        const struct hf_instance *incompatible; /* the incompatible heap, if any */
        struct hf_instance_functions functions;
    } it;
    char pages[HF_SEAL_SIZE(struct hf_instance_calls)];
} calls HF_SEALED;
extern const struct hf_heap_functions *hf_forward __attribute__((alias("calls")));

static HF_SEALED_UNION(struct hf_instance, it) record HF_SEALED = {
    .it =
        {
            .magic = HF_INSTANCE_MAGIC,
            .abi = HF_INSTANCE_ABI,
            .version = HF_VERSION,
            .functions = &calls.it.functions,
        },
};
/* Other copies look up this name. It is an alias, so that code in here never resolves to another
 * copy's record. */
extern struct hf_instance hf_instance_record __attribute__((alias("record")));

static _Atomic(bool) started;

const struct hf_instance_functions *hf_instance_forward(void)
{
    return calls.it.forward;
}

const struct hf_instance *hf_instance_incompatible(void)
{
    return calls.it.incompatible;
}

const struct hf_instance *hf_instance_own(void)
{
    return &record.it;
}

bool hf_instance_started(void)
{
    return atomic_load_explicit(&started, memory_order_acquire);
}

void hf_instance_offer(void (*fill)(struct hf_instance_functions *out))
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    fill(&calls.it.functions);
    hf_seal_close(&seal);
}

/* ---- what the copy becomes ---- */

void hf_instance_become_heap(void)
{
    struct hf_seal seal;
    const struct hf_heap_functions *heap = &calls.it.functions.heap;
    hf_seal_open_to_start(&seal);
    record.it.free = heap->free;
    record.it.realloc = heap->realloc;
    record.it.usable_size = heap->usable_size;
    record.it.region_base = hf_region.base;
    record.it.region_size = hf_region.limit;
    record.it.state = HF_INSTANCE_HEAP;
    hf_seal_close(&seal);
}

/* Where the heap's region is, as long as it grows. A copy that the heap cannot tell takes all of
 * it. */
static void publish_range(struct hf_region_range *range)
{
    const struct hf_instance_functions *forward = calls.it.forward;
    bool (*publish)(struct hf_region_range *) =
        forward != NULL ? forward->publish : hf_region_publish;
    if (publish != NULL && publish(range))
        return;
    /* Volatile: the compiler takes both names for one variable and would drop a store. */
    volatile struct hf_region_range *all = range;
    all->base = hf_region.base;
    all->size = hf_region.limit;
}

void hf_instance_become_forwarder(const struct hf_instance *heap,
                                  const struct hf_instance_functions *instead)
{
    struct hf_seal seal;
    const bool same = heap->abi == HF_INSTANCE_ABI;
    const struct hf_instance_functions *forward = same ? heap->functions : instead;
    hf_seal_open_to_start(&seal);
    calls.it.incompatible = same ? NULL : heap;
    calls.it.forward = forward;
    calls.it.heap = &forward->heap;
    hf_checks_full = forward->check_freed != NULL;
    record.it.state = HF_INSTANCE_FORWARD;
    hf_seal_close(&seal);
    hf_region.base = heap->region_base;
    hf_region.size = hf_region.limit = heap->region_size;
    _Static_assert(offsetof(struct hf_region_bounds, size) ==
                       offsetof(struct hf_region_range, size),
                   "the bounds begin with the range");
    publish_range((struct hf_region_range *)&hf_region);
}

void hf_instance_publish(void)
{
    publish_range(&hf_region_range);
    publish_range(&own_range);
    atomic_store_explicit(&started, true, memory_order_release);
}
