/* Fork handlers that were registered before libhomefree came may do all that they may do without
 * it: allocate, free and resize, libc's memory and the heap's; load a library; take a lock under
 * which other threads allocate; end a thread that uses the heap (OpenBLAS's handler joins its
 * workers). Meanwhile other threads allocate, and the child's heap is whole. */
#include "late.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char *library, *other_library;
static atomic_bool armed, stop;
static char *before; /* a heap block from before the fork */
static char *carried;

static void use_libc(void)
{
    char *p = malloc(100), *q = malloc(100000);
    must(p != NULL && q != NULL);
    p = realloc(p, 5000);
    free(q);
    hf.free(p);
    p = hf.malloc(100);
    must(p != NULL);
    free(p); /* goes through a routed slot */
}

static void prepare_uses_the_heap(void)
{
    if (!armed)
        return;
    errno = 77;
    use_the_heap();
    use_libc();
    before = hf.realloc(before, 300000);
    must(before != NULL && before[0] == 'b' && before[99] == 'b');
    carried = hf.malloc(60000);
    must(carried != NULL);
    memset(carried, 'c', 60000);
}

static void afterwards_uses_the_heap(void)
{
    if (!armed)
        return;
    use_the_heap();
    use_libc();
    must(carried[0] == 'c' && carried[59999] == 'c');
    hf.free(carried);
    before = hf.realloc(before, 100);
    must(before[0] == 'b' && before[99] == 'b');
}

static void prepare_loads(void)
{
    if (!armed)
        return;
    void *handle = dlopen(other_library, RTLD_NOW);
    must(handle != NULL);
    must(dlsym(RTLD_DEFAULT, "free") != NULL);
#if __GLIBC_PREREQ(2, 36)
    dlclose(handle); /* before, glibc's waits here for the handlers to end */
#endif
}

/* ---- a lock held while allocating ---- */

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t locked, prepared;
static atomic_bool meeting;

static void prepare_locks(void)
{
    if (!armed)
        return;
    if (meeting)
        pthread_barrier_wait(&prepared);
    pthread_mutex_lock(&shared);
}

static void afterwards_unlocks(void)
{
    if (armed)
        pthread_mutex_unlock(&shared);
}

/* Holds the lock when the fork begins, and uses the heap before releasing it. */
static void *allocate_locked(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&shared);
    pthread_barrier_wait(&locked);
    pthread_barrier_wait(&prepared);
    use_the_heap();
    pthread_mutex_unlock(&shared);
    return NULL;
}

/* ---- a worker that the handlers stop ---- */

static pthread_t worker;
static pthread_barrier_t begun, end;
static atomic_bool has_worker;

static void *work(void *unused)
{
    (void)unused;
    use_the_heap();
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&end);
    return NULL;
}

static void prepare_ends_the_worker(void)
{
    if (!has_worker)
        return;
    has_worker = false;
    pthread_barrier_wait(&end);
    must(pthread_join(worker, NULL) == 0);
}

static void start_the_worker(void)
{
    must(pthread_create(&worker, NULL, work, NULL) == 0);
    pthread_barrier_wait(&begun);
    has_worker = true;
}

/* ---- the process ---- */

static void begin(void)
{
    must(pthread_barrier_init(&locked, NULL, 2) == 0);
    must(pthread_barrier_init(&prepared, NULL, 2) == 0);
    must(pthread_barrier_init(&begun, NULL, 2) == 0);
    must(pthread_barrier_init(&end, NULL, 2) == 0);
    must(pthread_atfork(prepare_locks, afterwards_unlocks, afterwards_unlocks) == 0);
    must(pthread_atfork(prepare_ends_the_worker, NULL, NULL) == 0);
    must(pthread_atfork(prepare_loads, prepare_loads, prepare_loads) == 0);
    must(pthread_atfork(prepare_uses_the_heap, afterwards_uses_the_heap,
                        afterwards_uses_the_heap) == 0);
    load_now(library);
    before = hf.malloc(100);
    must(before != NULL && hf.owns(before));
    memset(before, 'b', 100);
    armed = true;
}

static void fork_once(void)
{
    pid_t child = fork();
    if (child == 0) {
        must(before[0] == 'b' && before[99] == 'b');
        use_the_heap();
        char *block = hf.malloc(200000);
        must(block != NULL && hf.owns(block)); /* the gate is open in the child */
        hf.free(block);
        has_worker = false;
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(0);
        reap(grandchild);
        _exit(0);
    }
    reap(child);
    char *block = hf.malloc(200000);
    must(block != NULL);
    hf.free(block);
}

static void handlers(void *unused)
{
    (void)unused;
    begin();
    for (int i = 0; i < 3; i++)
        fork_once();
    start_the_worker();
    fork_once();
}

static void a_lock_held_by_another_thread(void *unused)
{
    (void)unused;
    pthread_t thread;
    begin();
    pid_t child = fork_beside(&thread, allocate_locked, &meeting, &locked);
    if (child == 0) {
        use_the_heap();
        _exit(0);
    }
    reap(child);
    must(pthread_join(thread, NULL) == 0);
}

static void vfork_and_spawn(void *unused)
{
    (void)unused;
    extern char **environ;
    char *const arguments[] = {(char *)"true", NULL};
    pid_t child;
    begin();
    must(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0);
    reap(child);
    child = vfork();
    if (child == 0)
        _exit(0);
    reap(child);
    must(system("true") == 0);
    use_the_heap();
}

/* ---- storm: tests/long/fork-storm.sh repeats it ---- */

enum { STORM_THREADS = 3, STORM_FORKERS = 2, STORM_FORKS = 10 };

static void *allocate_always(void *locks)
{
    while (!stop) {
        if (locks != NULL)
            pthread_mutex_lock(&shared);
        use_the_heap();
        if (locks != NULL)
            pthread_mutex_unlock(&shared);
    }
    return NULL;
}

static void *allocate_one(void *unused)
{
    (void)unused;
    return hf.malloc(20000);
}

static void *short_threads(void *unused)
{
    (void)unused;
    while (!stop) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, allocate_one, NULL) == 0);
        void *block;
        must(pthread_join(thread, &block) == 0);
        hf.free(block);
    }
    return NULL;
}

static void *fork_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < times(STORM_FORKS); i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 3; k++)
                use_the_heap();
            _exit(0);
        }
        reap(child);
    }
    return NULL;
}

static void simple_prepare(void)
{
    if (armed)
        use_the_heap();
}

static void storm(void *unused)
{
    (void)unused;
    pthread_t threads[STORM_THREADS + 1], forkers[STORM_FORKERS];
    must(pthread_atfork(prepare_locks, afterwards_unlocks, afterwards_unlocks) == 0);
    must(pthread_atfork(simple_prepare, simple_prepare, simple_prepare) == 0);
    load_now(library);
    armed = true;
    for (size_t i = 0; i < STORM_THREADS; i++)
        must(pthread_create(&threads[i], NULL, allocate_always, i == 0 ? &shared : NULL) == 0);
    must(pthread_create(&threads[STORM_THREADS], NULL, short_threads, NULL) == 0);
    for (size_t i = 0; i < STORM_FORKERS; i++)
        must(pthread_create(&forkers[i], NULL, fork_often, NULL) == 0);
    for (size_t i = 0; i < STORM_FORKERS; i++)
        must(pthread_join(forkers[i], NULL) == 0);
    stop = true;
    for (size_t i = 0; i <= STORM_THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

CALL_TEST(handlers_use_the_heap, handlers, NULL)
CALL_TEST(handlers_lock_what_allocating_threads_hold, a_lock_held_by_another_thread, NULL)
CALL_TEST(other_ways_to_start_a_process, vfork_and_spawn, NULL)
CALL_TEST(threads_allocate_and_fork, storm, NULL)

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library, &other_library);
    return RUN_SUITE(handlers_use_the_heap, handlers_lock_what_allocating_threads_hold,
                     other_ways_to_start_a_process, threads_allocate_and_fork);
}
