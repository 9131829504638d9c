/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See deferred.h.
 */
#include "alloc/spans/deferred.h"

#include "alloc/base/apart.h"
#include "alloc/base/fork_lock.h"
#include "alloc/pages/beneath.h"
#include "alloc/spans/call.h"
#include "alloc/spans/hardened.h"
#include "alloc/spans/heap_blocks.h"
#include "alloc/spans/large.h"
#include "alloc/spans/lookup.h"
#include "alloc/spans/samples.h"
#include "alloc/spans/tick.h"

/* Small blocks whose free a watch is to learn of before they can be handed out again. If there are
 * more, the watch does not see the free. */
static void *const CLAIMED = (void *)1;
static struct place {
    void *ptr; /* atomic: NULL, CLAIMED, or a block with its caller */
    const void *caller;
} places[256] HF_APART;
static bool filled; /* atomic: some may hold a block that nobody has looked for since */

static int slow_requests; /* not yet carried out: closings less openings */
static int slow;          /* how often the fast paths are closed; slow_lock */
/* Inside the gate, before spans' lock. A thread that finds no request has thereby waited for the
 * one that carries it out. */
static pthread_mutex_t HF_FORK_LOCK slow_lock = PTHREAD_MUTEX_INITIALIZER;

static bool claim(struct place *place, void *from)
{
    return from != CLAIMED && __atomic_compare_exchange_n(&place->ptr, &from, CLAIMED, false,
                                                          __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static bool put_small_off(void *ptr, const void *caller)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (claim(&places[i], NULL)) {
            places[i].caller = caller;
            __atomic_store_n(&places[i].ptr, ptr, __ATOMIC_RELEASE);
            __atomic_store_n(&filled, true, __ATOMIC_SEQ_CST);
            return true;
        }
    return false;
}

static void give_block(void *ptr, const void *caller)
{
    if (hf_is_watched())
        hf_watch_freed(ptr, caller);
    hf_block_give(ptr, caller);
}

static void give_blocks(void)
{
    const void *caller;
    void *ptr;
    while ((ptr = hf_large_resume(&caller)) != NULL)
        give_block(HF_LIKELY(hf_hardened == 0) ? ptr : (void *)(uintptr_t)hf_hardened_first(ptr),
                   caller);
    if (!__atomic_exchange_n(&filled, false, __ATOMIC_SEQ_CST))
        return;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        ptr = __atomic_load_n(&places[i].ptr, __ATOMIC_RELAXED);
        if (ptr == NULL || !claim(&places[i], ptr))
            continue;
        caller = places[i].caller;
        __atomic_store_n(&places[i].ptr, NULL, __ATOMIC_RELEASE);
        give_block(ptr, caller);
    }
}

static void carry_out_slow(void)
{
    pthread_mutex_lock(&slow_lock);
    const int before = slow;
    slow += __atomic_exchange_n(&slow_requests, 0, __ATOMIC_SEQ_CST);
    if ((before > 0) != (slow > 0))
        hf_local_slow(slow > 0);
    pthread_mutex_unlock(&slow_lock);
}

/* Processes the lists. A thread that adds an entry after the gate opened looks again, and processes
 * it; the thread that opens the gate processes earlier ones. */
void hf_heap_catch_up(void)
{
    struct hf_pass pass;
    while (hf_large_is_deferred() || __atomic_load_n(&filled, __ATOMIC_SEQ_CST) ||
           __atomic_load_n(&slow_requests, __ATOMIC_SEQ_CST) != 0 || hf_locals_have_ended()) {
        if (!hf_enter(&pass))
            return;
        give_blocks();
        hf_locals_catch_up();
        carry_out_slow();
        hf_gate_leave(&pass);
    }
}

/* What a span is given takes no lock. */
void hf_defer_free(void *ptr, const void *caller)
{
    struct hf_entry *entry = hf_entry_of(ptr);
    int wrong = -1;
    hf_samples_end(ptr);
    if (!hf_entry_has_span(entry))
        wrong = HF_LIKELY(hf_hardened == 0) ? hf_large_defer(ptr, caller)
                                            : hf_hardened_defer_large(ptr, caller);
    else if (!hf_is_watched() || !put_small_off(ptr, caller))
        wrong = HF_LIKELY(hf_hardened == 0) ? hf_span_give(NULL, ptr, entry)
                                            : hf_hardened_give(NULL, ptr, entry, caller);
    if (HF_UNLIKELY(wrong >= 0))
        hf_heap_corrupted(ptr, caller, HF_CORRUPT_IN_FREE, (enum hf_corruption_kind)wrong);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!hf_gate_is_closed())
        hf_heap_catch_up();
}

void hf_heap_slow(bool closed)
{
    struct hf_pass pass;
    __atomic_add_fetch(&slow_requests, closed ? 1 : -1, __ATOMIC_SEQ_CST);
    /* Also if another thread has taken the request, which it may not have carried out yet. */
    if (hf_enter_patiently(&pass)) {
        hf_locals_catch_up();
        carry_out_slow();
        hf_gate_leave(&pass);
    }
    hf_heap_catch_up();
}

void hf_heap_reset_in_child(void)
{
    hf_beneath_reset_in_child();
    hf_locals_reset_in_child();
    hf_tick_reset_in_child();
}
