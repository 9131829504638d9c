/*
 * A program that others look at while it runs. It says "ready PID" on stdout, does what each line
 * on stdin says, answers with a line, and ends with status 0 at the end of stdin. In between it
 * does nothing, so what is seen of it does not change.
 *
 *   blocks N   allocates and frees N blocks of 64 bytes, on this thread
 *   thread N   the same on a thread that then waits until the program ends
 *   twice      frees a block twice
 *   fork       forks a child that answers for itself until the end of stdin, and waits for it
 *   store      gives a variable that held free() another function
 *   load FILE  loads a library
 *   corpse     has a child that has ended and is not waited for; answers its process number
 *   churn FILE a thread loads and unloads a library without end
 *   busy       a thread allocates, and frees twice, without end
 *   grow       a thread replaces blocks of all sizes without end
 *   id         starts a thread that waits; answers its number
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void (*freer)(void *) = free;
static long wanted;
static int done[2];

static void allocate(long count)
{
    for (long i = 0; i < count; i++) {
        void *volatile block = malloc(64);
        free(block);
    }
}

static void *count_on_thread(void *unused)
{
    (void)unused;
    allocate(wanted);
    const pid_t number = (pid_t)syscall(SYS_gettid);
    if (write(done[1], &number, sizeof number) != sizeof number)
        abort();
    for (;;)
        pause();
}

static pid_t start_thread(long count)
{
    pthread_t thread;
    pid_t number = 0;
    wanted = count;
    if (pipe(done) != 0 || pthread_create(&thread, NULL, count_on_thread, NULL) != 0 ||
        read(done[0], &number, sizeof number) != sizeof number)
        abort();
    return number;
}

__attribute__((noinline)) static void free_twice(void)
{
    void *volatile block = malloc(100);
    free(block);
    free(block);
}

static void *load_and_unload(void *path)
{
    for (;;) {
        void *library = dlopen(path, RTLD_NOW);
        if (library == NULL || dlclose(library) != 0)
            abort();
    }
}

static void *allocate_without_end(void *unused)
{
    while (unused == NULL) {
        allocate(100);
        free_twice();
    }
    return NULL;
}

static void *replace_without_end(void *unused)
{
    enum { BLOCKS = 1000 };
    static void *kept[BLOCKS];
    unsigned random = 1;
    while (unused == NULL) {
        void **at = &kept[(size_t)rand_r(&random) % BLOCKS];
        const size_t most = rand_r(&random) % 50 != 0 ? 5000 : 500000;
        free(__atomic_exchange_n(at, malloc((size_t)rand_r(&random) % most), __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void go_on(void *(*what)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, argument) != 0)
        abort();
}

static pid_t make_corpse(void)
{
    siginfo_t info;
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0)
        abort();
    return child;
}

static void obey(char *line)
{
    char *argument = strchr(line, ' ');
    argument = argument != NULL ? argument + 1 : line + strlen(line);
    if (strncmp(line, "blocks", 6) == 0)
        allocate(strtol(argument, NULL, 10));
    else if (strncmp(line, "thread", 6) == 0)
        (void)start_thread(strtol(argument, NULL, 10));
    else if (strcmp(line, "twice") == 0)
        free_twice();
    else if (strcmp(line, "store") == 0)
        freer = (void (*)(void *))(void *)puts;
    else if (strncmp(line, "load", 4) == 0 && dlopen(argument, RTLD_NOW) == NULL)
        printf("%s\n", dlerror());
    else if (strncmp(line, "churn", 5) == 0)
        go_on(load_and_unload, strdup(argument));
    else if (strcmp(line, "busy") == 0)
        go_on(allocate_without_end, NULL);
    else if (strcmp(line, "grow") == 0)
        go_on(replace_without_end, NULL);
    if (strcmp(line, "corpse") == 0)
        printf("%d\n", (int)make_corpse());
    else if (strcmp(line, "id") == 0)
        printf("%d\n", (int)start_thread(0));
    else
        printf("done\n");
}

int main(void)
{
    /* No buffer that stdio would allocate and read ahead into: a child reads on. */
    char line[4096];
    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready %d\n", (int)getpid());
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "fork") != 0) {
            obey(line);
            continue;
        }
        const pid_t child = fork();
        if (child == 0)
            printf("ready %d\n", (int)getpid());
        else
            return waitpid(child, NULL, 0) == child ? 0 : 1;
    }
    return 0;
}
