/*
 * A library with a jemalloc inside that registers something in its process, which nothing else may:
 * as protobuf's file descriptors.
 */
#include <stdio.h>
#include <stdlib.h>

extern void *take_part(void);

static void *part;

__attribute__((constructor)) static void take(void)
{
    if (getenv("PART_TAKEN") != NULL) {
        fputs("the part is taken already\n", stderr);
        abort();
    }
    setenv("PART_TAKEN", "1", 1);
    part = malloc(10);
}

void *take_part(void)
{
    return part;
}
