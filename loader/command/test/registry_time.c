/* SPDX-License-Identifier: BSD-2-Clause */
/* See registry_time.h. */
#include "loader/command/test/registry_time.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { CALLS = 200000, THREADS_MOST = 16 };

struct clocked {
    const struct allocator_registry *member;
    const void *address[4];
    double nanoseconds;
};

static void *ask_often(void *context)
{
    struct clocked *clocked = context;
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (size_t i = 0; i < CALLS; i++)
        (void)clocked->member->owns(clocked->address[i & 3]);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    clocked->nanoseconds =
        ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / CALLS;
    return NULL;
}

double hf_registry_time(const struct allocator_registry *member, const void *const address[4],
                        size_t threads)
{
    double least = 1e30;
    for (int again = 0; again < 3; again++) {
        struct clocked clocked[THREADS_MOST];
        pthread_t thread[THREADS_MOST];
        double sum = 0;
        size_t started = 0;
        for (size_t i = 0; i < threads; i++) {
            clocked[i].member = member;
            memcpy(clocked[i].address, address, sizeof clocked[i].address);
        }
        while (started < threads &&
               pthread_create(&thread[started], NULL, ask_often, &clocked[started]) == 0)
            started++;
        for (size_t i = 0; i < started; i++) {
            pthread_join(thread[i], NULL);
            sum += clocked[i].nanoseconds;
        }
        if (started != 0 && sum / (double)started < least)
            least = sum / (double)started;
    }
    return least;
}
