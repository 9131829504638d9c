/*
 * homefree/python/object.h - Python objects that C structures hold. The rules are python.h's.
 * Facts: CPython's documentation of PyGILState_Ensure() and of finalization, and PEP 788, which
 * this stands in for until CPython 3.15.
 */
#ifndef HOMEFREE_PYTHON_OBJECT_H
#define HOMEFREE_PYTHON_OBJECT_H

#ifndef HOMEFREE_PYTHON_H
#    error "include homefree/python.h, which includes this"
#endif

/*
 * A drop may come from any thread, at any time, and a reference of Python's may be taken down only
 * with the GIL of the object's own interpreter. Three facts decide:
 *
 * 1. Does this thread hold a GIL? From 3.12 on the current thread state is the thread's own; before
 *    that it is the process's, and counts only where it is the one that this thread is known by.
 * 2. Can it be had? PyGILState_Ensure() hangs or ends a thread when the interpreter is finalizing,
 *    and nobody can ask for that in one step with it. So there is a gate: a callback of Python's
 *    atexit module, which runs before finalizing, closes it and waits until nobody is inside.
 * 3. Is it the same interpreter, and the same life of it? Each has a serial in its dictionary.
 *
 * A gate belongs to one compiled copy of this header.
 */
struct hf_py_gate_state {
    int open;       /* the main interpreter is alive and its atexit callback is registered */
    int inside;     /* threads between hf_py_gate_enter() and hf_py_gate_leave() */
    unsigned forks; /* 1 and one more in each forked child; 0: the fork handler is not registered */
    int64_t serial; /* the last that an interpreter got */
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

/* 0: closed; else what to leave with. */
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

/* In a forked child: the threads that were inside are gone, and if this one is, it need not leave.
 */
static inline void hf_py_gate_forked(void)
{
    __atomic_store_n(&hf_py_gate()->inside, 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&hf_py_gate()->forks, 1, __ATOMIC_SEQ_CST);
}

/* The atexit callback. Waits a second at most: a finalizer that never ends must not keep the
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
    if (gate->forks == 0) {
        if (pthread_atfork(NULL, NULL, hf_py_gate_forked) != 0) {
            PyErr_NoMemory();
            return -1;
        }
        gate->forks = 1;
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

/* The serial of the current interpreter; makes one where asked to. -1: none, or an exception where
 * one was asked for. */
static inline int64_t hf_py_interpreter_serial(int make)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyObject *key, *value, *facts = PyInterpreterState_GetDict(interpreter);
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
        int64_t fresh = __atomic_add_fetch(&gate->serial, 1, __ATOMIC_SEQ_CST);
        value = PyLong_FromLongLong(fresh);
        /* Only the main interpreter's GIL can be had by a thread that Python does not know. */
        if (value != NULL &&
            (PyInterpreterState_GetID(interpreter) != 0 || hf_py_gate_open() == 0) &&
            PyDict_SetItem(facts, key, value) == 0)
            serial = fresh;
        Py_XDECREF(value);
    }
    Py_DECREF(key);
    return serial;
}

/* Functions of CPython that the limited API does not declare. */
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

/* Whether PyGILState_Check() says no, which it does only where it can tell. */
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

/* Whether this thread holds a GIL. May be called by any thread at any time. */
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
    /* Where there are more interpreters, the thread may be in one that it is not known by. */
    return known == NULL || hf_py_check_says_no() ? HF_PY_GIL_FREE : HF_PY_GIL_UNKNOWN;
}

/* With a GIL: takes the reference down if it is the right interpreter's. 0 or -1. */
static inline int hf_py_held_down(const struct hf_py_held *held)
{
    struct hf_py_error kept;
    int same, held_before = hf_py_holds();
    hf_py_error_keep(&kept);
    hf_py_hold_end(held_before); /* a finalizer may give the GIL up */
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
 * A record that holds a Python object, for C structures that outlive what Python knows of them: it
 * takes a reference of the object, and lets go of it when the record's last reference is dropped,
 * on any thread, with the GIL or without, when that is known to be safe:
 *   - the dropping thread holds the GIL of the object's interpreter, also while that is finalizing;
 *   - or it holds none, the object belongs to the main interpreter, and that is not ending yet: the
 *     thread then waits for the GIL (so a thread must not drop while it holds a lock that the GIL's
 *     holder may wait for).
 * Otherwise the object is leaked and counted (hf_stats, releases_leaked): the interpreter is ending
 * or gone, has ended and started again, is another one, or (before 3.12, in a process with more
 * interpreters, and not through hf_python_drop()) cannot be told.
 *   object  any object; not NULL
 * Result: a record with one reference; hf_release_pointer() of it is not the object, which
 * hf_object_held() gives. NULL with ValueError, MemoryError, or RuntimeError where the interpreter
 * is ending.
 * Fork: the child may drop too. When the interpreter ends, it waits up to a second for threads that
 * are letting go of objects.
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

/* The object of an hf_object_hold(); borrowed, valid as long as the record has references. Needs no
 * GIL. */
static inline PyObject *hf_object_held(const struct hf_release *record)
{
    return HF_PY_CAST(struct hf_py_held *, hf_release_pointer(record))->object;
}

#endif
