/*
 * What the seam has for grounds on spans. This heap's know which large blocks are live, but small
 * ones only when their slabs get them back. Owns nothing.
 */
#include "alloc/jemalloc/seam.h"

/* Of ground_large.h: a large block no longer counts as live. */
void hf_ground_retire(void *at);

void *hf_ground_entries(const struct hf_ground *ground)
{
    (void)ground;
    return NULL;
}

bool hf_ground_claim(void *at)
{
    if (!hf_ground_find(at).small)
        hf_ground_retire(at);
    return true;
}
