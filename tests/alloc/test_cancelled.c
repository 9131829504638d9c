/* No function of the heap is a cancellation point: a thread that was cancelled inside of one would
 * leave locks taken and the fork gate occupied, and the next fork would wait for ever. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXCESSIVE (sizeof(size_t) > 4 ? SIZE_MAX >> 21 : SIZE_MAX / 2) /* fits into the region */

static char in_static_data[64];

static void allocate(void)
{
    void *volatile block = hf_malloc(24);
    must((block = hf_realloc(block, 300000)) != NULL);
    must(hf_realloc(block, EXCESSIVE) == NULL);
    hf_free(block);
    must((block = hf_malloc(EXCESSIVE)) == NULL);
    must((block = hf_calloc(1, EXCESSIVE)) == NULL);
    must((block = hf_memalign(4096, EXCESSIVE)) == NULL);
}

static void ask(void)
{
    struct hf_owner owner = {.size = sizeof owner};
    struct hf_stats stats = {.size = sizeof stats};
    void *theirs = calloc(1, 2000000);
    must(hf_owner_of(theirs, &owner) == 0 && hf_owner_of(in_static_data, &owner) == 0);
    must(hf_stats(&stats) == 0);
    hf_free(theirs);
}

static void free_static_data(void)
{
    hf_free(in_static_data + 16);
}

static void *called(void *function)
{
    must(pthread_cancel(pthread_self()) == 0);
    (*(void (**)(void))function)();
    must(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    return function;
}

static void call_with_cancel_pending(void (*function)(void))
{
    pthread_t thread;
    void *result;
    must(pthread_create(&thread, NULL, called, &function) == 0);
    must(pthread_join(thread, &result) == 0 && result == &function);
}

/* Others can still allocate and fork. */
static void be_cancelled(void *unused)
{
    (void)unused;
    call_with_cancel_pending(allocate);
    call_with_cancel_pending(ask);
    call_with_cancel_pending(allocate);
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0)
        _exit(0);
    int status = -1;
    must(waitpid(child, &status, 0) == child && status == 0);
}

CALL_TEST(nothing_is_a_cancellation_point, be_cancelled, NULL)

/* Nor is free() when it writes a warning. */
START_TEST(no_warning_is)
{
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer's allocator ends the process instead */
    assert_exited(OUTCOME_OF_SELF("HOMEFREE_CONF=static_free:ignore", "warn"), 0, 1,
                  "in_static_data");
#endif
}
END_TEST

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        call_with_cancel_pending(free_static_data);
        return EXIT_SUCCESS;
    }
    return RUN_SUITE(nothing_is_a_cancellation_point, no_warning_is);
}
