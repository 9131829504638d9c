/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/homefree.h - allocate anywhere, free anywhere.
 *
 * Includes every topic of the C interface. Each header can also be included alone:
 *
 *   homefree/base.h      the version, and the rules that hold for every function
 *   homefree/alloc.h     the malloc family
 *   homefree/libc.h      libc's functions that return or grow heap memory
 *   homefree/owner.h     which allocator an address belongs to
 *   homefree/route.h     routing of deallocation calls
 *   homefree/adopt.h     rebinding of a prebuilt module's allocation calls
 *   homefree/private.h   private copies of shared objects
 *   homefree/deleter.h   refcounted deleters
 *   homefree/space.h     page-locked memory, and devices' memory
 *   homefree/watch.h     recording of what crosses between shared objects
 *   homefree/fail.h      allocation failure on demand
 *   homefree/heap.h      heaps of one's own, and all live blocks
 *   homefree/profile.h   which code has how much of the heap, by samples
 *   homefree/limit.h     how much of the heap a library may have
 *   homefree/stats.h     the heap's counters
 *   homefree/trim.h      giving unused memory back to the system
 *   homefree/pressure.h  memory that becomes scarce, and a thread that looks
 *   homefree/host.h      CPython's and NumPy's allocators
 *   homefree/doctor.h    the facts that `homefree doctor` shows
 *   homefree/diagnose.h  what diagnostics mode finds
 *
 * Not included: homefree/interpreters.h, for programs that run several interpreters; and, because
 * they need other libraries, homefree/python.h, for extension modules, and homefree/check.h, for
 * Check suites.
 */
#ifndef HOMEFREE_HOMEFREE_H
#define HOMEFREE_HOMEFREE_H

#include <homefree/adopt.h>
#include <homefree/alloc.h>
#include <homefree/base.h>
#include <homefree/deleter.h>
#include <homefree/diagnose.h>
#include <homefree/doctor.h>
#include <homefree/fail.h>
#include <homefree/heap.h>
#include <homefree/host.h>
#include <homefree/libc.h>
#include <homefree/limit.h>
#include <homefree/owner.h>
#include <homefree/pressure.h>
#include <homefree/private.h>
#include <homefree/profile.h>
#include <homefree/route.h>
#include <homefree/space.h>
#include <homefree/stats.h>
#include <homefree/trim.h>
#include <homefree/watch.h>

#endif
