/*
 * A child that a system call made, so that no handler of fork(3)'s ran: what it records is its own.
 * The first argument adds a fault, in the child.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 200 };

static char not_a_block[64];

static void *work(int number)
{
    void *volatile block = malloc((size_t)number + 1);
    return block;
}

int main(int count, char **arguments)
{
    int status;
    (void)arguments;
    free(work(1));
    fflush(stdout);
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        for (int i = 0; i < BLOCKS; i++)
            free(work(i));
        if (count > 1) {
            void *wrong = not_a_block + 16;
            __asm__ volatile("" : "+r"(wrong));
            free(wrong);
        }
        _exit(3);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    for (int i = 0; i < BLOCKS; i++)
        free(work(i));
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
