/* A library that the program loads after libhomefree, and that needs nothing of it: its destructor
 * runs after libhomefree's. */
#include <homefree/homefree.h>
#include <stdio.h>

void last_drop(struct hf_release *record, void (*drop)(struct hf_release *),
               int (*stats)(struct hf_stats *));

static struct hf_release *kept;
static void (*drop_it)(struct hf_release *);
static int (*count)(struct hf_stats *);

__attribute__((visibility("default"))) void last_drop(struct hf_release *record,
                                                      void (*drop)(struct hf_release *),
                                                      int (*stats)(struct hf_stats *))
{
    kept = record;
    drop_it = drop;
    count = stats;
}

__attribute__((destructor)) static void end(void)
{
    struct hf_stats stats = {.size = sizeof stats};
    if (kept == NULL)
        return;
    drop_it(kept);
    if (count(&stats) == 0)
        fprintf(stderr, "live %d run %d leaked %d\n", (int)stats.releases_live,
                (int)stats.releases_run, (int)stats.releases_leaked);
}
