/*
 * The loader's lock in a library of its own, so that a test can call what libhomefree keeps to
 * itself: loader/lock.c finds its own object by the region's bounds, which lie here.
 */
#include "lock_twin.h"

#include "alloc/heap/internal.h"
#include "loader/interpose/loader_lock.h"

struct hf_region_bounds hf_region;

int twin_lock_run(void (*function)(void *context), void *context)
{
    return hf_loader_lock_run(function, context);
}
