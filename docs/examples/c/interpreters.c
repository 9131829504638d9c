/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/interpreters.h>, as alloc/manual/pages.py takes them. */
#include <homefree/interpreters.h>

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Whether calls can run at the same time here, and how. */
static bool can_run(void)
{
    char why[200];
    int engine = hf_interpreters_engine(why, sizeof why);
    if (engine < 0)
        fprintf(stderr, "no interpreters: %s\n", why);
    return engine == HF_ENGINE_OWN_GIL || engine == HF_ENGINE_THREADS;
}

/* Two interpreters, with a function in the __main__ of each. */
static struct hf_interpreters *start(void)
{
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {.size = sizeof options,
                                              .count = 2,
                                              .set_up = "def double(number):\n"
                                                        "    return 2 * number\n"};
    char why[500];
    if (hf_interpreters_start(&group, &options, why, sizeof why) != 0)
        fprintf(stderr, "%s\n", why);
    return group;
}

static int end(struct hf_interpreters *group)
{
    int error = hf_interpreters_end(group, 10000);
    if (error != 0)
        fprintf(stderr, "a call still runs: %s\n", strerror(-error));
    return error;
}

/* A call in whichever interpreter is free. */
static int64_t twice(struct hf_interpreters *group, int64_t number)
{
    struct hf_value argument = {.kind = HF_VALUE_INT, .as.integer = number}, result = {0};
    int error = hf_interpreters_call(group, "__main__:double", &argument, 1, &result);
    if (result.kind == HF_VALUE_ERROR)
        fprintf(stderr, "%s", result.as.error->traceback);
    int64_t answer = error == 0 && result.kind == HF_VALUE_INT ? result.as.integer : -1;
    hf_value_clear(&result);
    return answer;
}

/* Several calls in one interpreter: what the first leaves there, the second finds. */
static int64_t counted(struct hf_interpreters *group)
{
    struct hf_session *session = NULL;
    if (hf_session_begin(&session, group, -1, 0) != 0)
        return -1;
    printf("in interpreter %u\n", hf_session_index(session));
    struct hf_value problem = {0}, result = {0};
    const char *source = "seen = [1, 2, 3]\n"
                         "def count(): return len(seen)\n";
    int error = hf_session_run(session, source, &problem);
    if (error == 0)
        error = hf_session_call(session, "__main__:count", NULL, 0, &result);
    int64_t count = error == 0 && result.kind == HF_VALUE_INT ? result.as.integer : -1;
    hf_value_clear(&problem);
    hf_value_clear(&result);
    hf_session_end(session);
    return count;
}

/* CPython's own API in an interpreter; the name is for statistics and for the line of a crash. */
static int64_t attached(struct hf_interpreters *group, int (*use_api)(const char *source))
{
    struct hf_session *session = NULL;
    if (hf_session_begin(&session, group, 0, 0) != 0)
        return -1;
    int64_t number = -1;
    if (hf_session_attach(session) == 0) {
        int error = hf_session_name(session, "a first look");
        number = hf_interpreter_current();
        if (use_api("import sys") != 0) /* PyRun_SimpleString(), for example */
            number = -1;
        if (hf_session_detach(session) != 0 || error != 0)
            number = -1;
    }
    hf_session_end(session);
    return number;
}

/* What there is, and what it did. */
static void show(struct hf_interpreters *group)
{
    for (unsigned i = 0; i < hf_interpreters_count(group); i++) {
        struct hf_interpreter_stats stats = {.size = sizeof stats};
        int error = hf_interpreters_stats(group, i, &stats);
        assert(error == 0 && stats.calls > 0);
        printf("interpreter %" PRId64 ": %" PRIu64 " calls\n", stats.id, stats.calls);
    }
    struct hf_interpreters_counts counts = {.size = sizeof counts};
    int error = hf_interpreters_totals(&counts);
    assert(error == 0 && counts.running >= 2);
    printf("%u run, %" PRIu64 " were made\n", counts.running, counts.made);
}

/* An object of an interpreter that C keeps: the interpreter stays until it was released there. */
struct kept {
    int64_t interpreter;
    void *object;
    void (*release)(void *object); /* Py_DecRef() */
};

static int keep(struct kept *kept)
{
    kept->interpreter = hf_interpreter_current();
    return hf_interpreters_hold(kept->interpreter);
}

static void release(void *argument) /* attached to the interpreter */
{
    struct kept *kept = argument;
    kept->release(kept->object);
    hf_interpreters_unhold(kept->interpreter);
}

static int let_go(struct kept *kept) /* on any thread */
{
    return hf_interpreters_post(kept->interpreter, release, kept);
}

/* Before Py_FinalizeEx(), which ends the process if interpreters are left. */
static int finish(int (*finalize)(void))
{
    int error = hf_interpreters_finish(10000);
    return error != 0 ? error : finalize();
}

static int released;

static void count_release(void *object)
{
    released += *(int *)object;
}

static void keep_and_let_go(struct hf_interpreters *group)
{
    struct hf_session *session = NULL;
    int one = 1, error = hf_session_begin(&session, group, 0, 0);
    assert(error == 0 && hf_session_index(session) == 0 && hf_session_attach(session) == 0);
    struct kept kept = {.object = &one, .release = count_release};
    error = keep(&kept);
    assert(error == 0);
    hf_session_end(session);
    error = let_go(&kept);
    assert(error == 0);
    error = hf_session_begin(&session, group, 0, 0);
    assert(error == 0);
    error = hf_session_run(session, "pass", NULL); /* attaching runs what was posted */
    assert(error == 0);
    hf_session_end(session);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    void *python = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    assert(python != NULL && can_run());
    int (*run)(const char *);
    int (*finalize)(void);
    *(void **)&run = dlsym(python, "PyRun_SimpleString");
    *(void **)&finalize = dlsym(python, "Py_FinalizeEx");
    int (*ensure)(void);
    *(void **)&ensure = dlsym(python, "PyGILState_Ensure");

    struct hf_interpreters *group = start();
    assert(group != NULL);
    assert(twice(group, 21) == 42);
    assert(counted(group) == 3);
    assert(attached(group, run) >= 0);
    show(group);
    keep_and_let_go(group);
    assert(end(group) == 0 && released == 1);
    struct hf_interpreters_counts counts = {.size = sizeof counts};
    int error = hf_interpreters_totals(&counts);
    assert(error == 0 && counts.running == 0 && counts.parked == 0);
    ensure();
    assert(finish(finalize) == 0);
    return 0;
}
