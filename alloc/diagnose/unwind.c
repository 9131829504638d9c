/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See unwind.h. Owns, for each thread, the walk that is under way.
 *
 * libgcc's unwinder asks _Unwind_Find_FDE for the unwind information of an address. Its own one
 * takes a mutex and may call malloc, and where the compiler was built for an older glibc it takes
 * the loader's lock. It also makes the unwinder read the code at an address without information,
 * which need not be mapped. So this file has a definition of its own, which looks in the table of
 * the object that _dl_find_object names, and ends the stack at any other address.
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
#include <unwind.h>

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

/* ---- unwind information ---- */

/* What the unwinder wants to know of an object and a function; the interface of libgcc_s. */
struct bases {
    const void *text, *data;
    const void *function;
};

/* A description that the unwinder cannot read (it has an unknown augmentation): it stops there. */
static const struct {
    uint32_t common_length, common;
    uint8_t version;
    char augmentation[2];
    uint8_t rest[5];
    uint32_t length, to_common;
    uint64_t function, size;
} end_of_stack = {
    .common_length = 12,
    .version = 1,
    .augmentation = "?",
    .length = 20,
    .to_common = 20, /* bytes from here back to `common_length` */
};

static const void *find_description(uintptr_t address, struct bases *bases)
{
    bases->text = bases->data = NULL;
    return hf_frame_description((const void *)address, &bases->function);
}

const void *hf_find_description(const void *address,
                                struct bases *bases) __asm__("_Unwind_Find_FDE")
    __attribute__((visibility("hidden")));
const void *hf_find_description(const void *address, struct bases *bases)
{
    const void *description = find_description((uintptr_t)address, bases);
    if (description != NULL)
        return description;
    *bases = (struct bases){NULL, NULL, NULL};
    return &end_of_stack.length;
}

/* ---- walking ---- */

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

static void leave_all(struct walk *walk, struct hf_frame frame)
{
    while (hf_frame_leave(&frame) && frame.code != 0 && take(walk, (const void *)frame.code))
        ;
}

static __attribute__((noinline)) void follow_carefully(struct walk *walk)
{
    leave_all(walk, hf_frame_here());
}

size_t hf_unwind_interrupted(const void *context, const void *frames[HF_UNWIND_MAX])
{
    struct walk walk = {.frames = frames, .most = HF_UNWIND_MAX};
    const struct hf_frame frame = hf_frame_of(context);
    if (take(&walk, (const char *)frame.code + 1))
        leave_all(&walk, frame);
    return walk.count;
}

#ifdef HF_NO_UNWINDER
static void follow(struct walk *walk)
{
    follow_carefully(walk);
}
#else
static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    int exact = 0; /* interrupted by a signal at this very instruction */
    const uintptr_t address = _Unwind_GetIPInfo(context, &exact);
    if (address == 0)
        return _URC_END_OF_STACK;
    return take(walk, (const void *)(address + (exact != 0))) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* The unwinder aborts if it does not find itself. */
static bool works(void)
{
    static atomic_bool found;
    struct bases bases;
    if (!atomic_load_explicit(&found, memory_order_relaxed) &&
        find_description((uintptr_t)&_Unwind_Backtrace + 1, &bases) != NULL)
        atomic_store_explicit(&found, true, memory_order_relaxed);
    return atomic_load_explicit(&found, memory_order_relaxed);
}

static void follow(struct walk *walk)
{
    if (recovers == NULL || !recovers())
        follow_carefully(walk);
    else if (works())
        (void)_Unwind_Backtrace(visit, walk);
}
#endif

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
    const struct link_map *own = hf_dynlink_find_fast(&end_of_stack);
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
        hf_dynlink_find_fast((const void *)frame.code) != hf_dynlink_find_fast(&end_of_stack))
        return;
    (void)pthread_sigmask(SIG_SETMASK, &thread->uc_sigmask, NULL);
    siglongjmp(walk->resume, 1);
}
