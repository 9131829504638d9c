/*
 * A library with a destructor that frees what the program gave it: at that time main() is long
 * over.
 */
#include "destructor.h"

#include <stddef.h>
#include <stdlib.h>

static void *kept;
static void (*gone)(const char *stage);

__attribute__((visibility("default"))) void keep_until_exit(void *block,
                                                            void (*tell)(const char *stage))
{
    kept = block;
    gone = tell;
}

__attribute__((destructor)) static void finish(void)
{
    free(kept);
    if (gone != NULL)
        gone("library's destructor");
}
