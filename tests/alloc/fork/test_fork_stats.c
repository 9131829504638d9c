/* Whoever asks for statistics while another thread forks waits for a fork that takes a second, as
 * on a machine with much to do. Who cannot be waited for is told so: a thread for which the fork
 * waits, and the one that forks. */
#include "late.h"
#include "suite.h"

#include <errno.h>
#include <homefree/stats.h>
#include <time.h>

static const char *library;
static void (*in_prepare)(void);
static pthread_barrier_t closed;
static pthread_t asker;
static int answer;

static int ask(void)
{
    struct hf_stats stats = {.size = sizeof stats};
    return hf.stats(&stats);
}

static void *ask_when_closed(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&closed);
    answer = ask();
    return NULL;
}

static void prepare(void)
{
    if (in_prepare != NULL)
        in_prepare();
}

static void take_a_second(void)
{
    pthread_barrier_wait(&closed);
    must(nanosleep(&(struct timespec){.tv_sec = 1}, NULL) == 0);
}

static void wait_for_the_asker(void)
{
    pthread_barrier_wait(&closed);
    must(pthread_join(asker, NULL) == 0);
}

static void fork_and(void (*step)(void))
{
    must(pthread_atfork(prepare, NULL, NULL) == 0);
    load_now(library);
    in_prepare = step;
    const pid_t child = fork();
    if (child == 0)
        _exit(ask() != 0);
    reap(child);
    must(ask() == 0);
}

static void fork_beside_an_asker(void (*step)(void))
{
    must(pthread_barrier_init(&closed, NULL, 2) == 0);
    must(pthread_create(&asker, NULL, ask_when_closed, NULL) == 0);
    fork_and(step);
}

static void slow_fork(void *unused)
{
    (void)unused;
    fork_beside_an_asker(take_a_second);
    must(pthread_join(asker, NULL) == 0);
    must(answer == 0);
}

static void fork_that_waits(void *unused)
{
    (void)unused;
    fork_beside_an_asker(wait_for_the_asker);
    must(answer == -EAGAIN);
}

static void ask_in_prepare(void)
{
    answer = ask();
}

static void own_fork(void *unused)
{
    (void)unused;
    fork_and(ask_in_prepare);
    must(answer == -EAGAIN);
}

CALL_TEST(a_slow_fork_is_waited_for, slow_fork, NULL)
CALL_TEST(a_fork_that_waits_for_the_asker_is_not, fork_that_waits, NULL)
CALL_TEST(the_forking_thread_is_told, own_fork, NULL)

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    return RUN_SUITE(a_slow_fork_is_waited_for, a_fork_that_waits_for_the_asker_is_not,
                     the_forking_thread_is_told);
}
