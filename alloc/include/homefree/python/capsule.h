/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/capsule.h - capsules that free their pointer.
 *
 * The rules are those of homefree/python.h.
 */
#ifndef HOMEFREE_PYTHON_CAPSULE_H
#define HOMEFREE_PYTHON_CAPSULE_H

#include <homefree/python/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The capsule's context is its deleter. */
static inline void hf_py_capsule_destroy(PyObject *capsule)
{
    struct hf_release *record;
    void *context = PyCapsule_GetContext(capsule);
    if (!hf_release_is(context))
        return; /* freed before, or other code replaced the context: the deleter stays live */
    record = HF_PY_CAST(struct hf_release *, context);
    PyCapsule_SetContext(capsule, NULL);
    if (PyCapsule_GetName(capsule) == hf_release_name(record))
        PyCapsule_SetName(capsule, NULL);
    hf_python_drop(record);
}

/*
 * Makes a PyCapsule of a deleter's pointer and name.
 *
 * Parameters:
 *   record  in/out: the deleter; the capsule takes a reference of its own
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   ValueError   the deleter's pointer is NULL
 *   MemoryError  there is no memory
 * Frees: the capsule drops its reference when it is destroyed; the caller keeps its own.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline PyObject *hf_capsule_of(struct hf_release *record)
{
    PyObject *capsule =
        PyCapsule_New(hf_release_pointer(record), hf_release_name(record), hf_py_capsule_destroy);
    if (capsule == NULL)
        return NULL;
    hf_release_take(record);
    PyCapsule_SetContext(capsule, record);
    return capsule;
}

/*
 * Makes a PyCapsule that frees its pointer when it is destroyed: exactly once, on any thread, also
 * at interpreter exit when the module's other objects are gone.
 *
 * The shared object that contains destroy stays loaded. Other code may rename the capsule, or give
 * it a name whose memory goes away; the pointer is still freed. Code that replaces the capsule's
 * destructor (PyCapsule_SetDestructor) must call the old one, which may be called any number of
 * times, or hf_release_run(hf_capsule_record(capsule)); until then the deleter counts as live. The
 * capsule's context belongs to homefree: code that replaces it leaks the pointer.
 *
 * Parameters:
 *   pointer  in: what the capsule holds; not NULL
 *   name     in: PyCapsule's name; copied; may be NULL
 *   destroy  in: frees the pointer; must not call Python; not NULL
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   ValueError   pointer or destroy is NULL
 *   MemoryError  there is no memory
 * Frees: on success the capsule owns the pointer. On error the caller still owns it.
 * Threads: attached; takes the dynamic loader's lock for the first function of each shared object.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline PyObject *hf_capsule_new(void *pointer, const char *name,
                                       void (*destroy)(void *pointer))
{
    PyObject *capsule;
    struct hf_release *record = hf_python_record(pointer, name, destroy);
    if (record == NULL)
        return NULL;
    capsule = hf_capsule_of(record);
    if (capsule == NULL)
        hf_release_forbid(record);
    hf_release_drop(record);
    return capsule;
}

/*
 * Returns the deleter of a capsule made by hf_capsule_new() or hf_capsule_of().
 *
 * Take a reference with hf_release_take() to keep the memory beyond the lifetime of the capsule or
 * the interpreter.
 *
 * Parameters:
 *   capsule  in: the capsule
 * Result: the deleter, borrowed from the capsule; NULL with an exception set.
 * Errors:
 *   TypeError   capsule is NULL, or is not a capsule
 *   ValueError  the capsule was not made by homefree, or its pointer was freed
 * Frees: nothing.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline struct hf_release *hf_capsule_record(PyObject *capsule)
{
    void *context;
    if (capsule == NULL || !PyCapsule_CheckExact(capsule)) {
        PyErr_SetString(PyExc_TypeError, "homefree: not a capsule; pass one that hf_capsule_new() "
                                         "or hf_capsule_of() made");
        return NULL;
    }
    context = PyCapsule_GetContext(capsule);
    if (!hf_release_is(context)) {
        PyErr_SetString(PyExc_ValueError,
                        "homefree: this capsule has no record: it was not made by "
                        "hf_capsule_new() or hf_capsule_of(), or it was released already");
        return NULL;
    }
    return HF_PY_CAST(struct hf_release *, context);
}

#ifdef __cplusplus
}
#endif
#endif
