/* SPDX-License-Identifier: BSD-2-Clause */
/* A library that knows nothing of homefree, for the examples that load one. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *take(void);

void *take(void)
{
    return malloc(100);
}
