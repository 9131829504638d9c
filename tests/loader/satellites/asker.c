/*
 * Loads the libhomefree that its first argument names, runs the command in BETWEEN, goes to another
 * directory, the second argument or /, asks for what two satellites do, and says what came of it:
 * in the process, in a forked child, and in the process again.
 *
 * With AT_ONCE=N, eight threads ask at a time, in each of N children; says how many children died.
 */
#include <dlfcn.h>
#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <homefree/private.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void ask(void *library, const char *where)
{
    int (*private_copy)(const char *, char *, size_t) =
        (int (*)(const char *, char *, size_t))dlsym(library, "hf_private_copy");
    int (*engine)(char *, size_t) =
        (int (*)(char *, size_t))dlsym(library, "hf_interpreters_engine");
    char path[PATH_MAX], why[512] = "";
    const int copied = private_copy("/nowhere/file.so", path, sizeof path);
    const int found = engine(why, sizeof why);
    printf("%s: adopt %d, interpreters %d: %s\n", where, copied, found, why);
    fflush(stdout);
}

static pthread_barrier_t all;

static void *ask_with_others(void *library)
{
    int (*private_copy)(const char *, char *, size_t) =
        (int (*)(const char *, char *, size_t))dlsym(library, "hf_private_copy");
    char path[PATH_MAX];
    pthread_barrier_wait(&all);
    (void)private_copy("/nowhere/file.so", path, sizeof path);
    return NULL;
}

static int ask_at_once(void *library, const char *children)
{
    int died = 0;
    for (long i = strtol(children, NULL, 10); i > 0; i--) {
        const pid_t child = fork();
        if (child == 0) {
            pthread_t threads[8];
            pthread_barrier_init(&all, NULL, 8);
            for (int j = 0; j < 8; j++)
                if (pthread_create(&threads[j], NULL, ask_with_others, library) != 0)
                    _exit(1);
            for (int j = 0; j < 8; j++)
                pthread_join(threads[j], NULL);
            _exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        died += status != 0;
    }
    printf("%d died\n", died);
    return 0;
}

int main(int count, char **arguments)
{
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    const char *between = getenv("BETWEEN");
    if (library == NULL || (between != NULL && system(between) != 0) ||
        chdir(count > 2 ? arguments[2] : "/") != 0) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const char *children = getenv("AT_ONCE");
    if (children != NULL)
        return ask_at_once(library, children);
    ask(library, "process");
    const pid_t child = fork();
    if (child == 0) {
        ask(library, "child");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    ask(library, "process");
    return 0;
}
