/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See guards.h.
 */
#include "alloc/spans/guards.h"

#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

bool hf_checks_full;
struct hf_guards hf_guards;

static void make_secrets(void)
{
    if (syscall(SYS_getrandom, hf_guards.secrets, sizeof hf_guards.secrets, GRND_NONBLOCK) !=
        (long)sizeof hf_guards.secrets) {
        const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes from the kernel */
        if (random != NULL)
            memcpy(hf_guards.secrets, random, sizeof hf_guards.secrets);
    }
    hf_guards.secrets[1] |= 1;
}

void hf_guards_start(bool wide)
{
    make_secrets();
    hf_guards.least = wide ? 16 : 8;
    hf_guards.most = wide ? 64 : 16;
    hf_guards.large = wide ? 64 : 0;
    hf_checks_full = true;
}
