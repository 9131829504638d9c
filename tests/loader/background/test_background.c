/*
 * The thread that gives back what an idle process does not use (homefree/pressure.h): when there is
 * one, what it does to memory, and that fork, exit and a system that has no thread left find it
 * harmless.
 */
#include "../../alloc/refuse.h"
#include "death.h"
#include "process.h"
#include "suite.h"

#include <dirent.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* ---- what /proc tells ---- */

static size_t resident(void)
{
    char text[128], *rest;
    FILE *statm = fopen("/proc/self/statm", "re");
    must(statm != NULL && fgets(text, sizeof text, statm) != NULL && fclose(statm) == 0);
    (void)strtoul(text, &rest, 10);
    return strtoul(rest, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* A line of a thread's status; "" without one. */
static const char *status_of(const char *thread, const char *name)
{
    static char line[512];
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *file = fopen(path, "re");
    must(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0) {
            (void)fclose(file);
            return line + strlen(name);
        }
    (void)fclose(file);
    return "";
}

/* How many threads of homefree's own there are; `id` is that of one. */
static unsigned own_threads(char id[32])
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    must(tasks != NULL);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
        if (task->d_name[0] != '.' &&
            strcmp(status_of(task->d_name, "Name:\t"), "homefree\n") == 0) {
            (void)snprintf(id, 32, "%s", task->d_name);
            count++;
        }
    (void)closedir(tasks);
    return count;
}

static uint64_t milliseconds(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Looks again and again, for ten seconds at most. */
static bool comes_true(bool (*condition)(size_t argument), size_t argument)
{
    const uint64_t until = milliseconds() + 10000;
    const struct timespec pause = {.tv_nsec = 20000000};
    while (!condition(argument))
        if (milliseconds() >= until)
            return false;
        else
            (void)nanosleep(&pause, NULL);
    return true;
}

static bool is_resident_below(size_t bytes)
{
    return resident() < bytes;
}

static bool has_own_threads(size_t count)
{
    char id[32];
    return own_threads(id) == count;
}

/* ---- memory ---- */

/* Leaves at least 12 MB behind, of blocks that were freed on fast paths: until some windows of time
 * have passed, nobody knows that they are many. */
static void leave_unused(size_t from)
{
    enum { SIZE = 4000, COUNT = 4096 };
    static void *blocks[COUNT];
    for (int tries = 0; tries < 50; tries++) {
        for (size_t i = 0; i < COUNT; i++)
            memset(blocks[i] = hf_malloc(SIZE), 1, SIZE);
        for (size_t i = 0; i < COUNT; i++)
            hf_free(blocks[i]);
        if (resident() > from + 12 * MIB)
            return;
    }
    must(false);
}

static void be_idle(void *unused)
{
    (void)unused;
    const size_t from = resident();
    leave_unused(from);
    must(hf_background_start() == 0);
    must(comes_true(is_resident_below, from + 3 * MIB));
}

CALL_TEST(an_idle_process_gives_back, be_idle, NULL)

static void be_busy(void *unused)
{
    (void)unused;
    must(hf_background_start() == 0);
    const uint64_t until = milliseconds() + 1500;
    const size_t from = resident();
    leave_unused(from);
    void *volatile large = NULL;
    while (milliseconds() < until) { /* takes slow paths all the time, and 4 MB */
        memset(large = hf_malloc(4 * MIB), 1, 4 * MIB);
        hf_free(large);
    }
    must(comes_true(is_resident_below, from + 3 * MIB));
}

CALL_TEST(a_busy_one_gives_back_afterwards, be_busy, NULL)

/* Every 16th block stays, so that each span has some; from then on, every call is a fast one. */
enum { PAGES = 2000, SPREAD = 4096, EVERY = 16 };
static unsigned char *spread[SPREAD];

static bool is_resident_below_for_one_that_works(size_t bytes)
{
    void *volatile block = hf_malloc(100);
    hf_free(block);
    return is_resident_below(bytes);
}

static void go_on(void *unused)
{
    (void)unused;
    const size_t from = resident();
    for (size_t i = 0; i < SPREAD; i++)
        memset(spread[i] = hf_malloc(PAGES), (int)i, PAGES);
    for (size_t i = 0; i < SPREAD; i++)
        if (i % EVERY != 0)
            hf_free(spread[i]);
    must(resident() > from + 7 * MIB);
    must(hf_background_start() == 0);
    must(comes_true(is_resident_below_for_one_that_works, from + 4 * MIB));
    for (size_t i = 0; i < SPREAD; i += EVERY)
        for (size_t at = 0; at < PAGES; at++)
            must(spread[i][at] == (unsigned char)i);
}

CALL_TEST(a_thread_gives_back_between_its_blocks, go_on, NULL)

/* ---- the thread ---- */

static void look_at_it(void *unused)
{
    (void)unused;
    char id[32] = "";
    hf_free(hf_malloc(1000000));
    must(own_threads(id) == 0);
    for (int i = 0; i < 2; i++)
        must(hf_background_start() == 0);
    must(comes_true(has_own_threads, 1) && own_threads(id) == 1);
    /* All but SIGKILL, SIGSTOP, and the two that libc keeps for itself. */
    must(strtoull(status_of(id, "SigBlk:\t"), NULL, 16) == 0xfffffffe7ffbfeff);
}

CALL_TEST(there_is_one_thread_if_asked_for, look_at_it, NULL)

static void fork_with_it(void *unused)
{
    int status;
    (void)unused;
    must(hf_background_start() == 0 && comes_true(has_own_threads, 1));
    const pid_t child = fork();
    if (child == 0) {
        char id[32];
        if (own_threads(id) != 0)
            _exit(1);
        const size_t from = resident();
        leave_unused(from);
        const uint64_t until = milliseconds() + 10000;
        while (own_threads(id) == 0 && milliseconds() < until)
            hf_free(hf_malloc(MIB));
        _exit(own_threads(id) != 1 || !comes_true(is_resident_below, from + 3 * MIB) ? 2 : 0);
    }
    must(child > 0 && waitpid(child, &status, 0) == child);
    must(status == 0);
    must(has_own_threads(1));
}

CALL_TEST(a_forked_child_starts_its_own, fork_with_it, NULL)

static void *fork_and_wait(void *unused)
{
    for (int i = 0; i < 20; i++) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < 20; j++)
                hf_free(hf_malloc(MIB));
            exit(hf_background_start() != 0);
        }
        must(child > 0 && waitpid(child, &status, 0) == child);
        must(status == 0);
    }
    return unused;
}

static void fork_in_threads(void *unused)
{
    (void)unused;
    pthread_t threads[4];
    must(hf_background_start() == 0);
    for (size_t i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, fork_and_wait, NULL) == 0);
    for (size_t i = 0; i < 4; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

CALL_TEST(threads_that_fork_do_not_wait_for_it, fork_in_threads, NULL)

static void end_first_thread(void *unused)
{
    (void)unused;
    must(hf_background_start() == 0);
    pthread_exit(NULL);
}

CALL_TEST(it_does_not_outlive_all_others, end_first_thread, NULL)

static void have_no_thread_left(void *unused)
{
    (void)unused;
    refuse((const unsigned[]){SYS_clone, SYS_clone3, 0});
    for (int i = 0; i < 2; i++)
        must(hf_background_start() == -EAGAIN);
    leave_unused(resident());
    must(hf_trim(NULL, NULL) == 0);
}

START_TEST(a_system_without_another_thread_is_told_once)
{
    const struct outcome *outcome = outcome_of_call(have_no_thread_left, NULL);
    ck_assert_msg(outcome->status == 0, "%s", outcome->text);
    const char *said = strstr(outcome->text, "homefree: cannot start the thread");
    ck_assert_msg(said != NULL && strchr(said, '\n')[1] == '\0', "%s", outcome->text);
}
END_TEST

/* ---- options ---- */

static int report(void)
{
    hf_free(hf_malloc(1000000));
    const int error = hf_background_start();
    const struct timespec pause = {.tv_nsec = 50000000};
    char id[32];
    for (int i = 0; i < 20 && own_threads(id) == 0 && error == 0; i++)
        (void)nanosleep(&pause, NULL);
    return error == -EPERM ? 10 : own_threads(id) == 1 ? 11 : 12;
}

static int report_without_a_call(void)
{
    return comes_true(has_own_threads, 1) ? 11 : 12;
}

START_TEST(an_option_starts_it)
{
    const struct outcome *outcome = OUTCOME_OF_SELF("HOMEFREE_CONF=background:on", "as-it-is");
    ck_assert_msg(WEXITSTATUS(outcome->status) == 11, "%s", outcome->text);
    outcome = OUTCOME_OF_SELF("HOMEFREE_CONF=pressure:90", "as-it-is");
    ck_assert_msg(WEXITSTATUS(outcome->status) == 11, "%s", outcome->text);
}
END_TEST

START_TEST(an_option_forbids_it)
{
    const struct outcome *outcome = OUTCOME_OF_SELF("HOMEFREE_CONF=background:off", "asks");
    ck_assert_msg(WEXITSTATUS(outcome->status) == 10, "%s", outcome->text);
    outcome = OUTCOME_OF_SELF("HOMEFREE_CONF=background:off,pressure:90", "asks");
    ck_assert_msg(WEXITSTATUS(outcome->status) == 10, "%s", outcome->text);
}
END_TEST

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "asks") == 0)
        return report();
    if (count == 2 && strcmp(arguments[1], "as-it-is") == 0)
        return report_without_a_call();
    return RUN_SUITE(an_idle_process_gives_back, a_busy_one_gives_back_afterwards,
                     a_thread_gives_back_between_its_blocks, there_is_one_thread_if_asked_for,
                     a_forked_child_starts_its_own, threads_that_fork_do_not_wait_for_it,
                     it_does_not_outlive_all_others, a_system_without_another_thread_is_told_once,
                     an_option_starts_it, an_option_forbids_it);
}
