/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See locals.h.
 */
#include "alloc/spans/locals.h"

#include "alloc/spans/between.h"
#include "alloc/spans/limited.h"
#include "alloc/spans/metadata.h"
#include "alloc/spans/units.h"

static struct hf_freed nothing; /* the end of an empty stack */
#define EMPTY                                                                         \
    {                                                                                 \
        .tops = {[0 ... HF_CLASSES] = &nothing}, .at_hand = {[HF_LIMITS_COUNT] = -1}, \
    }
struct hf_local hf_local_none = EMPTY, hf_local_ended = EMPTY;
__thread struct hf_local *hf_local_here = &hf_local_none, *hf_local_mine;

/* warm: from threads that ended; idle: without blocks and spans; lent: hf_local_make() */
static struct hf_local *warm, *idle, *missing, *lent;
enum { WARM_MOST = 16 };
static unsigned warm_count;
static uint64_t count;

/* ---- lists ---- */

void hf_locals_link(struct hf_local **list, struct hf_local *local)
{
    local->previous = NULL;
    local->next = *list;
    if (local->next != NULL)
        local->next->previous = local;
    *list = local;
}

void hf_locals_unlink(struct hf_local **list, struct hf_local *local)
{
    *(local->previous != NULL ? &local->previous->next : list) = local->next;
    if (local->next != NULL)
        local->next->previous = local->previous;
}

/* ---- records ---- */

static void forget_stacks(struct hf_local *local)
{
    char *stack = (char *)(local + 1);
    local->tops[HF_CLASSES] = &nothing;
    for (unsigned class = 0; class < HF_CLASSES; class ++) {
        local->tops[class] = (struct hf_freed *)(void *)stack;
        local->limits[class] = local->tops[class] + hf_classes[class].stack + 1;
        stack += hf_local_stack_bytes(class);
    }
}

static struct hf_local *make(void)
{
    size_t size = sizeof(struct hf_local);
    for (unsigned class = 0; class < HF_CLASSES; class ++)
        size += hf_local_stack_bytes(class);
    struct hf_local *local = hf_metadata_take(size);
    if (local == NULL)
        return NULL;
    forget_stacks(local);
    for (unsigned class = 0; class < HF_CLASSES; class ++)
        local->bins[class].size = hf_classes[class].size;
    local->at_hand[HF_LIMITS_COUNT] = -1;
    hf_units_have_users(++count);
    return local;
}

static struct hf_local *take_idle(void)
{
    struct hf_local *local = idle;
    if (local == NULL)
        return make();
    hf_locals_unlink(&idle, local);
    __atomic_store_n(&local->queue, NULL, __ATOMIC_SEQ_CST);
    return local;
}

uint64_t hf_locals_count(void)
{
    return count;
}

/* ---- for threads ---- */

struct hf_local *hf_locals_take(void)
{
    struct hf_local *local = warm;
    if (local == NULL)
        return take_idle();
    hf_locals_unlink(&warm, local);
    warm_count--;
    return local;
}

bool hf_locals_none_waits(void)
{
    return warm == NULL && idle == NULL;
}

void hf_locals_keep(struct hf_local *local)
{
    if (warm_count < WARM_MOST) {
        hf_locals_link(&warm, local);
        warm_count++;
    } else {
        hf_spans_leave(local, false);
        hf_locals_link(&idle, local);
    }
}

size_t hf_locals_warm_spans(void)
{
    size_t spans = 0;
    for (const struct hf_local *local = warm; local != NULL; local = local->next)
        spans += local->spans;
    return spans;
}

/* The one that has waited longest leaves its spans to others. False if there is none. */
static bool cool(void)
{
    struct hf_local *local = warm;
    if (local == NULL)
        return false;
    while (local->next != NULL)
        local = local->next;
    hf_locals_unlink(&warm, local);
    warm_count--;
    hf_spans_leave(local, false);
    hf_locals_link(&idle, local);
    return true;
}

bool hf_locals_take_over(void)
{
    struct hf_local *local = missing;
    if (HF_LIKELY(local == NULL))
        return cool();
    hf_locals_unlink(&missing, local);
    hf_spans_leave(local, true);
    forget_stacks(local);
    hf_locals_link(&idle, local);
    return true;
}

/* ---- for others than threads ---- */

struct hf_local *hf_local_make(void)
{
    hf_spans_lock();
    struct hf_local *local = take_idle();
    if (local != NULL)
        hf_locals_link(&lent, local);
    hf_spans_unlock();
    return local;
}

void hf_local_drop(struct hf_local *local)
{
    hf_spans_lock();
    hf_locals_unlink(&lent, local);
    hf_spans_drop(local);
    forget_stacks(local);
    hf_locals_link(&idle, local);
    hf_spans_unlock();
}

/* ---- visiting ---- */

void hf_locals_each_in(struct hf_local *list, hf_locals_visitor *visit, unsigned argument)
{
    for (; list != NULL; list = list->next)
        visit(list, argument);
}

void hf_locals_each_kept(hf_locals_visitor *visit, unsigned argument)
{
    hf_locals_each_in(warm, visit, argument);
    hf_locals_each_in(idle, visit, argument);
    hf_locals_each_in(missing, visit, argument);
    hf_locals_each_in(lent, visit, argument);
}

/* ---- in a forked child ---- */

void hf_locals_miss(struct hf_local *local)
{
    hf_limited_leave(local);
    hf_locals_link(&missing, local);
}

void hf_locals_miss_warm(struct hf_local *own)
{
    while (warm != NULL) {
        struct hf_local *local = warm;
        hf_locals_unlink(&warm, local);
        hf_locals_miss(local);
    }
    warm_count = 0;
    /* Also of those that were missing before, in a child of a child. */
    for (struct hf_local *local = missing; local != NULL; local = local->next)
        if (local->queue != NULL) /* a write copies a page */
            local->queue = NULL;
    hf_spans_reset_in_child(own, lent);
}
