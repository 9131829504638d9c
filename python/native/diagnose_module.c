/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree.diagnose()'s part of the extension: parts of a run, as capsules, which end their part.
 * No state; any attached thread.
 */
#include "python/native/module_state.h"

#include <homefree/diagnose.h>
#include <homefree/homefree.h>

#include <errno.h>

#define CAPSULE "homefree._homefree.findings"

static void drop(PyObject *capsule)
{
    hf_findings_end(PyCapsule_GetPointer(capsule, CAPSULE));
}

static PyObject *fail(int result)
{
    if (result == -ENOMEM)
        return PyErr_NoMemory();
    if (result == -ENOTSUP)
        PyErr_SetString(PyExc_RuntimeError,
                        "homefree: this process only counts; diagnose it with `homefree run "
                        "--diagnose -- COMMAND`, without `=count`");
    else if (result == -ENOSYS)
        PyErr_SetString(PyExc_RuntimeError,
                        "homefree: this process is not diagnosed; start it with `homefree run "
                        "--diagnose -- python3 …`");
    else
        PyErr_Format(PyExc_RuntimeError,
                     "homefree: the findings cannot be read (error %d): another thread records "
                     "something, and takes long; ask again",
                     -result);
    return NULL;
}

static PyObject *findings_begin(PyObject *module, PyObject *unused)
{
    struct hf_findings *findings;
    (void)module;
    (void)unused;
    int result = hf_findings_begin(&findings);
    if (result != 0)
        return fail(result);
    PyObject *capsule = PyCapsule_New(findings, CAPSULE, drop);
    if (capsule == NULL)
        hf_findings_end(findings);
    return capsule;
}

/* A text of C; None for NULL. Paths are decoded as Python decodes them. */
static PyObject *text(const char *from)
{
    if (from == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(from);
}

static PyObject *place(const struct hf_found_place *from)
{
    if (from->object == NULL)
        Py_RETURN_NONE;
    return Py_BuildValue("(NNK)", text(from->object[0] != '\0' ? from->object : NULL),
                         text(from->function), (unsigned long long)from->offset);
}

static PyObject *entry_of(const struct hf_found *found)
{
    return Py_BuildValue("(NiKKNNNNNN)", text(found->rule), (int)found->severity,
                         (unsigned long long)found->count, (unsigned long long)found->bytes,
                         text(found->allocator), text(found->allocator_object),
                         place(&found->allocated), place(&found->freed), place(&found->first_freed),
                         text(found->remedy));
}

/* All findings of a part, in C: one thread at a time may ask for them, and while Python objects are
 * made, another one may run. Returns 0 or a negative errno. */
static int collect(struct hf_findings *findings, struct homefree_rows *all)
{
    struct hf_found found = {.size = sizeof found};
    int result;
    /* All of them even after an error: the list in C goes on where it was. */
    while ((result = hf_findings_next(findings, &found)) == 1)
        homefree_rows_add(all, &found, sizeof found);
    return result != 0 ? result : all->failed ? -ENOMEM : 0;
}

static PyObject *findings_list(PyObject *module, PyObject *capsule)
{
    struct homefree_rows all = {0};
    int result;
    (void)module;
    struct hf_findings *findings = PyCapsule_GetPointer(capsule, CAPSULE);
    if (findings == NULL)
        return NULL;
    HOMEFREE_BEGIN_ALONE(capsule);
    result = collect(findings, &all);
    HOMEFREE_END_ALONE();
    PyObject *list = result == 0 ? PyList_New(0) : fail(result);
    const struct hf_found *found = all.items;
    for (size_t i = 0; list != NULL && i < all.count; i++)
        if (homefree_append(list, entry_of(&found[i])) != 0)
            Py_CLEAR(list);
    hf_free(all.items);
    return list;
}

PyMethodDef homefree_diagnose_methods[] = {
    {"findings_begin", findings_begin, METH_NOARGS,
     "findings_begin()\n--\n\nhf_findings_begin(): a part of a diagnosed run. RuntimeError, with\n"
     "a remedy, if there is none. Any thread."},
    {"findings_list", findings_list, METH_O,
     "findings_list(findings, /)\n--\n\nWhat was found since findings_begin(): (rule, severity,\n"
     "count, bytes, allocator, its object, allocated, freed, first freed, remedy). Any thread."},
    {NULL, NULL, 0, NULL},
};
