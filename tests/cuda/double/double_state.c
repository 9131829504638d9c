/*
 * The double of CUDA: its lock, the failures that tests ask for, and the counters of calls. See
 * double.h.
 */
#include "control.h"
#include "double.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FUNCTIONS_MAX = 256, FAILURES_MAX = 256, NAME_MAX_ = 64 };

struct function {
    char name[NAME_MAX_]; /* without _v2 */
    unsigned long calls;
};
struct failure {
    char name[NAME_MAX_]; /* "" if the entry is free */
    unsigned long at;     /* the call that fails; 0: all do */
    int error;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct function functions[FUNCTIONS_MAX];
static struct failure failures[FAILURES_MAX];
static size_t function_count;
static unsigned fault_count;
static bool is_unloading;
static pid_t process;

unsigned long long double_sequence;

void double_lock(void)
{
    pthread_mutex_lock(&lock);
    double_read_environment();
}

void double_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void double_broken(const char *what)
{
    fprintf(stderr, "double of CUDA: %s\n", what);
    abort();
}

void double_fault(const char *what, uintptr_t at, size_t size)
{
    fault_count++;
    fprintf(stderr, "double of CUDA: fault: %s at %#zx, %zu bytes\n", what, (size_t)at, size);
}

unsigned double_faults(void)
{
    double_lock();
    const unsigned count = fault_count;
    double_unlock();
    return count;
}

/* ---- functions ---- */

static void plain_name(const char *name, char out[NAME_MAX_])
{
    size_t length = strlen(name);
    if (length > 3 && strcmp(name + length - 3, "_v2") == 0)
        length -= 3;
    if (length >= NAME_MAX_)
        double_broken("a function's name is too long");
    memcpy(out, name, length);
    out[length] = '\0';
}

static struct function *function_of(const char *name)
{
    char plain[NAME_MAX_];
    plain_name(name, plain);
    for (size_t i = 0; i < function_count; i++)
        if (strcmp(functions[i].name, plain) == 0)
            return &functions[i];
    if (function_count == FUNCTIONS_MAX)
        double_broken("too many functions");
    memcpy(functions[function_count].name, plain, sizeof plain);
    return &functions[function_count++];
}

/* Counts a call; the error that was asked for, or 0. */
static int count_call(const char *name)
{
    struct function *function = function_of(name);
    int error = 0;
    function->calls++;
    for (size_t i = 0; i < FAILURES_MAX; i++) {
        struct failure *failure = &failures[i];
        if (strcmp(failure->name, function->name) != 0 ||
            (failure->at != 0 && failure->at != function->calls))
            continue;
        error = failure->error;
        if (failure->at != 0)
            failure->name[0] = '\0';
    }
    return error;
}

/* Those that work without cuInit(), and in a context that is lost. */
static bool is_harmless(const char *function)
{
    static const char *const harmless[] = {"cuInit",
                                           "cuGetErrorName",
                                           "cuDriverGetVersion",
                                           "cudaGetLastError",
                                           "cudaPeekAtLastError",
                                           "cudaRuntimeGetVersion",
                                           "cudaDriverGetVersion",
                                           "cudaGetDeviceCount",
                                           "cudaDeviceReset"};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strcmp(harmless[i], function) == 0)
            return true;
    return false;
}

int double_enter(const char *function, const char *alias)
{
    double_lock();
    int error = count_call(function);
    const int other = alias != NULL ? count_call(alias) : 0;
    const bool harmless = is_harmless(function);
    error = error != 0 ? error : other;
    if (process == 0)
        process = getpid();
    if (error == 0 && is_unloading)
        error = UNLOADING;
    if (error == 0 && !harmless && (!double_is_initialised || process != getpid()))
        error = NOT_INITIALIZED;
    if (error == 0 && !harmless && double_top() != NULL)
        error = double_top()->lost;
    return error;
}

int double_leave(int error)
{
    double_unlock();
    errno = ENOTTY; /* the driver's calls of the system leave theirs */
    return error;
}

/* ---- control.h ---- */

static void add_failure(const char *function, unsigned nth, int error)
{
    double_lock();
    const struct function *known = function_of(function);
    for (size_t i = 0; i < FAILURES_MAX; i++)
        if (failures[i].name[0] == '\0') {
            failures[i].at = nth == 0 ? 0 : known->calls + nth;
            failures[i].error = error;
            memcpy(failures[i].name, known->name, sizeof failures[i].name);
            double_unlock();
            return;
        }
    double_broken("too many failures are asked for");
}

void double_fail(const char *function, unsigned nth, int error)
{
    if (nth == 0)
        double_broken("calls are counted from 1");
    add_failure(function, nth, error);
}

void double_fail_always(const char *function, int error)
{
    add_failure(function, 0, error);
}

void double_forget_failures(void)
{
    double_lock();
    memset(failures, 0, sizeof failures);
    double_unlock();
}

unsigned long double_calls(const char *function)
{
    double_lock();
    const unsigned long calls = function_of(function)->calls;
    double_unlock();
    return calls;
}

void double_unload(void)
{
    double_lock();
    is_unloading = true;
    double_unlock();
}

/* ---- the end of the process ---- */

static __attribute__((destructor)) void check_at_exit(void)
{
    struct double_live live;
    const char *wanted = getenv("DOUBLE_CUDA_AT_EXIT");
    if (wanted == NULL || strcmp(wanted, "1") != 0 || process != getpid() ||
        double_leaks(&live) == 0)
        return;
    fprintf(stderr,
            "double of CUDA: live at exit: %zu blocks, %zu reserved ranges, %zu mappings, %zu "
            "handles, %zu host blocks, %zu registered, %zu streams, %zu events, %zu graphs\n",
            live.blocks, live.reserved, live.mapped, live.handles, live.host, live.registered,
            live.streams, live.events, live.graphs);
    _exit(86);
}
