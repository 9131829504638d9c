/* While the process forks, a free that needs a lock waits. Nothing of that is in the freed block: a
 * write after free reaches nothing that the heap relies on, a second free is found at once, and a
 * watch learns of the first. */
#include "late.h"
#include "suite.h"

#include <homefree/watch.h>
#include <signal.h>

enum { LARGE = 20, SMALL = 200, LARGE_SIZE = 200000, SMALL_SIZE = 40 };

static const char *library;
static void (*in_prepare)(void);
static char *large[LARGE], *small[SMALL], *empty;

static void prepare(void)
{
    if (in_prepare != NULL)
        in_prepare();
}

static void begin(void (*free_them)(void))
{
    must(pthread_atfork(prepare, NULL, NULL) == 0);
    load_now(library);
    for (size_t i = 0; i < LARGE; i++)
        must((large[i] = hf.malloc(LARGE_SIZE)) != NULL);
    in_prepare = free_them;
}

static void fork_and_use(void)
{
    pid_t child = fork();
    if (child < 0)
        return;
    in_prepare = NULL;
    for (size_t i = 0; i < LARGE; i++)
        must((large[i] = hf.malloc(LARGE_SIZE)) != NULL && hf.owns(large[i]));
    use_the_heap();
    for (size_t i = 0; i < LARGE; i++)
        hf.free(large[i]);
    if (child == 0)
        _exit(0);
    reap(child);
}

/* In the hardened tier, nobody may touch what is at its address. */
static void free_empty(void)
{
    hf.free(empty);
}

static void freed_empty(void *unused)
{
    (void)unused;
    begin(free_empty);
    must((empty = hf.aligned_alloc(1 << 21, 0)) != NULL);
    fork_and_use();
}

static void free_and_write(void)
{
    for (size_t i = 0; i < LARGE; i++) {
        hf.free(large[i]);
        memset(large[i], 0x55, 64);
    }
}

static void written(void *unused)
{
    (void)unused;
    begin(free_and_write);
    fork_and_use();
}

static void free_twice(void)
{
    hf.free(large[0]);
    hf.free(large[0]);
}

static void freed_twice(void *unused)
{
    (void)unused;
    begin(free_twice);
    fork_and_use();
}

static void free_again(void)
{
    hf.free(large[0]);
}

static void freed_before(void *unused)
{
    (void)unused;
    begin(free_again);
    hf.free(large[0]);
    fork_and_use();
}

static void free_and_resize(void)
{
    hf.free(large[0]);
    (void)!hf.realloc(large[0], 2 * LARGE_SIZE);
}

static void resized(void *unused)
{
    (void)unused;
    begin(free_and_resize);
    fork_and_use();
}

static void free_all(void)
{
    free_and_write();
    for (size_t i = 0; i < SMALL; i++) {
        hf.free(small[i]);
        memset(small[i], 0x55, SMALL_SIZE);
    }
}

static uint64_t frees_seen(struct hf_watch *watch, void *handle)
{
    int (*end)(struct hf_watch *) = (int (*)(struct hf_watch *))dlsym(handle, "hf_watch_end");
    int (*report)(struct hf_watch *, struct hf_watch_report *, void *, void *) =
        (int (*)(struct hf_watch *, struct hf_watch_report *, void *, void *))dlsym(
            handle, "hf_watch_report");
    struct hf_watch_report seen = {.size = sizeof seen};
    must(end(watch) == 0 && report(watch, &seen, NULL, NULL) == 0);
    return seen.frees;
}

static void watched(void *unused)
{
    (void)unused;
    struct hf_watch *watch;
    begin(free_all);
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    int (*open)(struct hf_watch **, size_t) =
        (int (*)(struct hf_watch **, size_t))dlsym(handle, "hf_watch_begin");
    for (size_t i = 0; i < SMALL; i++)
        must((small[i] = hf.malloc(SMALL_SIZE)) != NULL);
    must(open(&watch, 10000) == 0);
    pid_t child = fork();
    in_prepare = NULL;
    must(frees_seen(watch, handle) == LARGE + SMALL);
    use_the_heap();
    if (child == 0)
        _exit(0);
    reap(child);
}

CALL_TEST(a_large_block_of_no_bytes_is_not_touched, freed_empty, NULL)
CALL_TEST(a_write_after_free_reaches_nothing, written, NULL)
CALL_TEST(a_watch_learns_of_it, watched, NULL)

START_TEST(a_second_free_is_found_at_once)
{
    assert_killed(outcome_of_call(freed_twice, NULL), SIGABRT, "double free");
}
END_TEST

START_TEST(one_that_was_free_before_the_fork_is_found_at_once)
{
    assert_killed(outcome_of_call(freed_before, NULL), SIGABRT, "double free");
}
END_TEST

START_TEST(a_later_realloc_is_found_at_once)
{
    assert_killed(outcome_of_call(resized, NULL), SIGABRT, "is free already");
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    return RUN_SUITE(a_large_block_of_no_bytes_is_not_touched, a_write_after_free_reaches_nothing,
                     a_watch_learns_of_it, a_second_free_is_found_at_once,
                     one_that_was_free_before_the_fork_is_found_at_once,
                     a_later_realloc_is_found_at_once);
}
