/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See unwind.h. Owns, for each thread, the walk that is under way.
 */
#include "alloc/diagnose/unwind.h"

#include "alloc/base/call_frames.h"
#include "alloc/base/dynlink.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { OWN_FRAMES_MAX = 16, STACK_NEEDED = 16384 };

struct walk {
    const struct walk *self;
    const void *caller;
    const void **frames;
    size_t count, most;
    bool begun; /* `caller` was found */
    sigjmp_buf resume;
};

static __thread struct walk *current __attribute__((tls_model("initial-exec")));
static bool (*recovers)(void); /* set once, before the program starts */

void hf_unwind_start(bool (*asked)(void))
{
    recovers = asked;
}

/* Takes a frame. Returns whether there is room for another one. */
static bool take(struct walk *walk, const void *frame)
{
    if (!walk->begun && frame == walk->caller && walk->count < OWN_FRAMES_MAX) {
        walk->begun = true;
        walk->count = 0;
    }
    walk->frames[walk->count++] = frame;
    return walk->count < (walk->begun ? walk->most : HF_UNWIND_MAX);
}

static void leave_all(struct walk *walk, struct hf_frame frame,
                      bool (*leave)(struct hf_frame *frame))
{
    while (leave(&frame) && frame.code != 0 &&
           take(walk, (const char *)frame.code + (frame.called ? 0 : 1)))
        ;
}

size_t hf_unwind_interrupted(const void *context, const void *frames[HF_UNWIND_MAX])
{
    struct walk walk = {.frames = frames, .most = HF_UNWIND_MAX};
    const struct hf_frame frame = hf_frame_of(context);
    if (take(&walk, (const char *)frame.code + 1))
        leave_all(&walk, frame, hf_frame_leave);
    return walk.count;
}

static __attribute__((noinline)) void follow(struct walk *walk)
{
    leave_all(walk, hf_frame_here(),
              recovers != NULL && recovers() ? hf_frame_leave_believing : hf_frame_leave);
}

size_t hf_unwind(const void *caller, const void *frames[HF_UNWIND_MAX], size_t most)
{
    struct walk walk = {.self = &walk, .caller = caller, .frames = frames, .most = most};
    /* A walk further in than this one was left by longjmp(3), from a handler of the program. */
    if (current != NULL && (uintptr_t)current > (uintptr_t)&walk)
        return 0;
    if (sigsetjmp(walk.resume, 0) == 0) {
        current = &walk;
        atomic_signal_fence(memory_order_seq_cst);
        follow(&walk);
    }
    atomic_signal_fence(memory_order_seq_cst);
    current = NULL;
    if (walk.begun)
        return walk.count;
    const struct link_map *own = hf_dynlink_find_fast((const void *)hf_unwind_start);
    size_t skipped = 0;
    while (skipped < walk.count && hf_dynlink_find_fast((const char *)frames[skipped] - 1) == own)
        skipped++;
    memmove(frames, frames + skipped, (walk.count - skipped) * sizeof *frames);
    return walk.count - skipped < most ? walk.count - skipped : most;
}

bool hf_unwind_guard(void (*work)(void *), void *argument)
{
    struct walk walk = {.self = &walk};
    volatile bool whole = false;
    if (current != NULL && (uintptr_t)current > (uintptr_t)&walk)
        return false;
    if (sigsetjmp(walk.resume, 0) == 0) {
        current = &walk;
        atomic_signal_fence(memory_order_seq_cst);
        work(argument);
        whole = true;
    }
    atomic_signal_fence(memory_order_seq_cst);
    current = NULL;
    return whole;
}

void hf_unwind_recover(const void *context)
{
    struct walk *walk = current;
    const ucontext_t *thread = context;
    const struct hf_frame frame = hf_frame_of(context);
    /* A handler of the program may have interrupted the walk, and crashed or left it. */
    if (walk == NULL || (uintptr_t)walk - frame.stack > STACK_NEEDED || walk->self != walk ||
        hf_dynlink_find_fast((const void *)frame.code) !=
            hf_dynlink_find_fast((const void *)hf_unwind_start))
        return;
    (void)pthread_sigmask(SIG_SETMASK, &thread->uc_sigmask, NULL);
    siglongjmp(walk->resume, 1);
}
