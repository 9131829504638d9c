/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/trim.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* What each allocator of an idle process gave back. */
static void show(const struct hf_trimmed *trimmed, void *context)
{
    (void)context;
    if (trimmed->how != NULL && trimmed->before > trimmed->after)
        printf("%s: %" PRIu64 " bytes by %s\n", trimmed->allocator,
               trimmed->before - trimmed->after, trimmed->how);
}

static void idle(void)
{
    int error = hf_trim(show, NULL);
    assert(error == 0);
}

int main(void)
{
    idle();
    return 0;
}
