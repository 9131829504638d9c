/*
 * What calls into interpreters take, and how they are spread over processors. The ways take turns
 * in one process, round by round; a line for each: its name, and the nanoseconds of each round.
 *
 *   object       PyObject_CallOneArg() alone, attached
 *   session      hf_session_call() of the same function, in a session that stays
 *   call         hf_interpreters_call(): a session for each call
 *   one, two     the time for WORK calls of 10 ms of Python in each of as many threads, by as many
 *                interpreters
 *
 * usage: interpreter_calls LIBPYTHON ROUNDS
 */
#include <dlfcn.h>
#include <homefree/interpreters.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 2000, WORK = 10, ROUNDS_MAX = 200, WAYS = 5 };
static const char *const names[WAYS] = {"object", "session", "call", "one", "two"};
static double samples[WAYS][ROUNDS_MAX];

static const char set_up[] = "def same(x): return x\n"
                             "def work():\n"
                             "    total = 0\n"
                             "    for i in range(200000):\n"
                             "        total += i * i % 7\n"
                             "    return total\n";

#define PYTHON(result, name, parameters) (*(result(*) parameters)dlsym(RTLD_DEFAULT, #name))

static void must(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "failed: %s\n", what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static struct hf_interpreters *start(unsigned count)
{
    struct hf_interpreters *group;
    char why[256];
    struct hf_interpreters_options options = {
        .size = sizeof options, .count = count, .set_up = set_up};
    must(hf_interpreters_start(&group, &options, why, sizeof why) == 0, why);
    return group;
}

static double object_calls(struct hf_session *session)
{
    must(hf_session_attach(session) == 0, "attach");
    void *module = PYTHON(void *, PyImport_AddModule, (const char *))("__main__");
    void *same = PYTHON(void *, PyObject_GetAttrString, (void *, const char *))(module, "same");
    void *one = PYTHON(void *, PyLong_FromLong, (long))(1);
    void *(*call)(void *, ...) = PYTHON(void *, PyObject_CallFunctionObjArgs, (void *, ...));
    void (*release)(void *) = PYTHON(void, Py_DecRef, (void *));
    const double begin = now();
    for (int i = 0; i < CALLS; i++)
        release(call(same, one, NULL));
    const double end = now();
    release(one);
    release(same);
    must(hf_session_detach(session) == 0, "detach");
    return (end - begin) / CALLS;
}

static double session_calls(struct hf_session *session)
{
    struct hf_value one = {.kind = HF_VALUE_INT, .as.integer = 1}, result;
    const double begin = now();
    for (int i = 0; i < CALLS; i++)
        must(hf_session_call(session, "__main__:same", &one, 1, &result) == 0, "a call");
    return (now() - begin) / CALLS;
}

static double group_calls(struct hf_interpreters *group)
{
    struct hf_value one = {.kind = HF_VALUE_INT, .as.integer = 1}, result;
    const double begin = now();
    for (int i = 0; i < CALLS; i++)
        must(hf_interpreters_call(group, "__main__:same", &one, 1, &result) == 0, "a call");
    return (now() - begin) / CALLS;
}

static void *work(void *group)
{
    for (int i = 0; i < WORK; i++)
        must(hf_interpreters_call(group, "__main__:work", NULL, 0, NULL) == 0, "work");
    return NULL;
}

static double work_of(struct hf_interpreters *group, int threads)
{
    pthread_t all[2];
    const double begin = now();
    for (int i = 0; i < threads; i++)
        must(pthread_create(&all[i], NULL, work, group) == 0, "a thread");
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    return now() - begin;
}

int main(int count, char **arguments)
{
    const long rounds = count == 3 ? strtol(arguments[2], NULL, 10) : 0;
    if (rounds < 1 || rounds > ROUNDS_MAX || dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) == NULL)
        return 2;
    struct hf_interpreters *one = start(1), *two = start(2);
    struct hf_session *session;
    must(hf_session_begin(&session, one, 0, 0) == 0, "a session");
    for (int round = 0; round < rounds; round++) {
        samples[0][round] = object_calls(session);
        samples[1][round] = session_calls(session);
        samples[2][round] = group_calls(one);
        samples[3][round] = work_of(one, 1);
        samples[4][round] = work_of(two, 2);
    }
    hf_session_end(session);
    must(hf_interpreters_end(two, -1) == 0 && hf_interpreters_end(one, -1) == 0, "the end");
    for (int way = 0; way < WAYS; way++) {
        printf("%s", names[way]);
        for (int round = 0; round < rounds; round++)
            printf(" %.0f", samples[way][round]);
        putchar('\n');
    }
    return 0;
}
