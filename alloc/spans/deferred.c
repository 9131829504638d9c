/*
 * See deferred.h.
 */
#include "alloc/spans/deferred.h"

#include "alloc/base/fork_lock.h"
#include "alloc/pages/beneath.h"
#include "alloc/spans/call.h"
#include "alloc/spans/ground.h"
#include "alloc/spans/hardened.h"
#include "alloc/spans/heap_blocks.h"
#include "alloc/spans/lookup.h"

/* Every block that is not empty has room for it. */
struct put_off_block {
    struct put_off_block *next;
    const void *caller;
};
_Static_assert(sizeof(struct put_off_block) <= HF_GRAIN, "the smallest block holds it");

static struct put_off_block *blocks;
static int slow_requests; /* not yet carried out: closings less openings */
static int slow;          /* how often the fast paths are closed; slow_lock */
/* Inside the gate, before spans' lock. A thread that finds no request has thereby waited for the
 * one that carries it out. */
static pthread_mutex_t HF_FORK_LOCK slow_lock = PTHREAD_MUTEX_INITIALIZER;

static void give_blocks(struct put_off_block *block)
{
    while (block != NULL) {
        struct put_off_block *next = block->next;
        const void *caller = block->caller;
        if (hf_is_watched())
            hf_watch_freed(block, caller);
        hf_block_give(block, caller);
        block = next;
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
    while (__atomic_load_n(&blocks, __ATOMIC_SEQ_CST) != NULL ||
           __atomic_load_n(&slow_requests, __ATOMIC_SEQ_CST) != 0 || hf_locals_have_ended()) {
        if (!hf_enter(&pass))
            return;
        give_blocks(__atomic_exchange_n(&blocks, NULL, __ATOMIC_SEQ_CST));
        hf_locals_catch_up();
        carry_out_slow();
        hf_gate_leave(&pass);
    }
}

void hf_put_off_free(void *ptr, const void *caller)
{
    struct hf_entry *entry = hf_entry_of(ptr);
    /* Below: no lock. A guard leaves the smallest blocks no room. */
    if (hf_entry_has_span(entry) &&
        (!hf_is_watched() || entry->class == HF_CLASS_NOTHING || hf_hardened != 0)) {
        const int wrong = HF_LIKELY(hf_hardened == 0) ? hf_span_give(NULL, ptr, entry)
                                                      : hf_hardened_give(NULL, ptr, entry, caller);
        if (HF_UNLIKELY(wrong >= 0))
            hf_heap_corrupted(ptr, caller, HF_CORRUPT_IN_FREE, (enum hf_corruption_kind)wrong);
        return;
    }
    struct put_off_block *block = ptr;
    block->caller = caller;
    struct put_off_block *first = __atomic_load_n(&blocks, __ATOMIC_RELAXED);
    do
        block->next = first;
    while (!__atomic_compare_exchange_n(&blocks, &first, block, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
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
    hf_grounds_reset_in_child();
}
