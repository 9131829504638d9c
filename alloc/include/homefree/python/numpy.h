/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/numpy.h - NumPy's C API: arrays whose memory a deleter frees.
 *
 * The rules are those of homefree/python.h. The header is empty unless numpy/arrayobject.h was
 * included before; it may be included again after that.
 */
#if defined(NPY_ARRAY_OWNDATA) && !defined(HOMEFREE_PYTHON_NUMPY_H)
#    define HOMEFREE_PYTHON_NUMPY_H

#    include <homefree/python/capsule.h>

#    ifdef __cplusplus
extern "C" {
#    endif

/*
 * Makes a deleter the base of an array over its memory, so that the memory lives as long as the
 * array and its views.
 *
 * Parameters:
 *   array   in/out: owns no data and has no base, as PyArray_SimpleNewFromData() makes it; NumPy's
 *           C API must have been imported
 *   memory  in/out: the deleter of the array's data; the array takes a reference
 * Result: 0; -1 with an exception set.
 * Errors:
 *   ValueError   the array owns its data, which NumPy would free a second time, or has a base
 *   MemoryError  there is no memory
 * Frees: the array drops its reference when it is destroyed; the caller keeps its own.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: NumPy's C API.
 * Since: 1.0
 */
static inline int hf_numpy_own(PyArrayObject *array, struct hf_release *memory)
{
    PyObject *capsule;
    if (PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA)) {
        PyErr_SetString(PyExc_ValueError,
                        "homefree: this array owns its data, and NumPy would free it a second "
                        "time; make it with PyArray_SimpleNewFromData() and leave OWNDATA alone");
        return -1;
    }
    capsule = hf_capsule_of(memory);
    return capsule != NULL ? PyArray_SetBaseObject(array, capsule) : -1; /* takes the capsule */
}

#    ifdef __cplusplus
}
#    endif
#endif
