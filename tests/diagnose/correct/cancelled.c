/*
 * A child of fork(2) whose only thread is to be cancelled: malloc() and free() are no cancellation
 * points, not even for the first thing that a child records. The first argument adds a fault, for
 * which a file is made. Prints "all right".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char not_a_block[64];
static int with_fault;

static void *fork_cancelled(void *unused)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        (void)pthread_cancel(pthread_self());
        void *volatile block = malloc(10);
        free(block);
        if (with_fault) {
            void *wrong = not_a_block + 16;
            __asm__ volatile("" : "+r"(wrong));
            free(wrong);
        }
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        _exit(3);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 3)
        puts("all right");
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    (void)arguments;
    with_fault = count > 1;
    return pthread_create(&thread, NULL, fork_cancelled, NULL) != 0 ||
           pthread_join(thread, NULL) != 0;
}
