/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/diagnose.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What diagnostics mode has found since this part of a test began. */
static unsigned show(struct hf_findings *findings)
{
    struct hf_found found = {.size = sizeof found};
    unsigned count = 0;
    while (hf_findings_next(findings, &found) == 1) {
        printf("%s: %" PRIu64 " times; %s\n", found.rule, found.count, found.remedy);
        count++;
    }
    return count;
}

static int checked(void)
{
    struct hf_findings *findings = NULL;
    int error = hf_findings_begin(&findings);
    if (error != 0)
        return error; /* -ENOSYS without `homefree run --diagnose` */
    struct hf_watch *watch = NULL;
    uint64_t lost = 0;
    error = hf_watch_begin(&watch, 0);
    assert(error == 0);
    hf_free(strdup("freed"));
    error = hf_findings_lost(watch, &lost);
    assert(error == 0 && lost == 0);
    hf_watch_drop(watch);
    assert(show(findings) == 0);
    hf_findings_end(findings);
    return 0;
}

int main(void)
{
    int error = checked();
    return error == 0 || error == -ENOSYS ? 0 : 1;
}
