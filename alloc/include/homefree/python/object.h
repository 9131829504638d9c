/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/object.h - Python objects that C structures hold.
 *
 * The rules are those of homefree/python.h. The header stands in for PEP 788 until CPython 3.15. It
 * relies on CPython's documentation of PyGILState_Ensure() and of finalization.
 */
#ifndef HOMEFREE_PYTHON_OBJECT_H
#define HOMEFREE_PYTHON_OBJECT_H

#include <homefree/python/record.h>

#include <string.h>
#include <time.h>
#ifdef Py_LIMITED_API
#    include <dlfcn.h>
#    include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A deleter may be dropped on any thread at any time, but the reference count of a Python object
 * may only be decremented with the GIL of the object's interpreter. Three facts decide whether it
 * is:
 *
 * 1. Does this thread hold a GIL? Since 3.12 the current thread state belongs to the thread. Before
 *    that it belongs to the process, and only counts if it is the one registered for this thread.
 * 2. Can this thread take the GIL? PyGILState_Ensure() hangs or ends the thread while the
 *    interpreter finalizes, and no call checks and takes in one step. So there is a gate: a
 *    callback of Python's atexit module, which runs before finalization, closes it and waits until
 *    no thread is inside.
 * 3. Is it still the same interpreter? Each initialisation stores a serial in the interpreter's
 *    dictionary.
 *
 * Each compiled copy of this header has its own gate.
 */
struct hf_py_gate_state {
    int open;       /* the main interpreter is alive, and its atexit callback is registered */
    int inside;     /* threads between hf_py_gate_enter() and hf_py_gate_leave() */
    unsigned forks; /* 1, plus 1 in each forked child; 0 until the fork handler is registered */
    int64_t serial; /* the last one given to an interpreter */
};

struct hf_py_held {
    PyObject *object;
    int64_t serial;
};

static inline struct hf_py_gate_state *hf_py_gate(void)
{
    static struct hf_py_gate_state gate;
    return &gate;
}

/* Result: the value for hf_py_gate_leave(); 0 if the gate is closed. */
static inline unsigned hf_py_gate_enter(void)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    __atomic_add_fetch(&gate->inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&gate->open, __ATOMIC_SEQ_CST) == 0) {
        __atomic_sub_fetch(&gate->inside, 1, __ATOMIC_SEQ_CST);
        return 0;
    }
    return __atomic_load_n(&gate->forks, __ATOMIC_SEQ_CST);
}

static inline void hf_py_gate_leave(unsigned entered)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    if (__atomic_load_n(&gate->forks, __ATOMIC_SEQ_CST) == entered)
        __atomic_sub_fetch(&gate->inside, 1, __ATOMIC_SEQ_CST);
}

/* In a forked child the threads that were inside are gone. If this one was, it need not leave. */
static inline void hf_py_gate_forked(void)
{
    __atomic_store_n(&hf_py_gate()->inside, 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&hf_py_gate()->forks, 1, __ATOMIC_SEQ_CST);
}

/* The atexit callback. It waits a second at most: a finalizer that hangs must not prevent the
 * process from ending. */
static inline PyObject *hf_py_gate_close(PyObject *self, PyObject *nothing)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    const struct timespec pause = {0, 100000};
    int left = 10000;
    HF_PY_UNUSED(self);
    HF_PY_UNUSED(nothing);
    __atomic_store_n(&gate->open, 0, __ATOMIC_SEQ_CST);
    Py_BEGIN_ALLOW_THREADS;
    while (__atomic_load_n(&gate->inside, __ATOMIC_SEQ_CST) > 0 && left-- > 0)
        nanosleep(&pause, NULL);
    Py_END_ALLOW_THREADS;
    Py_INCREF(Py_None);
    return Py_None;
}

static inline int hf_py_gate_open(void)
{
    static PyMethodDef close = {"homefree_close", hf_py_gate_close, METH_NOARGS, NULL};
    struct hf_py_gate_state *gate = hf_py_gate();
    PyObject *module, *callback, *done = NULL;
    unsigned none = 0;
    /* Two threads may both register; one of them counts. */
    if (__atomic_load_n(&gate->forks, __ATOMIC_SEQ_CST) == 0) {
        if (pthread_atfork(NULL, NULL, hf_py_gate_forked) != 0) {
            PyErr_NoMemory();
            return -1;
        }
        __atomic_compare_exchange_n(&gate->forks, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    module = PyImport_ImportModule("atexit");
    callback = module != NULL ? PyCFunction_New(&close, NULL) : NULL;
    if (callback != NULL)
        done = PyObject_CallMethod(module, "register", "O", callback);
    Py_XDECREF(callback);
    Py_XDECREF(module);
    if (done == NULL)
        return -1;
    Py_DECREF(done);
    __atomic_store_n(&gate->open, 1, __ATOMIC_SEQ_CST);
    return 0;
}

/* Returns the serial of the current interpreter. With `make`, assigns one if there is none, and
 * sets an exception on error. Result: -1 if there is none. */
static inline int64_t hf_py_interpreter_serial(int make)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyObject *key, *value, *first, *facts = PyInterpreterState_GetDict(interpreter);
    int64_t serial = -1;
    if (facts == NULL) {
        if (make)
            PyErr_SetString(PyExc_RuntimeError, "homefree: the interpreter is ending; hold objects "
                                                "before that");
        return -1;
    }
    key = PyUnicode_FromFormat("homefree.serial %p", HF_PY_CAST(void *, gate));
    if (key == NULL)
        return -1;
    value = PyDict_GetItemWithError(facts, key);
    if (value != NULL) {
        serial = PyLong_AsLongLong(value);
    } else if (make && PyErr_Occurred() == NULL) {
        value = PyLong_FromLongLong(__atomic_add_fetch(&gate->serial, 1, __ATOMIC_SEQ_CST));
        first = NULL;
        /* A thread that is unknown to Python can only take the main interpreter's GIL. */
        if (value != NULL && (PyInterpreterState_GetID(interpreter) != 0 || hf_py_gate_open() == 0))
            first = hf_py_first(facts, key, value);
        if (first != NULL)
            serial = PyLong_AsLongLong(first);
        Py_XDECREF(first);
        Py_XDECREF(value);
    }
    Py_DECREF(key);
    return serial;
}

/* Finds functions of CPython that the limited API does not declare. */
#ifdef Py_LIMITED_API
static inline void *hf_py_symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}
#endif

static inline PyThreadState *hf_py_current(void)
{
#ifndef Py_LIMITED_API
#    if PY_VERSION_HEX >= 0x030d0000
    return PyThreadState_GetUnchecked();
#    else
    return _PyThreadState_UncheckedGet();
#    endif
#else
    PyThreadState *(*get)(void);
    void *symbol = hf_py_symbol("PyThreadState_GetUnchecked");
    if (symbol == NULL)
        symbol = hf_py_symbol("_PyThreadState_UncheckedGet");
    memcpy(&get, &symbol, sizeof get);
    return symbol != NULL ? get() : NULL;
#endif
}

/* Whether PyGILState_Check() returns 0, which it does only if it can tell. */
static inline int hf_py_check_says_no(void)
{
#ifndef Py_LIMITED_API
    return PyGILState_Check() == 0;
#else
    int (*check)(void);
    void *symbol = hf_py_symbol("PyGILState_Check");
    memcpy(&check, &symbol, sizeof check);
    return symbol != NULL && check() == 0;
#endif
}

static inline int hf_py_per_thread(void)
{
#ifndef Py_LIMITED_API
    return PY_VERSION_HEX >= 0x030c0000;
#else
    return strtol(Py_GetVersion() + 2, NULL, 10) >= 12; /* "3.12.1 …" */
#endif
}

enum hf_py_gil { HF_PY_GIL_HELD, HF_PY_GIL_FREE, HF_PY_GIL_UNKNOWN };

/* Whether this thread holds a GIL. Any thread may call it at any time. */
static inline enum hf_py_gil hf_py_gil(void)
{
    PyThreadState *current, *known;
    if (hf_py_holds())
        return HF_PY_GIL_HELD;
    current = hf_py_current();
    if (current == NULL)
        return HF_PY_GIL_FREE;
    if (hf_py_per_thread())
        return HF_PY_GIL_HELD;
    known = PyGILState_GetThisThreadState();
    if (known == current)
        return HF_PY_GIL_HELD;
    /* With several interpreters, the thread may run in one that it is not registered with. */
    return known == NULL || hf_py_check_says_no() ? HF_PY_GIL_FREE : HF_PY_GIL_UNKNOWN;
}

/* Drops the object's reference if the GIL held is its interpreter's. Result: 0 or -1. */
static inline int hf_py_held_down(const struct hf_py_held *held)
{
    struct hf_py_error kept;
    int same, held_before = hf_py_holds();
    hf_py_error_keep(&kept);
    hf_py_hold_end(held_before); /* a finalizer may release the GIL */
    same = hf_py_interpreter_serial(0) == held->serial;
    PyErr_Clear();
    if (same)
        Py_DECREF(held->object);
    if (held_before)
        hf_py_hold_begin();
    hf_py_error_put_back(&kept);
    return same ? 0 : -1;
}

static inline int hf_py_held_attempt(void *pointer)
{
    struct hf_py_held *held = HF_PY_CAST(struct hf_py_held *, pointer);
    enum hf_py_gil gil = hf_py_gil();
    unsigned entered;
    int result = -1;
    if (gil == HF_PY_GIL_HELD) {
        result = hf_py_held_down(held);
    } else if (gil == HF_PY_GIL_FREE && (entered = hf_py_gate_enter()) != 0) {
        PyGILState_STATE state = PyGILState_Ensure();
        result = hf_py_held_down(held);
        PyGILState_Release(state);
        hf_py_gate_leave(entered);
    }
    hf_free(held);
    return result;
}

/*
 * Makes a deleter that holds a Python object, for C structures that outlive their Python wrappers.
 *
 * The deleter takes a reference to the object. The last drop releases it, on any thread, with or
 * without the GIL, if that is known to be safe:
 *
 *   - The dropping thread holds the GIL of the object's interpreter, which may be finalizing.
 *   - The dropping thread holds no GIL, and the object belongs to the main interpreter, which is
 *     not ending yet. The thread then waits for the GIL, so it must not hold a lock for which the
 *     GIL's holder may wait.
 *
 * Otherwise the object is leaked and counted (hf_stats(), releases_leaked): its interpreter is
 * ending, gone or restarted; the GIL held is another interpreter's; or it cannot be told, which
 * happens before CPython 3.12 in a process with several interpreters, unless hf_python_drop() is
 * used. An interpreter that ends waits up to a second for threads that are releasing objects.
 *
 * Parameters:
 *   object  in: any object; not NULL
 * Result: a deleter with one reference, whose object hf_object_held() returns (hf_release_pointer()
 *   does not); NULL with an exception set.
 * Errors:
 *   ValueError    object is NULL
 *   MemoryError   there is no memory
 *   RuntimeError  the interpreter is ending
 * Frees: the caller drops the reference with hf_release_drop() or hf_python_drop().
 * Threads: attached.
 * Fork: safe; a child may drop too.
 * Signals: unsafe.
 * Source: PEP 788; CPython's documentation of PyGILState_Ensure() and of finalization.
 * Since: 1.0
 */
static inline struct hf_release *hf_object_hold(PyObject *object)
{
    struct hf_release *record = NULL;
    struct hf_py_held *held;
    int64_t serial;
    if (object == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_ValueError, "homefree: the object is NULL; pass an object");
        return NULL;
    }
    serial = hf_py_interpreter_serial(1);
    if (serial < 0)
        return NULL;
    held = HF_PY_CAST(struct hf_py_held *, hf_malloc(sizeof *held));
    if (held == NULL || hf_release_new_attempt(&record, held, hf_py_held_attempt, NULL) != 0) {
        hf_free(held);
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(object);
    held->object = object;
    held->serial = serial;
    return record;
}

/*
 * Returns the object that a deleter of hf_object_hold() holds.
 *
 * Parameters:
 *   record  in: from hf_object_hold()
 * Result: the object, borrowed; valid as long as the deleter has references.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe; does not need the GIL.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
static inline PyObject *hf_object_held(const struct hf_release *record)
{
    return HF_PY_CAST(struct hf_py_held *, hf_release_pointer(record))->object;
}

#ifdef __cplusplus
}
#endif
#endif
