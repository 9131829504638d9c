/*
 * The process allocates from a preloaded libhomefree, so libc's malloc serves nobody until threads
 * need memory while another one forks, several at once: glibc starts its malloc in the first call,
 * without a lock. Here the threads call it themselves, each time in a process where nobody has.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 300, THREADS = 8, BLOCKS = 100 };

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *ptr);

static pthread_barrier_t begun;

static void *use_libc(void *unused)
{
    void *blocks[BLOCKS];
    pthread_barrier_wait(&begun);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = __libc_malloc(100 + 8 * i);
    for (size_t i = 0; i < BLOCKS; i++)
        __libc_free(blocks[i]);
    return unused;
}

static int run(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&begun, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, use_libc, NULL) != 0)
            return EXIT_FAILURE;
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return EXIT_SUCCESS;
}

int main(void)
{
    int dead = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(run());
        if (waitpid(child, &status, 0) != child || status != 0)
            dead++;
    }
    if (dead != 0)
        fprintf(stderr, "%d of %d processes died\n", dead, PROCESSES);
    return dead == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
