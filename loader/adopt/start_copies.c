/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See start_copies.h. Changes LD_PRELOAD where it stands, so that nothing is allocated.
 */
#include "loader/adopt/start_copies.h"

#include <stdlib.h>
#include <string.h>

void hf_start_copies_leave(void)
{
    const char *copies = secure_getenv(HF_START_COPIES_VARIABLE);
    char *preload = secure_getenv("LD_PRELOAD");
    if (copies == NULL)
        return;
    const size_t size = preload != NULL ? strlen(preload) : 0, end = strlen(copies);
    if (size > end && strcmp(preload + size - end, copies) == 0 && preload[size - end - 1] == ':')
        preload[size - end - 1] = '\0';
    (void)unsetenv(HF_START_COPIES_VARIABLE);
}
