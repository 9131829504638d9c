/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/pressure.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <errno.h>

/* A thread that gives back what an idle process does not use. */
static void idle(void)
{
    int error = hf_background_start();
    assert(error == 0);
}

/* The loop of a thread that drops caches at 90 % of the memory limit, until somebody cancels it. */
static unsigned drop_caches(struct hf_pressure_watch *watch)
{
    struct hf_pressure seen = {.size = sizeof seen};
    unsigned times = 0;
    int error;
    do {
        error = hf_pressure_wait(watch, &seen, 1000);
        if (error == 0)
            times++; /* here caches are dropped */
    } while (error == 0 || error == -ETIMEDOUT);
    assert(error == -ECANCELED);
    return times;
}

static void watched(void)
{
    struct hf_pressure_watch *watch = NULL;
    int error = hf_pressure_begin(&watch, 90);
    assert(error == 0);
    hf_pressure_cancel(watch); /* from another thread, at the end of the program */
    (void)drop_caches(watch);
    hf_pressure_end(watch);
}

int main(void)
{
    idle();
    watched();
    return 0;
}
