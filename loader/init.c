/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the one constructor of libhomefree. It starts every unit that needs preparation, in the
 * order written here. No other file has a constructor, so nothing depends on link order.
 *
 * When: under the dynamic linker's lock, in most processes with a single thread. Priority 101 runs
 * it before all other constructors linked into the same object. Constructors of other objects and a
 * program's preinit functions may have called libhomefree before: the heap starts itself at the
 * first call (alloc/start/start.c), and routing starts here, or when the first of them frees a
 * pointer that is not the heap's, whose allocator must be known by then.
 */
#include "alloc/base/dynlink.h"
#include "alloc/base/seal.h"
#include "alloc/heap/front_end.h"
#include "alloc/heap/instance.h"
#include "alloc/space/space_calls.h"
#include "alloc/start/start.h"
#include "alloc/trace/watch.h"
#include "loader/adopt/start_copies.h"
#include "loader/dlopen/dlopen_hooks.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/hosted_mappings.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/host/arena_owners.h"
#include "loader/host/host.h"
#include "loader/host/numpy.h"
#include "loader/host/pymalloc.h"
#include "loader/host/shared_blocks.h"
#include "loader/interpose/caller_thunks.h"
#include "loader/interpose/late_stores.h"
#include "loader/interpose/route.h"
#include "loader/interpose/routed.h"
#include "loader/interpose/stubs.h"
#include "loader/record/process_record.h"
#include "loader/satellites/background_api.h"
#include "loader/satellites/interpreters_api.h"
#include "loader/satellites/limits_api.h"
#include "loader/satellites/profile_api.h"

#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <stdatomic.h>

/* Functions of loader/ that other instances of libhomefree call in this one. */
static void offer_functions(struct hf_instance_functions *out)
{
    out->route = hf_route;
    out->route_report = hf_route_report;
    out->adopt = hf_adopt;
    out->lookup_for = hf_route_lookup_for;
    out->python_install = hf_python_install;
    out->python_uninstall = hf_python_uninstall;
    out->python_share = hf_python_share;
    out->interpreters = &hf_interpreters_offered;
    out->profile = &hf_profile_offered;
    out->background = &hf_background_offered;
    out->limits = &hf_limits_offered;
}

__attribute__((constructor(101))) static void start_libhomefree(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&begun))
        return;

    hf_instance_offer(offer_functions); /* before this copy can become the heap */

    /* All of alloc/: sealed tables, the heap, the targets of foreign pointers. */
    hf_alloc_start_stages();

    /* Fork handlers and tables of the units in loader/, which are independent of each other. */
    hf_routed_start();
    hf_tracking_start();
    hf_late_start();
    hf_thunks_start();

    /* Calls from lower layers to higher ones, set before any slot points to a stub. */
    hf_asking_offer(hf_stubs_ask_foreign);
    hf_spaces_offer_asking(hf_stubs_ask_foreign);
    hf_stubs_offer_hooks(&hf_dlopen_hooks);
    hf_pymalloc_offer_post(hf_interpreters_post);
    hf_hosted_mappings_offer(hf_host_meet);

    hf_satellites_start();
    hf_start_copies_leave();
    hf_route_start();
    hf_record_start();

    /* Every table that the start fills is open until here. */
    hf_seal_start();

    /* Opens a satellite, if an option asks for it. */
    hf_profile_start();
    hf_background_as_asked();
}

void hf_start_early(void)
{
    if (hf_dynlink_is_settled())
        start_libhomefree();
}
