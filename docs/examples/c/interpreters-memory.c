/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/interpreters/memory.h>, as alloc/manual/pages.py takes them. */
#include <homefree/interpreters.h>

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* What each interpreter has. */
static int show(void *context, const struct hf_interpreter_memory *memory)
{
    printf("interpreter %" PRId64 ": %" PRIu64 " bytes of objects\n", memory->id, memory->objects);
    ++*(unsigned *)context;
    return 0;
}

static unsigned show_all(void)
{
    unsigned shown = 0;
    int error = hf_interpreters_memory(show, &shown);
    assert(error == 0);
    return shown;
}

/* More for an interpreter that was started with a limit. */
static int raise_limit(int64_t interpreter)
{
    return hf_interpreters_limit(interpreter, UINT64_C(1) << 30);
}

/* A module that is one interpreter's alone: what it allocates counts for that interpreter. */
static int count_module(int64_t interpreter, void *handle)
{
    return hf_interpreters_limit_object(interpreter, handle);
}

/* A module that outlives its interpreter, and may have taken memory over. */
static int keep_for(int64_t interpreter, void *handle)
{
    return hf_interpreters_keep(interpreter, handle);
}

/* Why memory of interpreters stays that have ended. */
static int name(void *context, const struct hf_interpreter_leak *leak)
{
    ++*(unsigned *)context;
    printf("%s keeps %" PRIu64 " bytes: %s\n", leak->object, leak->bytes, leak->why);
    return 0;
}

static unsigned leaks(void)
{
    unsigned objects = 0;
    int error = hf_interpreters_leaks(name, &objects);
    assert(error == 0);
    return objects;
}

/* What an ended interpreter left; with true it would be given back, if nobody uses it any more. */
static int left(int64_t interpreter)
{
    struct hf_interpreter_left left = {.size = sizeof left};
    int error = hf_interpreters_left(interpreter, false, &left);
    if (error == 0)
        printf("%" PRIu64 " bytes of arenas\n", left.bytes);
    return error;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void *python = dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL);
    assert(library != NULL && python != NULL);
    bool is_one = hf_interpreters_engine(NULL, 0) == HF_ENGINE_THREADS;
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {
        .size = sizeof options, .count = 1, .memory_limit = is_one ? 0 : UINT64_C(1) << 29};
    char why[500];
    int error = hf_interpreters_start(&group, &options, why, sizeof why);
    if (error != 0)
        fprintf(stderr, "%s\n", why);
    assert(error == 0);
    struct hf_interpreter_stats stats = {.size = sizeof stats};
    error = hf_interpreters_stats(group, 0, &stats);
    assert(error == 0);

    unsigned shown = show_all();
    assert(shown == (is_one ? 1 : 2));
    int wanted = is_one ? -ENOENT : 0;
    assert(raise_limit(stats.id) == wanted);
    assert(count_module(stats.id, library) == wanted);
    assert(keep_for(stats.id, library) == wanted);
    error = hf_interpreters_end(group, -1);
    assert(error == 0);
    leaks();
    error = left(stats.id);
    assert(error == 0 || error == -ENOENT || is_one);
    return 0;
}
