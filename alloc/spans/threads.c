/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads and their local heaps. See local.h.
 *
 * Owns the list of local heaps that threads have, which the spans' lock guards, and the one that
 * threads share, which has a lock of its own. That one comes before the spans' lock.
 */
#include "alloc/base/fork_lock.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/spans/between.h"
#include "alloc/spans/limited.h"
#include "alloc/spans/locals.h"
#include "alloc/spans/tick.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_key_t key;
static bool has_key;
static struct hf_local *living;
static struct hf_local *ended; /* atomic: while the gate was closed; they are in `living`, too */
static int process;            /* its id */
static bool any_left;          /* a thread has left its local heap; spans' lock */
static int slow;               /* how often the slow paths are asked for */

static pthread_mutex_t HF_FORK_LOCK shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hf_local *shared;

/* ---- a thread's ---- */

static void set_slot(struct hf_local *local)
{
    const bool closed = slow != 0 || __atomic_load_n(&local->asked, __ATOMIC_RELAXED);
    __atomic_store_n(local->slot, closed ? &hf_local_none : local, __ATOMIC_SEQ_CST);
}

/* Keeps a local heap, which is in no list any more, for another thread. Inside the gate. */
static void keep(struct hf_local *local)
{
    hf_limited_leave(local);
    hf_spans_drain(local);
    hf_spans_unstack(local);
    hf_spans_lock();
    hf_locals_keep(local);
    any_left = true;
    hf_spans_unlock();
}

/* Not in a child of clone(2), or of _Fork(3): the thread knows none of the heap's ids there. In one
 * that shares the memory, the heap does not know the thread's. */
static bool is_the_process(void)
{
    return (int)getpid() == process;
}

/* Threads may end without a word: there was no pthread key, or their first call came when pthread
 * had done with their keys. A new thread of the same id hides that for as long as it lives. */
static bool has_ended(const struct hf_local *local)
{
    const int saved_errno = errno;
    const bool gone =
        local->thread != 0 && syscall(SYS_tgkill, process, local->thread, 0) != 0 && errno == ESRCH;
    errno = saved_errno;
    return gone;
}

/* Returns how many there were. */
static size_t find_ended(void)
{
    struct hf_local *found = NULL;
    size_t number = 0;
    if (HF_UNLIKELY(!is_the_process()))
        return 0;
    hf_spans_lock();
    for (struct hf_local *local = living, *next; local != NULL; local = next) {
        next = local->next;
        if (has_ended(local)) {
            hf_locals_unlink(&living, local);
            hf_locals_link(&found, local);
        }
    }
    hf_spans_unlock();
    while (found != NULL) {
        struct hf_local *local = found;
        found = local->next;
        keep(local);
        number++;
    }
    return number;
}

/* Runs in an ending thread. What other destructors allocate afterwards comes from the shared one.
 */
static void end(void *argument)
{
    struct hf_local *local = argument;
    struct hf_pass pass;
    if (hf_gate_enter(&pass)) {
        hf_spans_lock();
        hf_locals_unlink(&living, local); /* hf_local_slow() no longer finds the slot */
        hf_local_here = &hf_local_ended;
        const bool last = living == NULL || (living->next == NULL && living->thread == process);
        hf_spans_unlock();
        keep(local);
        hf_tick_at_end(last);
        hf_gate_leave(&pass);
    } else {
        static struct hf_local *none;
        hf_spans_lock();
        local->slot = &none;
        local->thread = 0; /* not for find_ended() */
        hf_local_here = &hf_local_ended;
        hf_spans_unlock();
        struct hf_local *first = __atomic_load_n(&ended, __ATOMIC_RELAXED);
        do
            local->ended = first;
        while (!__atomic_compare_exchange_n(&ended, &first, local, true, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED));
        if (!hf_gate_is_closed())
            hf_heap_catch_up();
    }
    hf_gate_disclaim();
}

bool hf_locals_have_ended(void)
{
    return __atomic_load_n(&ended, __ATOMIC_SEQ_CST) != NULL;
}

void hf_locals_catch_up(void)
{
    struct hf_local *local = __atomic_exchange_n(&ended, NULL, __ATOMIC_SEQ_CST);
    for (struct hf_local *next; local != NULL; local = next) {
        next = local->ended;
        hf_spans_lock();
        hf_locals_unlink(&living, local);
        hf_spans_unlock();
        keep(local);
    }
}

/* With the spans' lock, which it gives up meanwhile. A thread that starts a successor and ends has
 * often not yet ended when that one begins, for want of a processor: then each generation would
 * have a local heap more, full of blocks that the next one frees. So others run first; a fork waits
 * until they have. */
static void let_others_end(void)
{
    enum { TIMES = 3 };
    for (int i = 0; i < TIMES && any_left && hf_locals_none_waits(); i++) {
        hf_spans_unlock();
        (void)sched_yield();
        hf_spans_lock();
    }
}

/* The slot comes first: pthread_setspecific() may call malloc(). Without a key, find_ended() learns
 * that the thread has ended. */
static struct hf_local *begin(void)
{
    static uint64_t look = 16; /* at so many */
    hf_spans_lock();
    let_others_end();
    if (HF_UNLIKELY(hf_locals_none_waits() && hf_locals_count() >= look)) {
        hf_spans_unlock();
        const size_t found = find_ended();
        hf_spans_lock();
        const uint64_t count = hf_locals_count();
        look = found >= count / 2 ? count : 2 * count;
    }
    struct hf_local *local = hf_locals_take();
    const bool is_slow = slow != 0;
    if (local != NULL) {
        local->asked = false;
        local->thread = is_the_process() ? (int)syscall(SYS_gettid) : 0;
        local->slot = &hf_local_here;
        hf_local_here = hf_local_mine = local;
        hf_locals_link(&living, local);
    }
    hf_spans_unlock();
    if (local == NULL)
        return NULL;
    if (has_key)
        (void)pthread_setspecific(key, local);
    hf_gate_claim();
    if (HF_UNLIKELY(is_slow)) {
        hf_spans_lock();
        set_slot(local);
        hf_spans_unlock();
    }
    return local;
}

/* ---- what others ask for ---- */

static __attribute__((noinline)) void answer(struct hf_local *local)
{
    const int saved_errno = errno;
    hf_spans_lock();
    __atomic_store_n(&local->asked, false, __ATOMIC_RELAXED);
    set_slot(local);
    hf_spans_unlock();
    hf_tick_answer(local);
    errno = saved_errno;
}

void hf_locals_ask(void)
{
    struct hf_local *own = hf_local_own();
    hf_spans_lock();
    for (struct hf_local *local = living; local != NULL; local = local->next) {
        /* Into the slots of those that have ended, nobody may store. */
        if (local == own || local->asked || has_ended(local))
            continue;
        __atomic_store_n(&local->asked, true, __ATOMIC_RELAXED);
        set_slot(local);
    }
    hf_spans_unlock();
}

struct hf_local *hf_local_use(void)
{
    struct hf_local *local = hf_local_own();
    if (HF_LIKELY(local != NULL)) {
        if (HF_UNLIKELY(__atomic_load_n(&local->asked, __ATOMIC_RELAXED)))
            answer(local);
        return local;
    }
    if (hf_local_get() != &hf_local_ended && (local = begin()) != NULL)
        return local;
    pthread_mutex_lock(&shared_lock);
    if (shared == NULL)
        shared = hf_local_make();
    if (shared == NULL)
        pthread_mutex_unlock(&shared_lock);
    return shared;
}

void hf_local_done(struct hf_local *local)
{
    if (HF_UNLIKELY(local == shared) && local != NULL)
        pthread_mutex_unlock(&shared_lock);
}

void hf_local_slow(bool on)
{
    (void)find_ended(); /* into the slots of those that have, nobody may store */
    hf_spans_lock();
    __atomic_store_n(&slow, slow + (on ? 1 : -1), __ATOMIC_RELAXED);
    for (struct hf_local *local = living; local != NULL; local = local->next)
        set_slot(local);
    hf_spans_unlock();
}

void hf_locals_each(hf_locals_visitor *visit, unsigned argument)
{
    hf_spans_lock();
    hf_locals_each_in(living, visit, argument);
    hf_locals_each_kept(visit, argument);
    hf_spans_unlock();
}

bool hf_locals_start(void)
{
    has_key = pthread_key_create(&key, end) == 0;
    process = (int)getpid();
    return true;
}

/* ---- in a forked child ---- */

void hf_locals_reset_in_child(void)
{
    struct hf_local *own = hf_local_own();
    bool alone = !hf_span_queues.used;
    process = (int)getpid();
    if (own != NULL)
        own->thread = (int)syscall(SYS_gettid);
    if (ended != NULL) /* a write copies a page */
        ended = NULL;
    for (struct hf_local *local = living, *next; local != NULL; local = next) {
        next = local->next;
        if (local == own)
            continue;
        alone = false;
        hf_locals_unlink(&living, local);
        hf_locals_miss(local);
    }
    if (!alone)
        hf_locals_miss_warm(own);
}
