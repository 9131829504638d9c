/* Two threads that find corruption at once: the first one's line is the only one. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static sem_t first_has_spoken, second_begins;
static pid_t second;

static void free_twice(void)
{
    void *block = hf_malloc(100);
    hf_free(block);
    hf_free(block);
}

/* The kernel's letter for what a thread does: S while it sleeps. */
static char state_of(pid_t thread)
{
    char path[64], state = '?';
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    must(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    (void)fclose(file);
    return state;
}

/* Of SIGABRT: the first thread stays in it until the other has gone as far as it can. */
static void on_abort(int signal)
{
    (void)signal;
    if ((pid_t)syscall(SYS_gettid) == second)
        return;
    must(sem_post(&first_has_spoken) == 0);
    must(sem_wait(&second_begins) == 0);
    while (state_of(second) != 'S')
        continue;
}

static void *be_second(void *unused)
{
    must(sem_wait(&first_has_spoken) == 0);
    second = (pid_t)syscall(SYS_gettid);
    must(sem_post(&second_begins) == 0);
    free_twice();
    return unused;
}

static void free_twice_in_both(void *unused)
{
    (void)unused;
    pthread_t thread;
    must(sem_init(&first_has_spoken, 0, 0) == 0 && sem_init(&second_begins, 0, 0) == 0);
    must(signal(SIGABRT, on_abort) != SIG_ERR);
    must(pthread_create(&thread, NULL, be_second, NULL) == 0);
    free_twice();
}

START_TEST(one_line)
{
    assert_killed(outcome_of_call(free_twice_in_both, NULL), SIGABRT,
                  "homefree: fatal: ", "double free");
}
END_TEST

int main(void)
{
    return RUN_SUITE(one_line);
}
