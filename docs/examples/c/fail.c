/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/fail.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <stdlib.h>

/* What code does when memory runs out at its second call. */
static void out_of_memory(void)
{
    int error = hf_fail_at(2, 0);
    assert(error == 0);
    void *first = hf_malloc(10);
    void *second = hf_malloc(10);

    struct hf_fail_counts counts = {.size = sizeof counts};
    error = hf_fail_count(0, &counts);
    assert(error == 0 && counts.calls == 2 && counts.failed == 1);
    error = hf_fail_end(0, NULL);
    assert(error == 0 && first != NULL && second == NULL);
    hf_free(first);
}

int main(void)
{
    out_of_memory();
    return 0;
}
