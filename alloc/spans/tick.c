/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See tick.h. Owns how much was live lately; any thread changes that, without a lock.
 */
#include "alloc/spans/tick.h"

#include "alloc/base/clock.h"
#include "alloc/heap/resume.h"
#include "alloc/pages/pages.h"
#include "alloc/spans/between.h"
#include "alloc/spans/large.h"
#include "alloc/spans/large_cache.h"
#include "alloc/spans/supply.h"
#include "alloc/spans/units.h"

/*
 * A program may go over to calls that take fast paths alone, and so never see a window's end: what
 * it leaves then must go back while it is being freed. It leaves spans, or large blocks, if less
 * than a quarter of these is live of the least that was in some windows. Once it has, each further
 * half counts, too.
 *
 * That takes time, and a program that goes on takes page faults: both shall be a thirtieth of the
 * program's time, though for the first time it need not have earned the faults.
 */
#define UNMAPPED ((uint64_t)30 * 64)  /* nanoseconds a KiB */
#define FAULTED  ((uint64_t)30 * 500) /* the same */
#define LEAST    ((size_t)1 << 20)    /* less, or less a part of what is live, is too little */
/* What is kept for reuse in any program that has done something. */
#define LOOK_LEAST ((size_t)256 << 10)
enum { SPANS, LARGE, KINDS, WINDOWS = 4, PART = 4 };

/* All are atomic. */
static struct {
    size_t least;           /* bytes live in the present window */
    size_t lately[WINDOWS]; /* the same of those before */
    size_t limit;           /* below it, what is not live is given back */
} kinds[KINDS];
static unsigned windows;              /* ended */
static uint64_t earning_from;         /* the time since then pays for it */
static uint64_t earning_from_for_end; /* the same for a last thread's end, four times */
static uint64_t earning_from_for_look;

static size_t live(int kind)
{
    return kind == SPANS ? hf_units_used() : hf_large_cache_live();
}

static void begin_window(uint64_t late)
{
    const unsigned window = __atomic_fetch_add(&windows, 1, __ATOMIC_RELAXED) % WINDOWS;
    if (HF_UNLIKELY(__atomic_load_n(&earning_from, __ATOMIC_RELAXED) == 0))
        __atomic_store_n(&earning_from, hf_clock(CLOCK_MONOTONIC_COARSE), __ATOMIC_RELAXED);
    for (int kind = 0; kind < KINDS; kind++) {
        const size_t now = live(kind);
        size_t lowest = now;
        __atomic_store_n(&kinds[kind].lately[window],
                         __atomic_exchange_n(&kinds[kind].least, now, __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
        for (unsigned i = 0; i < WINDOWS; i++) {
            /* Nothing has changed since the window was to end. */
            if (late >= WINDOWS * HF_PAGES_WINDOW)
                __atomic_store_n(&kinds[kind].lately[i], now, __ATOMIC_RELAXED);
            const size_t one = __atomic_load_n(&kinds[kind].lately[i], __ATOMIC_RELAXED);
            lowest = one < lowest ? one : lowest;
        }
        __atomic_store_n(&kinds[kind].limit, lowest / 4, __ATOMIC_RELAXED);
    }
}

void hf_tick(void)
{
    uint64_t late;
    if (HF_LIKELY(!hf_pages_due(&late)))
        return;
    begin_window(late);
    hf_large_trim();
    hf_spans_trim(false);
    hf_pages_settle();
    hf_libc_spare_grown();
    if (HF_UNLIKELY(hf_resume_is_due()) && hf_local_own() != NULL) /* else it may hold a lock */
        hf_resume();
}

void hf_tick_empty(void)
{
    struct hf_local *local = hf_local_own();
    if (local != NULL)
        hf_spans_empty(local, true);
    hf_large_empty();
    hf_spans_trim(true);
    hf_pages_purge();
}

/* Bytes that a give-back may find; of which in spans that wait for another thread: `warm`. */
static size_t bytes_unused(size_t warm)
{
    return hf_pages_unused() + hf_units_dirty() + hf_large_cache_kept() + warm;
}

static bool is_little(size_t unused)
{
    return unused < LEAST || unused < (live(SPANS) + live(LARGE)) / PART;
}

/* False: too early. */
static bool give_back(size_t unused, uint64_t *earning, unsigned times)
{
    const uint64_t clock = hf_clock(CLOCK_MONOTONIC_COARSE);
    const uint64_t from = __atomic_load_n(earning, __ATOMIC_RELAXED);
    const uint64_t costs = unused / 1024 * (UNMAPPED + FAULTED) * times;
    if (clock < from + unused / 1024 * UNMAPPED)
        return false;
    hf_tick_empty();
    /* What has been earned is good for a second time, as the program goes on to leave. */
    const uint64_t saved = clock - 2 * costs;
    __atomic_store_n(earning, (from + 2 * costs > clock ? from : saved) + costs, __ATOMIC_RELAXED);
    return true;
}

void hf_tick_freed(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        const size_t now = live(kind);
        if (HF_LIKELY(now >= __atomic_load_n(&kinds[kind].least, __ATOMIC_RELAXED)))
            continue;
        __atomic_store_n(&kinds[kind].least, now, __ATOMIC_RELAXED);
        if (HF_LIKELY(now >= __atomic_load_n(&kinds[kind].limit, __ATOMIC_RELAXED)))
            continue;
        const size_t unused = bytes_unused(0);
        if (!is_little(unused) && give_back(unused, &earning_from, 1))
            __atomic_store_n(&kinds[kind].limit, now / 2, __ATOMIC_RELAXED);
    }
}

void hf_tick_at_end(bool last)
{
    hf_tick();
    /* On a busy machine, the process has had only a part of the time; how much, the kernel would
     * say, which a sandbox may forbid. */
    if (last) {
        const size_t unused = bytes_unused(hf_spans_warm());
        if (!is_little(unused) && give_back(unused, &earning_from_for_end, 4))
            return;
    }
    hf_spans_trim_much();
    hf_pages_leave();
}

/* ---- what the stacks of other threads hold ---- */

/* A thread that waits for this looks at so many spans. */
enum { SPANS_MOST = (256 << 20) >> HF_LG_UNIT };
/* Each time after twice as long, unless the process has worked meanwhile. */
#define SECOND ((uint64_t)1000000000)
enum { ASK_LATEST = 64, WORK = 16 };

static uint64_t answers_paid; /* atomic: by when the time pays for those that were given */

void hf_tick_answer(struct hf_local *local)
{
    enum { SHARE = 30 };
    const uint64_t from = hf_clock(CLOCK_MONOTONIC_COARSE);
    hf_spans_empty(local, false);
    const size_t given = hf_spans_give_pages(local, SPANS_MOST);
    hf_spans_trim(true);
    hf_pages_purge();
    const uint64_t now = hf_clock(CLOCK_MONOTONIC_COARSE);
    const uint64_t paid = now + (now - from) * SHARE + given / 1024 * FAULTED;
    if (paid > __atomic_load_n(&answers_paid, __ATOMIC_RELAXED))
        __atomic_store_n(&answers_paid, paid, __ATOMIC_RELAXED);
}

bool hf_tick_asks(void)
{
    static uint64_t next, pause = SECOND;
    static unsigned windows_then;
    const uint64_t now = hf_clock(CLOCK_MONOTONIC_COARSE);
    const unsigned ended = __atomic_load_n(&windows, __ATOMIC_RELAXED);
    if (ended - windows_then > WORK && pause != SECOND) {
        pause = SECOND;
        next = now;
    }
    if (now < next || now < __atomic_load_n(&answers_paid, __ATOMIC_RELAXED))
        return false;
    next = now + pause;
    pause = pause < ASK_LATEST * SECOND ? 2 * pause : pause;
    windows_then = ended;
    return true;
}

enum hf_look hf_tick_look(uint64_t quiet)
{
    if (hf_pages_idle() < quiet)
        return HF_LOOK_BUSY;
    const size_t unused = bytes_unused(hf_spans_warm());
    if (unused < LOOK_LEAST)
        return HF_LOOK_NOTHING;
    return give_back(unused, &earning_from_for_look, 1) ? HF_LOOK_GIVEN : HF_LOOK_EARLY;
}

void hf_tick_reset_in_child(void)
{
    if (earning_from_for_end != 0) /* a write copies a page */
        earning_from_for_end = 0;
}
