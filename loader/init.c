/*
 * The one constructor of libhomefree. It calls every unit that has something to prepare, in the
 * order that is written here; no other file has a constructor, so nothing rests on the order of
 * linking.
 *
 * When: under the dynamic linker's lock, with one thread in most processes. 101 puts it before the
 * constructors of everything that is linked into the same object. Other objects' constructors, and
 * a program's preinit functions, may have called into libhomefree before: the heap starts by itself
 * at the first call (alloc/start/start.c), and routing begins here.
 */
#include "alloc/heap/instance.h"
#include "alloc/start/start.h"
#include "alloc/trace/watch.h"
#include "loader/dlopen/dlopen_hooks.h"
#include "loader/dlopen/search_path.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/host/host.h"
#include "loader/host/numpy.h"
#include "loader/interpose/caller_thunks.h"
#include "loader/interpose/late_stores.h"
#include "loader/interpose/route.h"
#include "loader/interpose/routed.h"
#include "loader/interpose/stubs.h"
#include "loader/private/place_copy.h"
#include "loader/record/process_record.h"

#include <homefree/homefree.h>

__attribute__((constructor(101))) static void start_libhomefree(void)
{
    /* What other copies of libhomefree call here: before this copy can become the heap. */
    hf_instance_offer_routing(hf_route, hf_route_report, hf_adopt);
    hf_instance_offer_python(hf_python_install, hf_python_uninstall);

    /* alloc/ as a whole: sealed tables, the heap, where foreign pointers go. */
    hf_alloc_start_stages();

    /* Fork handlers and tables of the loader's units. None of them calls another. */
    hf_routed_start();
    hf_tracking_start();
    hf_late_start();
    hf_search_start();
    hf_copy_start();
    hf_host_start();
    hf_numpy_start();
    hf_thunks_start();

    /* What lower layers call of higher ones, before any slot leads to a stub. */
    hf_asking_offer(hf_stubs_ask_foreign);
    if (!hf_stubs_offer_hooks(&hf_dlopen_hooks))
        return;

    hf_route_start();
    hf_record_start();
}
