/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See resume.h.
 */
#include "alloc/heap/resume.h"

#include "alloc/base/seal.h"

#include <errno.h>
#include <stddef.h>

struct functions {
    void (*left)(void);
    void (*start)(void);
};
static HF_SEALED_UNION(struct functions, it) functions HF_SEALED;

bool hf_resume_due;

void hf_resume_offer(void (*left)(void), void (*start)(void))
{
    struct hf_seal seal;
    if (functions.it.start == start || !hf_seal_open(&seal))
        return;
    functions.it.left = left;
    __atomic_store_n(&functions.it.start, start, __ATOMIC_RELEASE);
    hf_seal_close(&seal);
}

void hf_resume_in_child(void)
{
    if (functions.it.start == NULL)
        return;
    functions.it.left();
    __atomic_store_n(&hf_resume_due, true, __ATOMIC_RELAXED);
}

void hf_resume(void)
{
    const int saved_errno = errno;
    if (__atomic_exchange_n(&hf_resume_due, false, __ATOMIC_RELAXED))
        functions.it.start();
    errno = saved_errno;
}
