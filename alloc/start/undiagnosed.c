/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/diagnose.h where nothing is diagnosed: in every library but libhomefree-diagnose.so,
 * which has alloc/diagnose/found.c instead. Owns nothing; any thread, at any stage.
 */
#include <homefree/diagnose.h>

#include <errno.h>

int hf_findings_begin(struct hf_findings **out)
{
    return out == NULL ? -EINVAL : -ENOSYS;
}

int hf_findings_next(struct hf_findings *findings, struct hf_found *out)
{
    (void)findings;
    (void)out;
    return -EINVAL;
}

int hf_findings_lost(struct hf_watch *watch, uint64_t *out)
{
    return watch == NULL || out == NULL ? -EINVAL : -ENOSYS;
}

void hf_findings_end(struct hf_findings *findings)
{
    (void)findings;
}
