/*
 * Signals during everything that homefree does: each thread has a timer of some thousand signals a
 * second of its own. A handler does what homefree lets it do (hf_owns, hf_version, mapping memory),
 * and no call of libc is restarted, so every system call of homefree's may end with EINTR.
 */
#include "storms.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#    define sigev_notify_thread_id _sigev_un._tid
#endif

enum { THREADS = 6, MICROSECONDS = 150, STACK = 1 << 16 };

static void *heap_block;
static char not_of_the_heap[64];

static void handle(int number)
{
    const int before = errno;
    (void)number;
    if (!hf_owns(heap_block) || hf_owns(not_of_the_heap) || hf_version() == NULL)
        storm_failed("in a handler", "hf_owns()");
    if (atomic_fetch_add(&figures.signals, 1) % 16 == 0) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED) {
            page[0] = 1;
            munmap(page, 4096);
        }
    }
    errno = before;
}

#ifndef sigev_notify_thread_id /* older glibc has no name for it */
#    define sigev_notify_thread_id _sigev_un._tid
#endif

static timer_t begin_signals(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event.sigev_notify_thread_id = gettid();
    const struct timespec period = {0, MICROSECONDS * 1000L};
    timer_t timer;
    STORM_MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    STORM_MUST(timer_settime(timer, 0, &(struct itimerspec){period, period}, NULL) == 0);
    return timer;
}

/* A child inherits no timer: it begins one. */
static void fork_child(void)
{
    const pid_t child = fork();
    if (child == 0) {
        (void)begin_signals();
        storm_blocks_in_child();
        _exit(0);
    }
    int status;
    if (child < 0)
        return;
    while (waitpid(child, &status, 0) != child)
        STORM_MUST(errno == EINTR);
    if (status != 0)
        storm_failed("a child", strsignal(status & 0x7f));
    figures.forks++;
}

static void work(unsigned number)
{
    char stack[STACK];
    const bool other_stack = number % 2 == 0;
    uint64_t random = number * UINT64_C(0x9e3779b97f4a7c15);
    if (other_stack)
        STORM_MUST(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK}, NULL) == 0);
    timer_t timer = begin_signals();
    while (!storm_over) {
        const unsigned what = storm_random(&random) % 64;
        errno = 0;
        if (what == 0 && number == 1)
            fork_child();
        else if (what < 2)
            storm_load(&random, modules[storm_random(&random) % module_count]);
        else if (what < 4)
            STORM_MUST(hf_route() >= 0);
        else
            for (int i = 0; i < 20; i++)
                storm_exchange(&random, NULL);
    }
    timer_delete(timer);
    if (other_stack)
        sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
}

void storm_signals(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK}, before;
    heap_block = hf_malloc(100);
    STORM_MUST(sigaction(SIGUSR1, &action, &before) == 0);
    storm_threads(THREADS, work);
    sigaction(SIGUSR1, &before, NULL);
    hf_free(heap_block);
}
