/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions of homefree/pressure.h. The thread is that of the heap's instance, to
 * which every other one forwards; it lives in a satellite (satellites/background/), which is opened
 * when an option or a function first asks for the thread.
 *
 * Owns the satellite's place, which is sealed.
 */
#include "loader/satellites/background_api.h"

#include "alloc/base/satellite.h"
#include "alloc/heap/instance.h"
#include "alloc/heap/resume.h"
#include "alloc/owner/libc_spare.h"
#include "alloc/start/trim.h"
#include "loader/record/live_state.h"

#include <errno.h>

static enum hf_look look(uint64_t quiet)
{
    hf_libc_spare_look();
    return hf_heap_look(quiet);
}

static const struct hf_background_core core_functions = {
    .look = look,
    .trim = hf_trim_here,
    .stats = hf_stats,
    .options = &hf_options,
    .request = &hf_live_trim,
};
static HF_SEALED_UNION(struct hf_satellite, satellite) place HF_SEALED = {
    .satellite = {.name = "background", .core = &core_functions}};

/* The heap's instance's functions; NULL: there are none. */
static const struct hf_background_functions *functions(void)
{
    const struct hf_instance_functions *other = hf_instance_other();
    return other == NULL ? hf_satellite_functions(&place.satellite) : other->background;
}

static const struct hf_background_functions *opened(void)
{
    if (functions() == NULL && hf_instance_forward() == NULL)
        (void)hf_satellite_open(&place.satellite, NULL, 0);
    return functions();
}

static void start_again(void)
{
    const struct hf_background_functions *to = hf_satellite_functions(&place.satellite);
    (void)to->start();
}

int hf_background_start(void)
{
    const struct hf_background_functions *to = opened();
    if (to == NULL)
        return -ENOTSUP;
    if (hf_instance_forward() != NULL)
        return to->start();
    if (hf_options.background == HF_BACKGROUND_OFF)
        return -EPERM;
    const int error = to->start();
    if (error == 0)
        hf_resume_offer(to->left, start_again);
    return error;
}

int hf_pressure_begin(struct hf_pressure_watch **out, unsigned per_cent)
{
    if (out == NULL || per_cent < 1 || per_cent > 100)
        return -EINVAL;
    const int error = hf_background_start();
    return error == 0 ? functions()->pressure_begin(out, per_cent) : error;
}

int hf_pressure_wait(struct hf_pressure_watch *watch, struct hf_pressure *out, int timeout_ms)
{
    const struct hf_background_functions *to = functions();
    if (to == NULL || watch == NULL || out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    return to->pressure_wait(watch, out, timeout_ms);
}

void hf_pressure_cancel(struct hf_pressure_watch *watch)
{
    const struct hf_background_functions *to = functions();
    if (to != NULL && watch != NULL)
        to->pressure_cancel(watch);
}

void hf_pressure_end(struct hf_pressure_watch *watch)
{
    const struct hf_background_functions *to = functions();
    if (to != NULL && watch != NULL)
        to->pressure_end(watch);
}

/* ---- the start ---- */

static void left_here(void)
{
}

const struct hf_background_functions hf_background_offered = {
    .start = hf_background_start,
    .left = left_here,
    .pressure_begin = hf_pressure_begin,
    .pressure_wait = hf_pressure_wait,
    .pressure_cancel = hf_pressure_cancel,
    .pressure_end = hf_pressure_end,
};

void hf_background_as_asked(void)
{
    const struct hf_options *options = &hf_options;
    if (hf_instance_forward() == NULL && options->background != HF_BACKGROUND_OFF &&
        (options->background == HF_BACKGROUND_ON || options->pressure != 0 ||
         options->last_words == HF_FILE_PATH))
        (void)hf_background_start();
}
