/*
 * Between the moment a call has read under which number it is to record a mapping and the moment it
 * has recorded it, the object can turn out to hold no allocator. The number must stay reserved
 * until the call is over, and its pages are forgotten before another allocator can get it.
 *
 * mmap_tracking.c with the rest of homefree replaced by functions that hold threads where the test
 * wants them.
 */
#include "alloc/base/options.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/foreign_pages.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/known_allocators.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/foreign/silent.h"
#include "process.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum { NUMBER = 7, SIZE = 1 << 16, PLAIN = MAP_PRIVATE | MAP_ANONYMOUS };

static struct link_map object;
static pthread_barrier_t deciding, recording, decided;
static atomic_int reserved, given_back, forgotten;
static pthread_t recorder;

/* ---- functions that mmap_tracking.c calls ---- */

uintptr_t hf_foreign_pages_root[(size_t)1 << (HF_USER_BITS - HF_FOREIGN_PAGES_LEAF_SHIFT)];
bool hf_libc_heap_break_is_shared;
const struct link_map *hf_dynlink_find_fast(const void *address)
{
    return address == &object ? &object : NULL;
}

size_t hf_dynlink_namespaces(const struct link_map *first[HF_NAMESPACES_MAX])
{
    first[0] = &object;
    return 1;
}

struct hf_options hf_options = {.guess = 1};

void hf_asking_begin(void)
{
}

unsigned hf_foreign_reserve(void)
{
    reserved++;
    return NUMBER;
}

void hf_foreign_give_back(unsigned number)
{
    ck_assert_uint_eq(number, NUMBER);
    given_back++;
}

/* The first thread is here; it finds nothing when the second one is about to record. */
bool hf_silent_publish(unsigned number, const struct link_map *map, const bool found[])
{
    (void)map;
    (void)found;
    ck_assert_uint_eq(number, NUMBER);
    pthread_barrier_wait(&deciding);
    pthread_barrier_wait(&recording);
    return false;
}

bool hf_foreign_pages_any(const void *start, size_t size)
{
    (void)start;
    (void)size;
    return false;
}

bool hf_foreign_pages_set(const void *start, size_t size, unsigned id)
{
    (void)start;
    (void)size;
    ck_assert_uint_eq(id, NUMBER);
    ck_assert(pthread_equal(pthread_self(), recorder));
    pthread_barrier_wait(&recording);
    pthread_barrier_wait(&decided);
    ck_assert_int_eq(given_back, 0);
    ck_assert_int_eq(forgotten, 0);
    return true;
}

void hf_foreign_pages_forget(unsigned id)
{
    ck_assert_uint_eq(id, NUMBER);
    ck_assert_int_eq(given_back, 0);
    forgotten++;
}

/* ---- the schedule ---- */

static void *record(void *argument)
{
    (void)argument;
    recorder = pthread_self();
    pthread_barrier_wait(&deciding);
    hf_tracking_mapped((void *)0x10000, SIZE, PLAIN, &object);
    return NULL;
}

START_TEST(a_number_stays_until_it_is_recorded)
{
    pthread_t thread;
    pthread_barrier_init(&deciding, NULL, 2);
    pthread_barrier_init(&recording, NULL, 2);
    pthread_barrier_init(&decided, NULL, 2);
    hf_tracking_candidate(&object, 0, (const bool[HF_ALLOCATOR_COUNT]){false});
    ck_assert_int_eq(pthread_create(&thread, NULL, record, NULL), 0);
    hf_tracking_mapped((void *)0x90000, SIZE, PLAIN, &object);
    /* It is decided that this is no allocator, while the other call is about to record. */
    ck_assert_int_eq(given_back, 0);
    pthread_barrier_wait(&decided);
    pthread_join(thread, NULL);
    ck_assert_int_eq(reserved, 1);
    ck_assert_int_eq(forgotten, 1);
    ck_assert_int_eq(given_back, 1);
    /* The decision is final. */
    hf_tracking_mapped((void *)0x90000, SIZE, PLAIN, &object);
    ck_assert_int_eq(reserved, 1);
}
END_TEST

/* Memory that an object maps in its constructors, if the object turns out to be no allocator. */
START_TEST(a_provisional_number_is_given_back)
{
    recorder = pthread_self();
    pthread_barrier_init(&recording, NULL, 1);
    pthread_barrier_init(&decided, NULL, 1);
    hf_tracking_mapped((void *)0x90000, SIZE, PLAIN, &object);
    ck_assert_int_eq(reserved, 0);
    hf_tracking_loading(true);
    hf_tracking_mapped((void *)0x90000, SIZE, PLAIN, &object);
    hf_tracking_loading(false);
    ck_assert_int_eq(reserved, 1);
    ck_assert_uint_eq(hf_tracking_number(&object), NUMBER);
    ck_assert(!hf_tracking_is_candidate(&object));
    hf_tracking_settle();
    ck_assert_int_eq(forgotten, 1);
    ck_assert_int_eq(given_back, 1);
    ck_assert_uint_eq(hf_tracking_number(&object), 0);
    ck_assert(!hf_tracking_is_candidate(&object));
}
END_TEST

int main(void)
{
    guard_against_hanging(60);
    return RUN_TESTS("reservation", a_number_stays_until_it_is_recorded,
                     a_provisional_number_is_given_back);
}
