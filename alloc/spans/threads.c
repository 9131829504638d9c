/*
 * Local heaps and their threads. See local.h.
 *
 * Owns the lists of local heaps: of those that a thread has, of those that wait for one, of those
 * that others than threads have, and of those whose threads a forked child lacks. The spans' lock
 * guards them. The shared one has a lock of its own, which comes before the spans' lock.
 *
 * The local heap of a thread that ended stays warm: with its stacks and spans, for the next thread,
 * until some thread lacks a span, or memory is given back.
 */
#include "alloc/base/fork_lock.h"
#include "alloc/jemalloc/fork_gate.h"
#include "alloc/spans/between.h"
#include "alloc/spans/ground.h"
#include "alloc/spans/heap_blocks.h"
#include "alloc/spans/metadata.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct hf_freed nothing; /* the end of an empty stack */
#define EMPTY                                                         \
    {                                                                 \
        .tops = {[0 ... HF_CLASSES - 1] = &nothing},                  \
        .spaces = {[0 ... HF_SPACES_MAX - 1] = &hf_ground_no_stacks}, \
    }
struct hf_local hf_local_none = EMPTY, hf_local_ended = EMPTY;
struct hf_local hf_large_owner;
__thread struct hf_local *hf_local_here = &hf_local_none;

static pthread_key_t key;
static bool has_key;
static struct hf_local *living, *warm, *idle, *missing, *lent; /* lent: hf_local_make() */
enum { WARM_MOST = 16 };
static unsigned warm_count;
static struct hf_local *ended; /* atomic: while the gate was closed; they are in `living`, too */
static uint64_t count;
static int process; /* its id */
static int slow;    /* how often the slow paths are asked for */

static pthread_mutex_t HF_FORK_LOCK shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hf_local *shared;

/* ---- records ---- */

static void link_in(struct hf_local **list, struct hf_local *local)
{
    local->previous = NULL;
    local->next = *list;
    if (local->next != NULL)
        local->next->previous = local;
    *list = local;
}

static void link_out(struct hf_local **list, struct hf_local *local)
{
    *(local->previous != NULL ? &local->previous->next : list) = local->next;
    if (local->next != NULL)
        local->next->previous = local->previous;
}

/* The stacks lie behind the record, each at another number of cache lines, so that they do not
 * share cache sets. */
static size_t stack_bytes(unsigned class)
{
    enum { LINE = 64 };
    return ((size_t)hf_classes[class].stack + 1) * sizeof(struct hf_freed) +
           (size_t)(class % 3) * LINE;
}

static struct hf_local *make(void)
{
    size_t size = sizeof(struct hf_local);
    for (unsigned class = 0; class < HF_CLASSES; class ++)
        size += stack_bytes(class);
    struct hf_local *local = hf_metadata_take(size);
    if (local == NULL)
        return NULL;
    char *stack = (char *)(local + 1);
    for (unsigned class = 0; class < HF_CLASSES; class ++) {
        local->tops[class] = (struct hf_freed *)(void *)stack;
        local->limits[class] = local->tops[class] + hf_classes[class].stack + 1;
        local->bins[class].size = hf_classes[class].size;
        stack += stack_bytes(class);
    }
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        local->spaces[i] = &hf_ground_no_stacks;
    count++;
    return local;
}

/* With the spans' lock. */
static struct hf_local *take(void)
{
    struct hf_local *local = idle;
    if (local == NULL)
        return make();
    link_out(&idle, local);
    __atomic_store_n(&local->queue, NULL, __ATOMIC_SEQ_CST);
    return local;
}

uint64_t hf_locals_count(void)
{
    return count;
}

/* ---- a thread's ---- */

static void set_slot(struct hf_local *local)
{
    __atomic_store_n(local->slot, slow != 0 ? &hf_local_none : local, __ATOMIC_SEQ_CST);
}

/* Keeps a local heap, which is in no list any more, for another thread. Inside the gate. */
static void keep(struct hf_local *local)
{
    hf_grounds_leave(local);
    hf_spans_drain(local);
    hf_spans_lock();
    if (warm_count < WARM_MOST) {
        link_in(&warm, local);
        warm_count++;
    } else {
        hf_spans_leave(local, false);
        link_in(&idle, local);
    }
    hf_spans_unlock();
}

/* The one that has waited longest leaves its spans to others. With the spans' lock; false if there
 * is none. */
static bool cool(void)
{
    struct hf_local *local = warm;
    if (local == NULL)
        return false;
    while (local->next != NULL)
        local = local->next;
    link_out(&warm, local);
    warm_count--;
    hf_spans_leave(local, false);
    link_in(&idle, local);
    return true;
}

/* Threads may end without a word: there was no pthread key, or their first call came when pthread
 * had done with their keys. A new thread of the same id hides that for as long as it lives. */
static bool has_ended(const struct hf_local *local)
{
    const int saved_errno = errno;
    const bool gone = syscall(SYS_tgkill, process, local->thread, 0) != 0 && errno == ESRCH;
    errno = saved_errno;
    return gone;
}

/* Returns how many there were. */
static size_t find_ended(void)
{
    struct hf_local *found = NULL;
    size_t number = 0;
    hf_spans_lock();
    for (struct hf_local *local = living, *next; local != NULL; local = next) {
        next = local->next;
        if (has_ended(local)) {
            link_out(&living, local);
            link_in(&found, local);
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
        link_out(&living, local); /* hf_local_slow() no longer finds the slot */
        hf_local_here = &hf_local_ended;
        hf_spans_unlock();
        keep(local);
        hf_blocks_tick();
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
        link_out(&living, local);
        hf_spans_unlock();
        keep(local);
    }
}

struct hf_local *hf_local_own(void)
{
    struct hf_local *local = hf_local_get();
    if (HF_LIKELY(local != &hf_local_none))
        return local != &hf_local_ended ? local : NULL;
    return has_key ? pthread_getspecific(key) : NULL;
}

/* The slot comes first: pthread_setspecific() may call malloc(). Without a key, find_ended() learns
 * that the thread has ended. */
static struct hf_local *begin(void)
{
    static uint64_t look = 16; /* at so many */
    hf_spans_lock();
    if (HF_UNLIKELY(warm == NULL && idle == NULL && count >= look)) {
        hf_spans_unlock();
        const size_t found = find_ended();
        hf_spans_lock();
        look = found >= count / 2 ? count : 2 * count;
    }
    struct hf_local *local = warm;
    if (local != NULL) {
        link_out(&warm, local);
        warm_count--;
    } else {
        local = take();
    }
    const bool is_slow = slow != 0;
    if (local != NULL) {
        local->thread = (int)syscall(SYS_gettid);
        local->slot = &hf_local_here;
        hf_local_here = local;
        link_in(&living, local);
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

/* Whether the thread can have its own: not if it could not find it again. */
static bool may_begin(void)
{
    return hf_local_get() == &hf_local_none &&
           (has_key || __atomic_load_n(&slow, __ATOMIC_RELAXED) == 0);
}

struct hf_local *hf_local_use(void)
{
    struct hf_local *local = hf_local_own();
    if (HF_LIKELY(local != NULL))
        return local;
    if (may_begin() && (local = begin()) != NULL)
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

bool hf_locals_start(void)
{
    has_key = pthread_key_create(&key, end) == 0;
    process = (int)getpid();
    return true;
}

/* ---- of others than threads ---- */

static void forget_stacks(struct hf_local *local)
{
    for (unsigned class = 0; class < HF_CLASSES; class ++)
        local->tops[class] = local->limits[class] - hf_classes[class].stack - 1;
}

struct hf_local *hf_local_make(void)
{
    hf_spans_lock();
    struct hf_local *local = take();
    if (local != NULL)
        link_in(&lent, local);
    hf_spans_unlock();
    return local;
}

void hf_local_drop(struct hf_local *local)
{
    hf_spans_lock();
    link_out(&lent, local);
    hf_spans_drop(local);
    forget_stacks(local);
    link_in(&idle, local);
    hf_spans_unlock();
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
        link_out(&living, local);
        link_in(&missing, local);
        local->queue = NULL;
    }
    while (!alone && warm != NULL) { /* others may have been freeing into its spans */
        struct hf_local *local = warm;
        link_out(&warm, local);
        link_in(&missing, local);
        local->queue = NULL;
        warm_count = 0;
    }
    if (!alone)
        hf_spans_reset_in_child(own, lent);
}

bool hf_locals_take_over(void)
{
    struct hf_local *local = missing;
    if (HF_LIKELY(local == NULL))
        return cool();
    link_out(&missing, local);
    hf_spans_leave(local, true);
    forget_stacks(local);
    link_in(&idle, local);
    return true;
}
