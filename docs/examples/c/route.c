/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/route.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* After objects were loaded in a way that libhomefree cannot see; none was, here. */
static void again(void)
{
    int changed = hf_route();
    assert(changed == 0);
}

/* What routing could not reach, and why. */
static void show(const struct hf_route_entry *entry, void *context)
{
    (void)context;
    if (entry->state != HF_ROUTE_CHANGED)
        printf("%s, %s: %s\n", entry->object, entry->function ? entry->function : "all of it",
               entry->reason);
}

static void report(void)
{
    struct hf_route_report totals = {.size = sizeof totals};
    int error = hf_route_report(&totals, show, NULL);
    assert(error == 0 && totals.changed > 0);
    printf("%" PRIu64 " slots of %" PRIu64 " objects\n", totals.changed, totals.objects);
}

int main(void)
{
    again();
    report();
    return 0;
}
