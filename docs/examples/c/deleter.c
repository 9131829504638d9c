/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/deleter.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Two owners of one block: whoever drops the last reference frees it. */
static void shared(void)
{
    struct hf_release *record = NULL;
    int error = hf_release_new(&record, hf_malloc(100), hf_free, "samples");
    assert(error == 0 && hf_release_is(record));
    assert(strcmp(hf_release_name(record), "samples") == 0);
    hf_release_take(record); /* for the second owner */
    memset(hf_release_pointer(record), 0, 100);
    hf_release_drop(record);
    hf_release_drop(record);
}

/* Freed early: references stay valid, and the pointer is not freed again. */
static void early(void)
{
    struct hf_release *record = NULL;
    int error = hf_release_new(&record, hf_malloc(100), hf_free, NULL);
    assert(error == 0);
    assert(hf_release_run(record) == 0 && hf_release_run(record) == -EALREADY);
    hf_release_drop(record);
}

/* Given back: from then on the block is the caller's. */
static void kept(void)
{
    struct hf_release *record = NULL;
    int error = hf_release_new(&record, hf_malloc(100), hf_free, NULL);
    assert(error == 0);
    void *block = hf_release_pointer(record);
    assert(hf_release_forbid(record) == 0);
    hf_release_drop(record);
    hf_free(block);
}

/* A pointer that can be freed only sometimes: otherwise it is leaked, and counted. */
static int close_if_open(void *pointer)
{
    const int *open = pointer;
    if (*open == 0)
        return -1;
    free(pointer);
    return 0;
}

static void attempt(void)
{
    int *open = malloc(sizeof *open);
    if (open == NULL)
        abort();
    *open = 1;
    struct hf_release *record = NULL;
    int error = hf_release_new_attempt(&record, open, close_if_open, "connection");
    assert(error == 0);
    hf_release_drop(record);
}

/* Memory of a space, freed on its stream: here the host's, which has none. */
static void space(void)
{
    void *block = NULL;
    int error = hf_space_alloc(&block, HF_SPACE_HOST, 0, 1000, 0, NULL);
    assert(error == 0);
    struct hf_release *record = NULL;
    error = hf_release_new_space(&record, block, HF_STREAM_DONE, "batch");
    assert(error == 0);
    assert(hf_release_device(record) == -1 && hf_release_stream(record) == HF_STREAM_DONE);
    error = hf_release_set_stream(record, HF_STREAM_ANY);
    assert(error == 0);
    hf_release_drop(record);
}

/* Before a function's address is handed to code that outlives the module. */
static void pinned(int (*function)(void *))
{
    int error = hf_release_pin((const void *)function);
    assert(error == 0 || error == -ENOENT); /* the program itself is no shared object */
}

int main(void)
{
    shared();
    early();
    kept();
    attempt();
    space();
    pinned(close_if_open);
    return 0;
}
