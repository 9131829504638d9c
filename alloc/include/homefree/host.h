/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/host.h - the host's allocators: CPython and NumPy allocate from the heap.
 *
 * These functions do not need Python's headers. homefree/python.h has what modules share with
 * Python.
 */
#ifndef HOMEFREE_HOST_H
#define HOMEFREE_HOST_H

#include <homefree/base.h>
#include <homefree/deleter.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What CPython allocates from the heap. In every mode, older blocks keep their allocator. */
enum hf_python_mode {
    HF_PYTHON_OFF = 0,   /* nothing */
    HF_PYTHON_RAW = 1,   /* the RAW domain: what HF_PYTHON_ARENA means to a free-threaded CPython */
    HF_PYTHON_ARENA = 2, /* the RAW domain, and the arenas in which pymalloc keeps small objects */
    HF_PYTHON_FULL = 3   /* the domains RAW, MEM and OBJ; of a free-threaded CPython RAW and MEM */
};

/* What NumPy allocates from the heap. */
enum hf_python_numpy {
    HF_PYTHON_NUMPY_OFF = 0,       /* nothing: not requested */
    HF_PYTHON_NUMPY_ABSENT = 1,    /* nothing: NumPy is not imported; call again once it is */
    HF_PYTHON_NUMPY_INSTALLED = 2, /* the data of all arrays, in every thread */
    HF_PYTHON_NUMPY_CONTEXT = 3, /* the same, only in the calling thread's context: NumPy's default
                                    handler is not a known one */
    HF_PYTHON_NUMPY_OLD = 4,     /* nothing: NumPy before 1.22 has no handlers */
    HF_PYTHON_NUMPY_UNKNOWN = 5  /* nothing: NumPy refused the handler */
};

/* What to install. Caller-sized; absent fields mean their defaults. */
struct hf_python_options {
    size_t size;
    enum hf_python_mode python; /* HF_PYTHON_OFF, HF_PYTHON_ARENA (the default) or HF_PYTHON_FULL */
    int numpy;                  /* non-zero (the default): NumPy's arrays too */
    void (*cpython)(void);      /* any function of the CPython to act on; NULL: found by name */
};

/* What is installed. Caller-sized. */
struct hf_python_state {
    size_t size;
    enum hf_python_mode python; /* in force; a later call never takes back an earlier one's mode */
    enum hf_python_numpy numpy;
};

/*
 * Makes CPython, and NumPy if it is imported, allocate from the heap from now on. Calling it again
 * adds what is missing.
 *
 * CPython's debug hooks and tracemalloc stay in front and see every block. If other code frees a
 * block of pymalloc, or of a free-threaded CPython's mimalloc, the block goes to CPython, provided
 * that the calling thread is attached to the interpreter that owns it. After that interpreter has
 * ended the block is leaked; in all other cases the process ends with a message. The mimalloc gets
 * its memory from the region as soon as libhomefree is loaded; what it had before is known from
 * this call on.
 *
 * A program that restarts CPython after Py_Finalize() must call this again: since 3.12 CPython
 * resets its allocators then.
 *
 * Parameters:
 *   options  in: what to install; NULL for the defaults
 *   out      out: what is installed; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   an option is invalid, or the size of a struct is too small
 *   -ENOENT   the process has no CPython 3.9 or later
 *   -EPERM    HOMEFREE_CONF says route:off; CPython's own frees need routing
 *   -EACCES   CPython is running and the calling thread is not attached (does not hold the GIL)
 *   -ENOSPC   the same domain was hooked by other code too often in between
 *   -ENOSYS   HF_PYTHON_FULL, and CPython is free-threaded and newer than 3.14
 *   -ENOTSUP  this instance of libhomefree forwards to one that cannot install
 * Frees: nothing.
 * Threads: any thread before Py_Initialize(), later any attached thread.
 * Fork: safe; a child keeps what is installed.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_python_install(const struct hf_python_options *options, struct hf_python_state *out);

/*
 * Makes CPython and NumPy allocate from where they did before hf_python_install().
 *
 * Blocks from the heap are still freed to the heap, and routing stays on.
 *
 * Result: 0 or a negative errno.
 * Errors:
 *   -ENOTSUP  this instance of libhomefree forwards to one that cannot uninstall
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_python_uninstall(void);

/*
 * Makes a deleter that holds the data of a NumPy array beside the array: the memory is freed when
 * both have let go, in any order, on any thread, also after the array's interpreter has ended. An
 * array that is resized in place meanwhile moves to memory of its own.
 *
 * Parameters:
 *   array  in: a numpy.ndarray, as PyObject *; its type is not checked
 *   out    out: the deleter, with one reference, whose pointer is the array's data; unchanged on
 *          error
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   array or out is NULL
 *   -ENOTSUP  the data is not the array's own (a view), was allocated before hf_python_install() or
 *             by another handler, or CPython is free-threaded and newer than 3.14
 *   -ENOMEM   there is no memory
 * Frees: the caller drops the reference with hf_release_drop().
 * Threads: attached to the array's interpreter.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_python_share(const void *array, struct hf_release **out);

#ifdef __cplusplus
}
#endif
#endif
