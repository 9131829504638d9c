/* Calls CPython's allocators and libc's, in a library that tests load with ctypes: with PyDLL the
 * thread holds the GIL, with CDLL it does not. Each function stands for one place in a module. No
 * header of CPython's, so that one library serves all versions.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#pragma GCC visibility push(default)

#define FAMILY(name, allocate, clear, resize, release) \
    void *allocate(size_t size);                       \
    void *clear(size_t count, size_t size);            \
    void *resize(void *ptr, size_t size);              \
    void release(void *ptr);                           \
    void *name##_malloc(size_t size);                  \
    void *name##_calloc(size_t size);                  \
    void *name##_realloc(void *ptr, size_t size);      \
    void name##_free(void *ptr);                       \
    void *name##_malloc(size_t size)                   \
    {                                                  \
        return allocate(size);                         \
    }                                                  \
    void *name##_calloc(size_t size)                   \
    {                                                  \
        return clear(1, size);                         \
    }                                                  \
    void *name##_realloc(void *ptr, size_t size)       \
    {                                                  \
        return resize(ptr, size);                      \
    }                                                  \
    void name##_free(void *ptr)                        \
    {                                                  \
        release(ptr);                                  \
    }

FAMILY(raw, PyMem_RawMalloc, PyMem_RawCalloc, PyMem_RawRealloc, PyMem_RawFree)
FAMILY(mem, PyMem_Malloc, PyMem_Calloc, PyMem_Realloc, PyMem_Free)
FAMILY(object, PyObject_Malloc, PyObject_Calloc, PyObject_Realloc, PyObject_Free)
FAMILY(plain, malloc, calloc, realloc, free)

/* The interpreter has freed the same address just before. */
void reused_free(size_t size);
void reused_free(size_t size)
{
    void *ptr = PyObject_Malloc(size);
    PyObject_Free(ptr);
    ptr = PyObject_Malloc(size);
    PyMem_RawFree(ptr);
}

/* One thread holds the GIL until another one, which does not, has called. */
static atomic_int stage;
void hold_gil(void);
void hold_gil(void)
{
    atomic_store(&stage, 1);
    while (atomic_load(&stage) != 2)
        (void)sched_yield();
}
void call_meanwhile(size_t size);
void call_meanwhile(size_t size)
{
    while (atomic_load(&stage) != 1)
        (void)sched_yield();
    PyMem_Free(PyMem_Malloc(size));
    atomic_store(&stage, 2);
}
