/*
 * A program that needs a library with an allocator inside, from its start. Prints one fact a line:
 * whose who() it got, whether the library's blocks are the heap's, and how many adopted copies it
 * and a program that it starts have; and what LD_PRELOAD says to that.
 *
 * usage: program [child]
 */
#include "../hidden/inner.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
extern const char *who(void);

static int copies(void)
{
    char line[4096];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "homefree/adopted/") != NULL && strstr(line, " r-xp ") != NULL;
    if (maps != NULL)
        fclose(maps);
    return count;
}

static void *cross(void *unused)
{
    const struct inner *module = inner();
    (void)unused;
    for (size_t size = 1; size < 10000; size += 13) {
        free(module->give(size));
        module->take(malloc(size));
        module->free_strdup();
    }
    return NULL;
}

int main(int count, char **arguments)
{
    enum { THREADS = 4 };
    if (count > 1) {
        const char *preload = getenv("LD_PRELOAD");
        printf("child %d %s %s\n", copies(), strrchr(preload, '/') + 1,
               getenv("HOMEFREE_START_COPIES") == NULL ? "gone" : "left");
        return 0;
    }
    pthread_t threads[THREADS];
    bool (*owns)(const void *) = NULL;
    *(void **)&owns = dlsym(RTLD_DEFAULT, "hf_owns");
    void *block = inner()->give != NULL ? inner()->give(100) : NULL;
    const bool adopted = block != NULL && owns != NULL && owns(block);
    printf("%s\n%s\n%d\n", who(), adopted ? "heap" : "other", copies());
    if (block != NULL)
        inner()->take(block);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        char name[] = "child";
        char *const next[] = {arguments[0], name, NULL};
        execve("/proc/self/exe", next, environ);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    if (!adopted)
        return status;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, cross, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return status;
}
