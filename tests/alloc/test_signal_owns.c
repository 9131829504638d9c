/* hf_owns() is async-signal-safe: a signal handler calls it many times while it interrupts the
 * allocator itself. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define SIGNALS 1000

static atomic_int seen, wrong;
static char *owned;
static char not_owned;

static void handle(int signal)
{
    (void)signal;
    if (!hf_owns(owned) || !hf_owns(owned + 99) || hf_owns(&not_owned) || hf_owns(NULL))
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&seen, 1);
}

static void *allocate(void *unused)
{
    static void *blocks[500];
    unsigned seed = 1;
    (void)unused;
    while (atomic_load(&seen) < times(SIGNALS)) {
        size_t at = (size_t)rand_r(&seed) % 500;
        hf_free(blocks[at]);
        blocks[at] = hf_malloc((size_t)rand_r(&seed) % (at == 0 ? 1 << 20 : 5000));
        must(blocks[at] != NULL);
    }
    for (size_t i = 0; i < 500; i++)
        hf_free(blocks[i]);
    return NULL;
}

START_TEST(owns_is_async_signal_safe)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    pthread_t thread;
    owned = hf_malloc(100);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate, NULL), 0);
    for (int sent = 0; sent < times(SIGNALS); sent++) {
        ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
        while (atomic_load(&seen) <= sent)
            sched_yield();
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(wrong, 0);
    hf_free(owned);
}
END_TEST

int main(void)
{
    return RUN_SUITE(owns_is_async_signal_safe);
}
