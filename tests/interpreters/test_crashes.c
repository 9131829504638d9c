/*
 * A process that crashes in one of its interpreters says in its last line which one it was, what
 * ran there and in which object, and dies by the same signal.
 *
 * usage: test_crashes LIBPYTHON
 */
#include "death.h"
#include "groups.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hf_interpreters *named_group(unsigned count, const char *set_up)
{
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {.size = sizeof options,
                                              .count = count,
                                              .set_up = set_up,
                                              .without_package = true,
                                              .name_crashes = true};
    char why[512] = "?";
    load_python();
    must(hf_interpreters_start(&group, &options, why, sizeof why) == 0);
    return group;
}

/* The end of this program's path, and an offset. */
#define PROGRAM_END "/test-interpreters-crashes+0x"

/* ---- functions that crash ---- */

typedef struct object *function(struct object *self, struct object *arguments);

static struct object *read_null(struct object *self, struct object *arguments)
{
    (void)arguments;
    return *(struct object *volatile *)self; /* which is NULL */
}

static struct object *divide(struct object *self, struct object *arguments)
{
    static volatile int zero;
    (void)self;
    (void)arguments;
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): that is the point
    return (struct object *)(uintptr_t)(7 / zero);
}

static struct object *trap(struct object *self, struct object *arguments)
{
    (void)self;
    (void)arguments;
    __builtin_trap();
}

/* Leaves what looks like a call under way where abort()'s frame will be. */
static __attribute__((noinline)) void litter(const void *address)
{
    const void *volatile stack[128];
    for (size_t i = 0; i < sizeof stack / sizeof stack[0]; i++)
        stack[i] = address;
}

static struct object *call_abort(struct object *self, struct object *arguments)
{
    void (*volatile end)(void) = abort; /* bound now, because binding uses the stack too */
    (void)self;
    (void)arguments;
    litter(__builtin_return_address(0)); /* in CPython */
    end();
    return NULL;
}

static struct object *map_past_end(struct object *self, struct object *arguments)
{
    const int file = memfd_create("empty", 0);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    (void)self;
    (void)arguments;
    return *(struct object *volatile *)page;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int deeper(int depth)
{
    volatile char bytes[4096];
    bytes[0] = (char)depth;
    return depth < 0 ? 0 : deeper(depth + 1) + bytes[0];
}

static struct object *overflow(struct object *self, struct object *arguments)
{
    (void)self;
    (void)arguments;
    return (struct object *)(uintptr_t)deeper(0);
}

/* PyMethodDef */
static struct method {
    const char *name;
    function *call;
    int flags;
    const char *text;
} methods[] = {
    {"read_null", read_null, 4 /* METH_NOARGS */, NULL},
    {"divide", divide, 4, NULL},
    {"trap", trap, 4, NULL},
    {"call_abort", call_abort, 4, NULL},
    {"map_past_end", map_past_end, 4, NULL},
    {"overflow", overflow, 4, NULL},
};

/* Makes the module `crashes` in an interpreter. */
static void add_module(struct hf_interpreters *group, int index)
{
    struct hf_session *session;
    must(hf_session_begin(&session, group, index, 0) == 0);
    must(hf_session_attach(session) == 0);
    struct object *module = PYTHON(struct object *, PyImport_AddModule, (const char *))("crashes");
    must(module != NULL);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        must(PYTHON(int, PyModule_AddObject, (struct object *, const char *, struct object *))(
                 module, methods[i].name,
                 PYTHON(struct object *, PyCFunction_NewEx,
                        (struct method *, struct object *, struct object *))(&methods[i], NULL,
                                                                             NULL)) == 0);
    hf_session_end(session);
}

static void call_in(struct hf_interpreters *group, int index, const char *name)
{
    struct hf_session *session;
    add_module(group, index);
    must(hf_session_begin(&session, group, index, 0) == 0);
    (void)hf_session_call(session, name, NULL, 0, NULL);
}

/* The last line that was written, which must be about the crash. */
static const char *last_line(const struct outcome *outcome)
{
    static char line[sizeof outcome->text];
    memcpy(line, outcome->text, sizeof line);
    size_t length = strlen(line);
    if (length > 0 && line[length - 1] == '\n')
        line[length - 1] = '\0';
    const char *start = strrchr(line, '\n');
    return start != NULL ? start + 1 : line;
}

static void assert_named(const struct outcome *outcome, int number, const char *const *parts)
{
    ck_assert_msg(WIFSIGNALED(outcome->status) && WTERMSIG(outcome->status) == number,
                  "status %#x: %s", (unsigned)outcome->status, outcome->text);
    for (; *parts != NULL; parts++)
        ck_assert_msg(strstr(last_line(outcome), *parts) != NULL, "no \"%s\" in: %s", *parts,
                      outcome->text);
}
#define ASSERT_NAMED(function, number, ...)                   \
    assert_named(outcome_of_call((function), NULL), (number), \
                 (const char *const[]){__VA_ARGS__, NULL})

/* ---- what is named ---- */

static const struct {
    const char *call;
    int number;
    const char *name, *place;
} faults[] = {
    {"crashes:read_null", SIGSEGV, "SIGSEGV", PROGRAM_END},
    {"crashes:map_past_end", SIGBUS, "SIGBUS", PROGRAM_END},
    {"crashes:divide", SIGFPE, "SIGFPE", PROGRAM_END},
    {"crashes:trap", SIGILL, "SIGILL", PROGRAM_END},
    {"crashes:overflow", SIGSEGV, "SIGSEGV", PROGRAM_END},
    {"crashes:call_abort", SIGABRT, "SIGABRT", "libc.so.6+0x"},
};

static void crash(void *which)
{
    call_in(named_group(3, NULL), 1, faults[*(int *)which].call);
}

START_TEST(a_crash_names_interpreter_call_and_object)
{
    assert_named(outcome_of_call(crash, &_i), faults[_i].number,
                 (const char *const[]){"homefree: fatal: ", faults[_i].name, " in interpreter ",
                                       " (index 1 of 3), which ran 'crashes:", faults[_i].call,
                                       faults[_i].place, PROGRAM_END, NULL});
}
END_TEST

/* Py_FatalError() on a thread of C's that the interpreter knows nothing of. */
static void fail_in_python(void *context)
{
    struct hf_session *session;
    (void)context;
    must(hf_session_begin(&session, named_group(2, NULL), 1, 0) == 0);
    must(hf_session_attach(session) == 0);
    must(hf_session_name(session, "host:step") == 0);
    PYTHON(void, Py_FatalError, (const char *))("on purpose");
}

START_TEST(a_fatal_error_of_python_is_named)
{
    ASSERT_NAMED(fail_in_python, SIGABRT, "SIGABRT in interpreter ", "(index 1 of 2)",
                 "which ran 'host:step'", "libpython");
}
END_TEST

/* In this program's own code, which is posted. */
static void write_to_read_only(void *argument)
{
    volatile int *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)argument;
    *page = 1;
}

static void post_a_fault(void *context)
{
    struct hf_interpreters *group = named_group(2, NULL);
    struct hf_interpreter_stats stats = {.size = sizeof stats};
    (void)context;
    must(hf_interpreters_stats(group, 1, &stats) == 0);
    must(hf_interpreters_post(stats.id, write_to_read_only, NULL) == 0);
    for (;;)
        pause();
}

START_TEST(an_owner_thread_names_what_was_posted)
{
    load_python();
    if (is_one_interpreter()) /* where the main one's thread runs it */
        ASSERT_NAMED(post_a_fault, SIGSEGV, "SIGSEGV in the main interpreter; ", PROGRAM_END);
    else
        ASSERT_NAMED(post_a_fault, SIGSEGV, "(index 1 of 2)", "which ran '<posted>'", PROGRAM_END);
}
END_TEST

static void crash_at_end(void *context)
{
    (void)context;
    (void)hf_interpreters_end(
        named_group(2,
                    "import atexit, signal\natexit.register(signal.raise_signal, signal.SIGSEGV)"),
        -1);
}

START_TEST(a_crash_at_the_end_is_named)
{
    load_python();
    if (!is_one_interpreter()) /* whose atexit is not run then */
        ASSERT_NAMED(crash_at_end, SIGSEGV, "SIGSEGV in interpreter ", " of 2), which ran '<end>'");
}
END_TEST

static void crash_at_start(void *context)
{
    (void)context;
    (void)named_group(2, "import signal; signal.raise_signal(signal.SIGSEGV)");
}

START_TEST(a_crash_at_the_start_is_named)
{
    ASSERT_NAMED(crash_at_start, SIGSEGV, "SIGSEGV in interpreter ",
                 "(index 0 of 2), which ran '<start>'");
}
END_TEST

/* A thread that Python started has no session; CPython knows its interpreter. */
static void crash_in_thread(void *context)
{
    (void)context;
    call_in(named_group(2, "import threading\n"
                           "def start():\n"
                           "    import crashes\n"
                           "    thread = threading.Thread(target=crashes.read_null)\n"
                           "    thread.start()\n"
                           "    thread.join()\n"),
            1, "__main__:start");
}

START_TEST(a_thread_of_python_is_named)
{
    load_python();
    if (is_one_interpreter())
        ASSERT_NAMED(crash_in_thread, SIGSEGV, "SIGSEGV in the main interpreter; ");
    else
        ASSERT_NAMED(crash_in_thread, SIGSEGV, "SIGSEGV in interpreter ", "(index 1 of 2); ");
}
END_TEST

static void crash_in_main(void *context)
{
    (void)context;
    (void)named_group(1, NULL);
    PYTHON(int, PyGILState_Ensure, (void))();
    write_to_read_only(NULL);
}

START_TEST(the_main_interpreter_is_named)
{
    ASSERT_NAMED(crash_in_main, SIGSEGV, "SIGSEGV in the main interpreter; ");
}
END_TEST

static void *write_in_thread(void *argument)
{
    write_to_read_only(argument);
    return NULL;
}

static void crash_outside(void *context)
{
    pthread_t thread;
    (void)context;
    (void)named_group(1, NULL);
    must(pthread_create(&thread, NULL, write_in_thread, NULL) == 0);
    (void)pthread_join(thread, NULL);
}

START_TEST(a_thread_outside_is_named)
{
    ASSERT_NAMED(crash_outside, SIGSEGV,
                 "SIGSEGV in a thread that is attached to no interpreter; ");
}
END_TEST

/* ---- nobody asked ---- */

static void crash_unasked(void *context)
{
    struct hf_interpreters_options options = {
        .size = sizeof options, .count = 1, .without_package = true};
    struct hf_interpreters *group = NULL;
    struct sigaction now;
    (void)context;
    load_python();
    must(hf_interpreters_start(&group, &options, NULL, 0) == 0);
    must(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    /* After the last group that asked, everything is as it was. */
    must(hf_interpreters_end(named_group(1, NULL), -1) == 0);
    must(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    call_in(group, 0, "crashes:read_null");
}

START_TEST(without_the_option_nothing_is_said)
{
    const struct outcome *outcome = outcome_of_call(crash_unasked, NULL);
    ck_assert_msg(WIFSIGNALED(outcome->status) && WTERMSIG(outcome->status) == SIGSEGV,
                  "status %#x: %s", (unsigned)outcome->status, outcome->text);
    ck_assert_str_eq(outcome->text, "");
}
END_TEST

/* ---- the host's handlers ---- */

static void write_line(const char *line)
{
    must(write(STDERR_FILENO, line, strlen(line)) == (ssize_t)strlen(line));
}

/* As faulthandler does: it reports, gives the signal back and sends it again. */
static struct sigaction given_back;

static void report(int number)
{
    write_line("the host's handler\n");
    must(sigaction(number, &given_back, NULL) == 0);
    (void)raise(number);
}

static void install_report(int flags)
{
    struct sigaction action = {.sa_handler = report, .sa_flags = flags};
    must(sigaction(SIGSEGV, &action, &given_back) == 0);
}

static void host_before(void *flags)
{
    install_report(*(int *)flags);
    call_in(named_group(2, NULL), 1, "crashes:read_null");
}

static void host_later(void *flags)
{
    struct hf_interpreters *group = named_group(2, NULL);
    install_report(*(int *)flags);
    call_in(group, 1, "crashes:read_null");
}

START_TEST(a_handler_of_the_host_is_called_too)
{
    static void (*const orders[])(void *) = {host_before, host_later};
    static const int flags[] = {0, SA_NODEFER};
    const struct outcome *outcome =
        outcome_of_call(orders[_i % 2], (void *)(uintptr_t)&flags[_i / 2]);
    assert_named(outcome, SIGSEGV,
                 (const char *const[]){"(index 1 of 2)", "'crashes:read_null'",
                                       "the instruction is at ", PROGRAM_END, NULL});
    ck_assert_ptr_nonnull(strstr(outcome->text, "the host's handler\nhomefree: "));
    ck_assert_ptr_null(strstr(strstr(outcome->text, "homefree: ") + 1, "homefree: "));
}
END_TEST

/* CPython's own, in both orders. */
static void faulthandler_before(void *context)
{
    (void)context;
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    must(PYTHON(int, PyRun_SimpleString, (const char *))("import faulthandler; "
                                                         "faulthandler.enable()") == 0);
    struct hf_interpreters *group = named_group(2, NULL);
    PYTHON(void *, PyEval_SaveThread, (void))();
    call_in(group, 1, "crashes:read_null");
}

static void faulthandler_later(void *context)
{
    struct hf_interpreters *group = named_group(2, NULL);
    (void)context;
    PYTHON(int, PyGILState_Ensure, (void))();
    must(PYTHON(int, PyRun_SimpleString, (const char *))("import faulthandler; "
                                                         "faulthandler.enable()") == 0);
    PYTHON(void *, PyEval_SaveThread, (void))();
    call_in(group, 1, "crashes:read_null");
}

START_TEST(faulthandler_is_called_too)
{
    static void (*const orders[])(void *) = {faulthandler_before, faulthandler_later};
    const struct outcome *outcome = outcome_of_call(orders[_i], NULL);
    assert_named(outcome, SIGSEGV,
                 (const char *const[]){"(index 1 of 2)", "'crashes:read_null'",
                                       "the instruction is at ", PROGRAM_END, NULL});
    ck_assert_ptr_nonnull(strstr(outcome->text, "Fatal Python error: Segmentation fault"));
}
END_TEST

/* A handler that mends the fault: the process lives, and nothing is said. */
static char *guarded;

static void mend(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    must(mprotect(guarded, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void write_guarded(void *argument)
{
    *(volatile char *)argument = 1;
}

static void mend_faults(void *context)
{
    struct sigaction action = {.sa_sigaction = mend, .sa_flags = SA_SIGINFO};
    (void)context;
    guarded = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(guarded != MAP_FAILED && sigaction(SIGSEGV, &action, NULL) == 0);
    struct hf_interpreters *group = named_group(1, NULL);
    struct hf_session *session;
    must(hf_session_begin(&session, group, 0, 0) == 0 && hf_session_attach(session) == 0);
    for (int i = 0; i < 3; i++) {
        must(mprotect(guarded, 4096, PROT_READ) == 0);
        write_guarded(guarded);
    }
    hf_session_end(session);
    must(hf_interpreters_end(group, -1) == 0);
    struct sigaction now;
    must(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == mend);
}

START_TEST(a_handler_that_mends_the_fault_has_the_last_word)
{
    const struct outcome *outcome = outcome_of_call(mend_faults, NULL);
    assert_succeeds(outcome);
    ck_assert_str_eq(outcome->text, "");
}
END_TEST

/* ---- what hangs ---- */

static void *call_sleep(void *argument)
{
    call_in(argument, 0, "time:sleep_for_ever");
    return NULL;
}

static void hang(void *context)
{
    pthread_t thread;
    struct hf_interpreter_stats stats = {.size = sizeof stats};
    struct hf_interpreters *group = named_group(
        1, "import time, select\ntime.sleep_for_ever = lambda: select.select([], [], [])");
    (void)context;
    must(pthread_create(&thread, NULL, call_sleep, group) == 0);
    do {
        must(hf_interpreters_stats(group, 0, &stats) == 0);
        sched_yield();
    } while (stats.runs[0] == '\0');
    must(hf_interpreters_end(group, 50) == -ETIMEDOUT);
    must(hf_interpreters_stats(group, 0, &stats) == 0);
    must(stats.state == HF_INTERPRETER_HUNG);
    must(strcmp(stats.runs, "time:sleep_for_ever") == 0);
    _exit(0);
}

START_TEST(what_hangs_is_named)
{
    assert_succeeds(outcome_of_call(hang, NULL));
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    TCase *named = NEW_CASE(
        "named", a_fatal_error_of_python_is_named, an_owner_thread_names_what_was_posted,
        a_crash_at_the_end_is_named, a_crash_at_the_start_is_named, a_thread_of_python_is_named,
        the_main_interpreter_is_named, a_thread_outside_is_named, what_hangs_is_named);
    tcase_add_loop_test(named, a_crash_names_interpreter_call_and_object, 0,
                        sizeof faults / sizeof faults[0]);
    TCase *host = NEW_CASE("the host", without_the_option_nothing_is_said,
                           a_handler_that_mends_the_fault_has_the_last_word);
    tcase_add_loop_test(host, a_handler_of_the_host_is_called_too, 0, 4);
    tcase_add_loop_test(host, faulthandler_is_called_too, 0, 2);
    return RUN_CASES(__FILE__, named, host);
}
