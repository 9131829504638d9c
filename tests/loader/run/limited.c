/*
 * What programs with little to spend do: one action for each argument. Fails with the first that
 * does.
 *
 *   load=FILE    opens a library
 *   lock         locks all memory, now and in future, within a quarter of a second
 *   take=BYTES   allocates a block, uses its ends, resizes and frees it
 *   small        allocates and frees many small blocks, also in a forked child and in a thread
 *   size         prints how many KiB are mapped
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Processor time: the machine may be busy. */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool lock_all(void)
{
    const double before = seconds();
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return false;
    return seconds() - before < 0.25;
}

static bool take(size_t size)
{
    char *block = malloc(size);
    if (block == NULL)
        return false;
    block[0] = block[size - 1] = 1;
    char *larger = realloc(block, size + size / 64);
    if (larger == NULL || larger[0] != 1 || larger[size - 1] != 1)
        return false;
    free(larger);
    return true;
}

static void *use_small(void *unused)
{
    enum { BLOCKS = 20000 };
    static _Thread_local char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1 + i % 60);
        if (blocks[i] == NULL)
            return NULL;
        blocks[i][0] = (char)i;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    (void)unused;
    return blocks;
}

static bool use_everywhere(void)
{
    pthread_t thread;
    void *result = NULL;
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        _exit(use_small(NULL) == NULL);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 &&
           use_small(NULL) != NULL && pthread_create(&thread, NULL, use_small, NULL) == 0 &&
           pthread_join(thread, &result) == 0 && result != NULL;
}

static bool print_size(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmSize:", 7) == 0)
            return printf("%lu\n", strtoul(line + 7, NULL, 10)) > 0;
    return false;
}

static bool act(const char *action)
{
    if (strncmp(action, "load=", 5) == 0)
        return dlopen(action + 5, RTLD_NOW | RTLD_GLOBAL) != NULL;
    if (strncmp(action, "take=", 5) == 0)
        return take(strtoul(action + 5, NULL, 10));
    if (strcmp(action, "lock") == 0)
        return lock_all();
    if (strcmp(action, "small") == 0)
        return use_everywhere();
    return strcmp(action, "size") == 0 && print_size();
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!act(argv[i])) {
            perror(argv[i]);
            return 1;
        }
    return 0;
}
