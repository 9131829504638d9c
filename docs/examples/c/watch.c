/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/watch.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What crosses from one object to another, and what stays, while some code runs. */
static void show_crossing(const struct hf_crossing *crossing, void *context)
{
    (void)context;
    printf("%" PRIu64 " blocks from %s, freed by %s\n", crossing->count, crossing->allocated_by,
           crossing->freed_by);
}

static void show_left(const struct hf_left *left, void *context)
{
    printf("%s has left %" PRIu64 " blocks\n", left->allocated_by, left->count);
    *(uint64_t *)context += left->count;
}

static void watched(void)
{
    struct hf_watch *watch = NULL;
    int error = hf_watch_begin(&watch, 0);
    assert(error == 0);
    void *kept = hf_malloc(100);
    char *libcs = strdup("from libc");
    hf_free(libcs); /* crosses from libc to this program */
    error = hf_watch_end(watch);
    assert(error == 0);

    struct hf_watch_report report = {.size = sizeof report};
    error = hf_watch_report(watch, &report, show_crossing, NULL);
    assert(error == 0 && report.crossings == 1);
    struct hf_watch_block block = {.size = sizeof block};
    error = hf_watch_at(watch, kept, &block);
    assert(error == 0 && block.allocated == 1 && block.freed == 0);
    uint64_t left = 0;
    error = hf_watch_left(watch, show_left, &left);
    assert(error == 0 && left == 1);
    hf_watch_drop(watch);
    hf_free(kept);
}

int main(void)
{
    watched();
    return 0;
}
