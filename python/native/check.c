/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree.check's part of the extension: watches, as capsules, and failure on demand. Owns
 * nothing; a capsule drops its watch when it is destroyed. homefree/check.py documents the
 * functions for users.
 */
#include "python/native/module_state.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <string.h>

#define CAPSULE "homefree.watch"

/*
 * Lock order: the loader's lock before the GIL. A module's constructor runs under the loader's lock
 * and may wait for the GIL, and beginning or ending a watch takes the loader's lock, so every such
 * call releases the GIL first. The error indicator belongs to the thread and stays set.
 */
static void drop_watch(struct hf_watch *watch)
{
    Py_BEGIN_ALLOW_THREADS
    hf_watch_drop(watch);
    Py_END_ALLOW_THREADS
}

static void drop(PyObject *capsule)
{
    drop_watch(PyCapsule_GetPointer(capsule, CAPSULE));
}

#define TEXT(number)      #number
#define TEXT_OF(constant) TEXT(constant)

static const struct homefree_remedy remedies[] = {
    {-ENOSPC,
     "homefree.check: " TEXT_OF(HF_WATCHES_MAX) " watches are open; end one of them first"},
    {-ENOTSUP,
     "homefree.check: another libhomefree in this process is the heap, and it is too old to "
     "have watches; install one version of homefree for both"},
    {-ENOMEM, NULL},
    {0, NULL},
};

static PyObject *watch_begin(PyObject *module, PyObject *capacity)
{
    (void)module;
    struct hf_watch *watch = NULL;
    size_t count = PyLong_AsSize_t(capacity);
    if (count == (size_t)-1 && PyErr_Occurred())
        return NULL;
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = hf_watch_begin(&watch, count);
    Py_END_ALLOW_THREADS
    if (error != 0)
        return homefree_failed(error, remedies);
    PyObject *capsule = PyCapsule_New(watch, CAPSULE, drop);
    if (capsule == NULL)
        drop_watch(watch);
    return capsule;
}

static PyObject *watch_end(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct hf_watch *watch = PyCapsule_GetPointer(capsule, CAPSULE);
    if (watch == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS(void)
    hf_watch_end(watch);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* Visitors are called without the GIL, so they cannot create Python objects. */
static void visit(const struct hf_crossing *crossing, void *context)
{
    homefree_rows_add(context, crossing, sizeof *crossing);
}

static PyObject *crossings_of(const struct homefree_rows *seen)
{
    const struct hf_crossing *crossings = seen->items;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < seen->count; i++) {
        const struct hf_crossing *crossing = &crossings[i];
        PyObject *entry =
            Py_BuildValue("(NNKK)", PyUnicode_DecodeFSDefault(crossing->allocated_by),
                          PyUnicode_DecodeFSDefault(crossing->freed_by),
                          (unsigned long long)crossing->count, (unsigned long long)crossing->bytes);
        if (homefree_append(list, entry) != 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *watch_report(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct hf_watch *watch = PyCapsule_GetPointer(capsule, CAPSULE);
    struct hf_watch_report report = {.size = sizeof report};
    struct homefree_rows seen = {0};
    int error;
    if (watch == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_watch_report(watch, &report, visit, &seen);
    Py_END_ALLOW_THREADS
    PyObject *list = NULL;
    if (error != 0)
        homefree_failed(error, remedies);
    else if (seen.failed)
        PyErr_NoMemory();
    else
        list = crossings_of(&seen);
    hf_free(seen.items);
    return list == NULL
               ? NULL
               : Py_BuildValue("(NKKKKK)", list, (unsigned long long)report.allocations,
                               (unsigned long long)report.frees, (unsigned long long)report.before,
                               (unsigned long long)report.foreign,
                               (unsigned long long)report.dropped);
}

static void visit_left(const struct hf_left *left, void *context)
{
    homefree_rows_add(context, left, sizeof *left);
}

static PyObject *watch_left(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct hf_watch *watch = PyCapsule_GetPointer(capsule, CAPSULE);
    struct homefree_rows all = {0};
    int error;
    if (watch == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_watch_left(watch, visit_left, &all);
    Py_END_ALLOW_THREADS
    const struct hf_left *left = all.items;
    PyObject *list = error == 0 && !all.failed ? PyList_New(0) : NULL;
    for (size_t i = 0; list != NULL && i < all.count; i++) {
        PyObject *entry =
            Py_BuildValue("(NKK)", PyUnicode_DecodeFSDefault(left[i].allocated_by),
                          (unsigned long long)left[i].count, (unsigned long long)left[i].bytes);
        if (homefree_append(list, entry) != 0)
            Py_CLEAR(list);
    }
    hf_free(all.items);
    if (error != 0)
        return homefree_failed(error, remedies);
    return all.failed ? PyErr_NoMemory() : list;
}

/* Keeps the GIL, so that no other thread of Python changes what is looked at. */
static PyObject *watch_lost(PyObject *module, PyObject *capsule)
{
    (void)module;
    uint64_t count;
    struct hf_watch *watch = PyCapsule_GetPointer(capsule, CAPSULE);
    if (watch == NULL)
        return NULL;
    int error = hf_findings_lost(watch, &count);
    if (error == 0)
        return PyLong_FromUnsignedLongLong(count);
    if (error == -ENOSYS || error == -ENOTSUP)
        PyErr_SetString(PyExc_RuntimeError,
                        "homefree: this process is not diagnosed; start it with `homefree run "
                        "--diagnose -- python3 …`");
    else
        PyErr_Format(PyExc_RuntimeError,
                     "homefree: lost blocks were not looked for to the end (error %d): reading all "
                     "memory took too long, or another thread does the same",
                     -error);
    return NULL;
}

static PyObject *watch_at(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    unsigned long long address;
    struct hf_watch_block found = {.size = sizeof found};
    if (!PyArg_ParseTuple(args, "OK:watch_at", &capsule, &address))
        return NULL;
    struct hf_watch *watch = PyCapsule_GetPointer(capsule, CAPSULE);
    int error;
    if (watch == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_watch_at(watch, (const void *)(uintptr_t)address, &found);
    Py_END_ALLOW_THREADS
    if (error != 0)
        return homefree_failed(error, remedies);
    return Py_BuildValue("(IIINN)", found.allocated, found.freed, found.freed_unmatched,
                         PyUnicode_DecodeFSDefault(found.allocated_by),
                         PyUnicode_DecodeFSDefault(found.freed_by));
}

/* ---- failure on demand ---- */

static const struct homefree_remedy fail_remedies[] = {
    {-ENOSPC,
     "homefree.check: " TEXT_OF(HF_FAIL_THREADS_MAX) " threads make calls fail; end one of them "
                                                     "first"},
    {-ENOTSUP,
     "homefree.check: another libhomefree in this process is the heap, and it is too old to "
     "make calls fail; install one version of homefree for both"},
    {-ENOMEM, NULL},
    {0, NULL},
};

/* Waits for other threads' forks only, which need no GIL to end; nothing here takes the loader's
 * lock. */
static PyObject *fail_at(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long call;
    unsigned flags;
    if (!PyArg_ParseTuple(args, "KI:fail_at", &call, &flags))
        return NULL;
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = hf_fail_at(call, flags);
    Py_END_ALLOW_THREADS
    return homefree_done(error, fail_remedies);
}

/* Returns (calls, failed), or None if nothing is counted. end: whether to end counting. */
static PyObject *fail_counts(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned flags;
    int end, error;
    struct hf_fail_counts counts = {.size = sizeof counts};
    if (!PyArg_ParseTuple(args, "Ip:fail_counts", &flags, &end))
        return NULL;
    error = end ? hf_fail_end(flags, &counts) : hf_fail_count(flags, &counts);
    if (error == -EALREADY)
        Py_RETURN_NONE;
    if (error != 0)
        return homefree_failed(error, remedies);
    return Py_BuildValue("(KK)", (unsigned long long)counts.calls,
                         (unsigned long long)counts.failed);
}

PyMethodDef homefree_check_methods[] = {
    {"watch_begin", watch_begin, METH_O, "watch_begin(capacity, /)\n--\n\nSee homefree.check."},
    {"watch_end", watch_end, METH_O, "watch_end(watch, /)\n--\n\nSee homefree.check."},
    {"watch_report", watch_report, METH_O, "watch_report(watch, /)\n--\n\nSee homefree.check."},
    {"watch_left", watch_left, METH_O, "watch_left(watch, /)\n--\n\nSee homefree.check."},
    {"watch_lost", watch_lost, METH_O,
     "watch_lost(watch, /)\n--\n\nhf_findings_lost(): makes findings of what was lost, and "
     "returns\n"
     "how many blocks. RuntimeError if the process is not diagnosed. Call it on the thread that\n"
     "began the watch."},
    {"watch_at", watch_at, METH_VARARGS, "watch_at(watch, address, /)\n--\n\nSee homefree.check."},
    {"fail_at", fail_at, METH_VARARGS, "fail_at(call, flags, /)\n--\n\nSee homefree.check."},
    {"fail_counts", fail_counts, METH_VARARGS,
     "fail_counts(flags, end, /)\n--\n\nSee homefree.check."},
    {NULL, NULL, 0, NULL},
};
