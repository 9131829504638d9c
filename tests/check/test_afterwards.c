/* While nobody watches, nothing is slower: a thread that a watch has sent into the slow path, and a
 * module whose slots it has changed, execute as few instructions afterwards as before. Counted, not
 * timed: the process is a child that is stepped through. */
#include "module.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static struct module module;

enum { PAIRS = 16 };

static void pairs(void)
{
    for (int i = 0; i < PAIRS; i++)
        module.drop(module.make(100));
}

static void begin_and_end(struct hf_watch **watch)
{
    if (hf_watch_begin(watch, 0) != 0 || hf_watch_end(*watch) != 0)
        _exit(1);
}

enum state { NEVER, WATCHED, AFTERWARDS };

static void be_counted(enum state state)
{
    struct hf_watch *watch = NULL;
    pairs();
    if (state == AFTERWARDS)
        begin_and_end(&watch);
    if (state == WATCHED && hf_watch_begin(&watch, 0) != 0)
        _exit(1);
    pairs(); /* takes one more slow path, which opens the fast paths again */
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(SKIPPED);
    raise(SIGSTOP);
    pairs();
    raise(SIGSTOP);
    _exit(0);
}

/* Returns the number of instructions between the two stops; 0 if processes may not be traced. */
static unsigned long instructions(enum state state)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        be_counted(state);
    int status;
    unsigned long count = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
        ck_assert_int_eq(WEXITSTATUS(status), SKIPPED);
        return 0;
    }
    ck_assert_int_eq(WSTOPSIG(status), SIGSTOP);
    do {
        ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSTOPPED(status));
        count++;
    } while (WSTOPSIG(status) != SIGSTOP);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return count;
}

START_TEST(as_fast_as_before)
{
    unsigned long never = instructions(NEVER);
    if (never == 0)
        return;
    unsigned long afterwards = instructions(AFTERWARDS), watched = instructions(WATCHED);
    /* One of jemalloc's events may fall into one run and not into the other. */
    ck_assert_uint_le(afterwards, never + never / 20);
    ck_assert_uint_ge(watched, 2 * never);
}
END_TEST

int main(int count, char **arguments)
{
    const char *path;
    TAKE_ARGUMENTS(&path);
    module = load_module(path);
    return RUN_SUITE(as_fast_as_before);
}
