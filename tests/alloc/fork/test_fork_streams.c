/* One thread flushes all streams, which holds stdio's lock while a stream grows its block on the
 * heap; another one forks, which takes that lock after the prepare handlers. Both must come to an
 * end: the heap used to be locked by then, and each waited for the other. */
#include "late.h"
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char *library;

/* ---- a forced schedule ---- */

static pthread_barrier_t writing, prepared;
static atomic_bool forced;

/* Runs after the heap's prepare handler, because it was registered earlier. */
static void prepare(void)
{
    if (forced)
        pthread_barrier_wait(&prepared);
}

static ssize_t write_when_prepared(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    (void)bytes;
    if (forced) {
        pthread_barrier_wait(&writing);
        pthread_barrier_wait(&prepared);
    }
    use_the_heap();
    return (ssize_t)size;
}

static void *flush_all(void *unused)
{
    (void)unused;
    must(fflush(NULL) == 0);
    return NULL;
}

static void flush_meets_fork(void *unused)
{
    (void)unused;
    pthread_t thread;
    char *text = NULL;
    size_t size = 0;
    must(pthread_barrier_init(&writing, NULL, 2) == 0);
    must(pthread_barrier_init(&prepared, NULL, 2) == 0);
    must(pthread_atfork(prepare, NULL, NULL) == 0);
    load_now(library);
    FILE *memory = hf.open_memstream(&text, &size);
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_when_prepared});
    must(memory != NULL && stream != NULL);
    for (int i = 0; i < 100000; i++)
        must(fputs("0123456789", memory) >= 0);
    must(fputc('x', stream) == 'x');
    pid_t child = fork_beside(&thread, flush_all, &forced, &writing);
    if (child == 0) {
        use_the_heap();
        for (int i = 0; i < 100000; i++)
            must(fputs("0123456789", memory) >= 0);
        must(fclose(memory) == 0 && size == 2000000);
        hf.free(text);
        _exit(0);
    }
    must(pthread_join(thread, NULL) == 0);
    reap(child);
    must(fclose(memory) == 0 && size == 1000000 && memcmp(text + size - 10, "0123456789", 11) == 0);
    hf.free(text);
    fclose(stream);
}

/* ---- many schedules ---- */

enum { WRITERS = 2, FORKS = 60 };
static atomic_bool stop;

static void *write_lines(void *unused)
{
    (void)unused;
    while (!stop) {
        char *text = NULL;
        size_t size = 0;
        FILE *memory = hf.open_memstream(&text, &size);
        must(memory != NULL);
        for (int i = 0; i < 20000; i++)
            must(fprintf(memory, "line %d\n", i) > 0);
        must(fclose(memory) == 0 && memcmp(text, "line 0\nline 1\n", 14) == 0);
        hf.free(text);
    }
    return NULL;
}

static void *flush_always(void *unused)
{
    (void)unused;
    while (!stop)
        must(fflush(NULL) == 0);
    return NULL;
}

static void streams_and_forks(void *unused)
{
    (void)unused;
    pthread_t threads[WRITERS + 1];
    load_now(library);
    for (size_t i = 0; i < WRITERS; i++)
        must(pthread_create(&threads[i], NULL, write_lines, NULL) == 0);
    must(pthread_create(&threads[WRITERS], NULL, flush_always, NULL) == 0);
    for (int i = 0; i < times(FORKS); i++) {
        pid_t child = fork();
        if (child == 0) {
            use_the_heap();
            _exit(0);
        }
        reap(child);
    }
    stop = true;
    for (size_t i = 0; i <= WRITERS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

CALL_TEST(flushing_all_while_forking, flush_meets_fork, NULL)
CALL_TEST(streams_grow_while_forking, streams_and_forks, NULL)

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    return RUN_SUITE(flushing_all_while_forking, streams_grow_while_forking);
}
