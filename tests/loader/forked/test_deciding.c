/* A child is forked while another thread decides which allocator a stripped object holds: that
 * thread is not in the child, which must decide by itself. It used to take the object for one that
 * is being decided about, for ever. mmap_tracking.c alone; what it calls is here, and the decision
 * waits.
 */
#include "death.h"
#include "suite.h"

#include "alloc/base/options.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/libc_heap.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/foreign/silent.h"

#include <check.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NUMBER = 5, PAGES = 16384 };

static struct link_map map;
static pthread_barrier_t deciding, forked;
static bool in_child;
static int decisions;

_Atomic(bool) hf_libc_heap_break_is_shared;

bool hf_silent_publish(unsigned number, const struct link_map *object, const bool found[])
{
    (void)found;
    must(number == NUMBER && object == &map);
    decisions++;
    if (!in_child) {
        pthread_barrier_wait(&deciding);
        pthread_barrier_wait(&forked);
    }
    return true;
}

unsigned hf_foreign_reserve(void)
{
    return NUMBER;
}

void hf_foreign_give_back(unsigned number)
{
    (void)number;
}

struct hf_options hf_options = {.guess = 1};

void hf_asking_begin(void)
{
}

const struct link_map *hf_dynlink_find_fast(const void *address)
{
    (void)address;
    return &map;
}

size_t hf_dynlink_namespaces(const struct link_map *first[HF_NAMESPACES_MAX])
{
    (void)first;
    return 0;
}

static void *map_pages(void)
{
    void *at = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED);
    return hf_tracking_mapped(at, PAGES, MAP_PRIVATE | MAP_ANONYMOUS, &map);
}

static void *decide(void *unused)
{
    (void)unused;
    return map_pages();
}

static void fork_meanwhile(void *unused)
{
    (void)unused;
    pthread_t thread;
    int status;
    must(pthread_barrier_init(&deciding, NULL, 2) == 0);
    must(pthread_barrier_init(&forked, NULL, 2) == 0);
    hf_tracking_candidate(&map, 0, (const bool[HF_ALLOCATOR_COUNT]){false});
    must(pthread_create(&thread, NULL, decide, NULL) == 0);
    pthread_barrier_wait(&deciding);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        in_child = true;
        decisions = 0;
        void *pages = map_pages();
        must(decisions == 1 && hf_foreign_pages_id(pages) == NUMBER);
        must(hf_foreign_pages_id(map_pages()) == NUMBER && decisions == 1);
        _exit(0);
    }
    pthread_barrier_wait(&forked);
    void *pages;
    must(pthread_join(thread, &pages) == 0);
    must(decisions == 1 && hf_foreign_pages_id(pages) == NUMBER);
    must(waitpid(child, &status, 0) == child && status == 0);
}

CALL_TEST(a_child_decides_by_itself, fork_meanwhile, NULL)

int main(void)
{
    hf_tracking_start();
    return RUN_TESTS("deciding", a_child_decides_by_itself);
}
