/*
 * Two threads have loaded an object each, and the first one's pass, which is to route both, is held
 * half-way by a page fault: the second one's hf_route() must not return before that pass is over,
 * because its object is not routed yet.
 *
 * usage: test-waits LIBHOMEFREE MODULE OTHER
 */
#include "../modules/user.h"
#include "guarded.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int (*route)(void);
static pthread_barrier_t held;
static atomic_int second; /* its thread ID, stored just before it calls */
static atomic_bool returned, released;

/* Whether a thread sleeps. The second one has nothing to wait for except the pass. */
static bool sleeps(int thread)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    close(file);
    text[length > 0 ? length : 0] = '\0';
    const char *state = strrchr(text, ')');
    return state != NULL && state[2] == 'S';
}

static void hold_first(void)
{
    pthread_barrier_wait(&held);
    while (second == 0 || (!returned && !sleeps(second)))
        sched_yield();
    released = true;
}

static void *route_first(void *argument)
{
    (void)argument;
    route();
    return NULL;
}

static void *route_second(void *argument)
{
    pthread_barrier_wait(&held);
    second = (int)syscall(SYS_gettid);
    route();
    returned = true;
    *(bool *)argument = released;
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[2];
    bool waited = false;
    const char *homefree_path, *first_path, *second_path;
    TAKE_ARGUMENTS(&homefree_path, &first_path, &second_path);
    guard_against_hanging(60);
    pthread_barrier_init(&held, NULL, 2);
    /* glibc's own dlopen(), so that no stub sees the load. */
    void *(*load_unseen)(const char *, int);
    *(void **)&load_unseen = symbol_of(RTLD_DEFAULT, "dlopen");
    void *handle = load(homefree_path, RTLD_NOW);
    route = (int (*)(void))symbol_of(handle, "hf_route");
    void *first = load_unseen(first_path, RTLD_LAZY);
    if (first == NULL || load_unseen(second_path, RTLD_LAZY) == NULL)
        return 2;
    const struct user *user = ((user_function *)symbol_of(first, "user"))();
    guard((void *)user->table, 1, PROT_NONE, PROT_READ | PROT_WRITE, hold_first);
    if (pthread_create(&threads[0], NULL, route_first, NULL) != 0 ||
        pthread_create(&threads[1], NULL, route_second, &waited) != 0)
        return 2;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    if (!waited)
        fprintf(stderr, "hf_route() returned during the pass\n");
    return waited ? EXIT_SUCCESS : EXIT_FAILURE;
}
