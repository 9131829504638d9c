/* A watch that begins while another thread forks sees what is allocated after it has begun. While a
 * fork is under way it cannot be carried out that all threads leave the fast paths; hf_watch_begin
 * came back all the same, and what followed was not recorded.
 *
 *   test_watch_begins LIBRARY: loaded late, so that the prepare step here runs after the heap's */
#include "death.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 100 };

static const char *library;
static pthread_barrier_t closed, watched;
static bool forced;
static int recorded;

static void prepare(void)
{
    if (forced)
        pthread_barrier_wait(&closed);
}

static struct {
    void *(*malloc)(size_t size);
    void (*free)(void *ptr);
    int (*begin)(struct hf_watch **out, size_t capacity);
    int (*report)(struct hf_watch *watch, struct hf_watch_report *out, hf_crossing_visitor *visit,
                  void *context);
    void (*drop)(struct hf_watch *watch);
} hf;

static void *watch(void *unused)
{
    for (int i = 0; i < times(ROUNDS); i++) {
        struct hf_watch *watch;
        struct hf_watch_report report = {.size = sizeof report};
        hf.free(hf.malloc(100)); /* takes the fast path from now on */
        pthread_barrier_wait(&closed);
        must(hf.begin(&watch, 1000) == 0);
        void *block = hf.malloc(100);
        must(hf.report(watch, &report, NULL, NULL) == 0 && report.size != 0);
        recorded += report.allocations > 0;
        hf.drop(watch);
        hf.free(block);
        pthread_barrier_wait(&watched);
    }
    return unused;
}

static void watch_while_forking(void *unused)
{
    pthread_t thread;
    int status;
    (void)unused;
    must(pthread_barrier_init(&closed, NULL, 2) == 0 &&
         pthread_barrier_init(&watched, NULL, 2) == 0);
    must(pthread_atfork(prepare, NULL, NULL) == 0);
    void *handle = dlopen(library, RTLD_NOW);
    must((*(void **)&hf.malloc = dlsym(handle, "hf_malloc")) != NULL);
    must((*(void **)&hf.free = dlsym(handle, "hf_free")) != NULL);
    must((*(void **)&hf.begin = dlsym(handle, "hf_watch_begin")) != NULL);
    must((*(void **)&hf.report = dlsym(handle, "hf_watch_report")) != NULL);
    must((*(void **)&hf.drop = dlsym(handle, "hf_watch_drop")) != NULL);
    forced = true;
    must(pthread_create(&thread, NULL, watch, NULL) == 0);
    for (int i = 0; i < times(ROUNDS); i++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0)
            _exit(0);
        must(waitpid(child, &status, 0) == child && status == 0);
        pthread_barrier_wait(&watched); /* events during the fork are lost */
    }
    must(pthread_join(thread, NULL) == 0);
    must(recorded == times(ROUNDS));
}

START_TEST(a_watch_that_has_begun_records)
{
    struct outcome outcome;
    outcome_of_function(&outcome, watch_while_forking, NULL);
    assert_exited(&outcome, 0, 0, "");
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    return RUN_SUITE(a_watch_that_has_begun_records);
}
