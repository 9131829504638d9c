/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hf_python_share(): what a NumPy array holds, held by others too. Owns nothing; the counts are in
 * shared_blocks.c. An array is read by its layout, which NumPy's C headers fix for every release
 * from 1.22 on.
 */
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "loader/host/cpython.h"
#include "loader/host/numpy.h"
#include "loader/host/shared_blocks.h"

#include <errno.h>

/* What PyArrayObject has behind PyObject. */
struct array {
    void *data;
    int dimensions;
    size_t *shape, *strides;
    struct hf_py_object *base, *type;
    int flags;
    struct hf_py_object *weak_references;
    void *buffers;
    struct hf_py_object *handler;
};

enum { OWNS_DATA = 4 };

/* The bytes of PyObject; 0 if they are not known. Without a GIL, counts of references by the owner
 * and by others, the owner, a lock and flags are in front of the type (3.13 and 3.14). */
static size_t head_size(const struct hf_cpython *cpython)
{
    if (!cpython->free_threaded)
        return 2 * sizeof(size_t);
    return cpython->version <= 0x30e ? 4 * sizeof(size_t) : 0;
}

static void let_go(void *block)
{
    if (!hf_shared_blocks_drop(block))
        hf_free(block);
}

static int share(const void *object, struct hf_release **out)
{
    const struct hf_cpython *cpython = hf_cpython();
    const void *block;
    if (object == NULL || out == NULL)
        return -EINVAL;
    const size_t head = cpython != NULL ? head_size(cpython) : 0;
    const struct array *array = (const void *)((const char *)object + head);
    if (head == 0 || (array->flags & OWNS_DATA) == 0 || !hf_owned(array->data) ||
        hf_heap_block(array->data, &block) == 0 || block != array->data ||
        !hf_numpy_frees(cpython, array->handler))
        return -ENOTSUP;
    int error = hf_shared_blocks_take(block);
    if (error != 0)
        return error;
    error = hf_release_new(out, array->data, let_go, "homefree.Shared");
    if (error != 0)
        let_go(array->data);
    return error;
}

int hf_python_share(const void *array, struct hf_release **out)
{
    HF_INSTANCE_FORWARD(python_share, array, out);
    return share(array, out);
}
