/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/base.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <string.h>

/* Headers and library have the same version. */
static void same_version(void)
{
    assert(strcmp(hf_version(), HF_VERSION) == 0);
}

int main(void)
{
    same_version();
    return 0;
}
