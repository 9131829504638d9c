/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/profile.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <stdio.h>

/* Which objects have how much of the heap. In production, one byte in HF_PROFILE_MEAN. */
static int add(const struct hf_profile_sample *sample, void *context)
{
    *(double *)context += sample->weight_bytes;
    printf("%.0f bytes asked for by %s\n", sample->weight_bytes, sample->object);
    return 0;
}

static void profiled(void)
{
    int error = hf_profile_begin(1); /* of one byte, one: every block */
    assert(error == 0);
    void *block = hf_malloc(1000);
    double bytes = 0;
    error = hf_profile_each(add, &bytes);
    assert(error == 0 && bytes >= 1000);
    error = hf_profile_end();
    assert(error == 0);
    hf_free(block);
}

int main(void)
{
    profiled();
    return 0;
}
