/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the core calls of this satellite: a profile's beginning and end, and its samples.
 *
 * Owns whether one goes on, and two locks. The book's, which whoever visits samples holds while the
 * visitor runs, is only ever tried, also by who begins a profile. Below it comes that of switching,
 * above the fork gate and the lock of profile_samples.h.
 */
#include "alloc/base/fork_lock.h"
#include "alloc/build_stamp.h"
#include "satellites/profile/book.h"
#include "satellites/profile/profile_core.h"
#include "satellites/profile/profile_samples.h"
#include "satellites/profile/profile_stack.h"

#include <errno.h>

static pthread_mutex_t HF_FORK_LOCK reading = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t HF_FORK_LOCK switching = PTHREAD_MUTEX_INITIALIZER;
static bool on; /* `switching` */

/* ---- samples ---- */

static bool record(const void *ptr, size_t size)
{
    struct hf_profile_stack stack;
    hf_profile_stack_take(&stack);
    return hf_profile_samples_add(ptr, size, &stack);
}

static const struct hf_sample_functions sample_functions = {
    .record = record,
    .freed = hf_profile_samples_remove,
    .drop = hf_profile_samples_drop,
};

/* ---- a profile ---- */

static int begin_profile(size_t mean_bytes)
{
    if (pthread_mutex_trylock(&reading) != 0)
        return -EBUSY;
    hf_profile_stack_begin();
    pthread_mutex_lock(&switching);
    int error = on ? -EBUSY : hf_profile_samples_begin(mean_bytes) ? 0 : -ENOMEM;
    if (error == 0)
        error = hf_core()->sample(&sample_functions, mean_bytes);
    on |= error == 0;
    pthread_mutex_unlock(&switching);
    pthread_mutex_unlock(&reading);
    return error;
}

static int end_profile(void)
{
    pthread_mutex_lock(&switching);
    const int error = on ? hf_core()->sample(&sample_functions, 0) : -EINVAL;
    if (error == 0)
        on = false;
    pthread_mutex_unlock(&switching);
    return error;
}

static const char *text_at(uint32_t reference)
{
    return reference != 0 ? hf_book_at(reference) : "";
}

/* Returns the number of frames. */
static size_t python_of(const struct hf_book_stack *stack,
                        struct hf_profile_python out[HF_PYTHON_FRAMES_MAX])
{
    static const struct hf_book_place unknown;
    const uint64_t *frames = (const uint64_t *)(const void *)(stack + 1);
    const uint32_t *places = (const uint32_t *)(const void *)(frames + stack->frames);
    for (size_t i = 0; i < stack->python; i++) {
        const struct hf_book_place *place = places[i] != 0 ? hf_book_at(places[i]) : &unknown;
        out[i] =
            (struct hf_profile_python){text_at(place->function), text_at(place->file), place->line};
    }
    return stack->python;
}

static int visit_sample(const struct hf_book_sample *sample, hf_profile_visitor *visit,
                        void *context)
{
    struct hf_profile_sample out = {.block = (const void *)(uintptr_t)sample->block,
                                    .bytes = sample->bytes,
                                    .object = "",
                                    .stack = sample->stack};
    struct hf_profile_python python[HF_PYTHON_FRAMES_MAX];
    out.weight_blocks = hf_book_weight(hf_book, sample->bytes);
    out.weight_bytes = (double)sample->bytes * out.weight_blocks;
    if (sample->stack != 0) {
        const struct hf_book_stack *stack = hf_book_at(sample->stack);
        out.object = text_at(stack->object);
        out.frames = (const void *const *)(const void *)(stack + 1);
        out.frames_count = stack->frames;
        out.python = python;
        out.python_count = python_of(stack, python);
    }
    return visit(&out, context);
}

static int each_sample(hf_profile_visitor *visit, void *context)
{
    struct hf_book_sample sample;
    int result = 0;
    if (pthread_mutex_trylock(&reading) != 0)
        return -EBUSY;
    /* What the visitor allocates may become samples, too. */
    const uint32_t below = hf_profile_samples_end();
    for (uint32_t i = 0; result == 0 && hf_profile_samples_next(&i, below, &sample); i++)
        result = visit_sample(&sample, visit, context);
    pthread_mutex_unlock(&reading);
    return result;
}

static const struct hf_profile_functions here = {begin_profile, end_profile, each_sample, &hf_book};

HF_SATELLITE_WITH(profile, here, hf_profile_stack_start);
