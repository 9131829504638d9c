/*
 * The loader's lock in a separate library, so that a test can call functions that libhomefree does
 * not export. loader/interpose/loader_lock.c finds its own object through the region's bounds,
 * which are defined here.
 */
#include "lock_twin.h"

#include "alloc/heap/internal.h"
#include "loader/interpose/loader_lock.h"

struct hf_region_bounds hf_region;

int twin_lock_run(void (*function)(void *context), void *context)
{
    return hf_loader_lock_run(function, context);
}
