/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/record.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>

/* A deleter, with an exception where it cannot be made; the GIL is held when it is dropped. */
static int shared(void)
{
    struct hf_release *record = hf_python_record(hf_malloc(100), "samples", hf_free);
    if (record == NULL)
        return -1;
    hf_python_drop(record);
    return 0;
}

/* The same for memory of a space, here the host's. */
static int of_space(void)
{
    void *block = NULL;
    if (hf_space_alloc(&block, HF_SPACE_HOST, 0, 1000, 0, NULL) != 0)
        return -1;
    struct hf_release *record = hf_python_space_record(block, "batch", HF_STREAM_DONE);
    if (record == NULL)
        return -1;
    hf_python_drop(record);
    return 0;
}

int main(void)
{
    Py_Initialize();
    int first = shared(), second = of_space();
    assert(first == 0 && second == 0);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
