/* homefree/python.h as a module uses it; for test_capsules.py, which compiles this for each
 * CPython, with the full API and the limited one. Memory is the heap's, and the destroy functions
 * count. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Makes CPython refuse capsules as if it had no memory. */
static int refuse_capsules;
#define PyCapsule_New(pointer, name, destructor) \
    (refuse_capsules ? PyErr_NoMemory() : (PyCapsule_New)(pointer, name, destructor))

#include <homefree/python.h>

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The layouts of dlpack.h and of Arrow's specification on 64-bit machines. */
static_assert(offsetof(struct hf_dl_tensor, device) == 8, "DLTensor");
static_assert(offsetof(struct hf_dl_tensor, ndim) == 16, "DLTensor");
static_assert(offsetof(struct hf_dl_tensor, dtype) == 20, "DLTensor");
static_assert(offsetof(struct hf_dl_tensor, shape) == 24, "DLTensor");
static_assert(offsetof(struct hf_dl_tensor, strides) == 32, "DLTensor");
static_assert(offsetof(struct hf_dl_tensor, byte_offset) == 40, "DLTensor");
static_assert(offsetof(struct hf_dl_managed, context) == 48, "DLManagedTensor");
static_assert(offsetof(struct hf_dl_managed, deleter) == 56, "DLManagedTensor");
static_assert(offsetof(struct hf_dl_managed_versioned, context) == 8, "DLManagedTensorVersioned");
static_assert(offsetof(struct hf_dl_managed_versioned, deleter) == 16, "DLManagedTensorVersioned");
static_assert(offsetof(struct hf_dl_managed_versioned, flags) == 24, "DLManagedTensorVersioned");
static_assert(offsetof(struct hf_dl_managed_versioned, tensor) == 32, "DLManagedTensorVersioned");
static_assert(offsetof(struct hf_arrow_schema, release) == 56, "ArrowSchema");
static_assert(offsetof(struct hf_arrow_array, release) == 64, "ArrowArray");
static_assert(offsetof(struct hf_arrow_stream, release) == 24, "ArrowArrayStream");

#define NAME     "capsules"
#define ELEMENTS 6

static int destroyed, wrong_owner, forged_calls, arrow_calls;
static const char *at_end; /* what the exit handler prints first */

static void destroy(void *pointer)
{
    struct hf_owner owner;
    owner.size = sizeof owner;
    if (hf_owner_of(pointer, &owner) != 0 || owner.kind != HF_OWNER_HEAP || owner.block != pointer)
        __atomic_add_fetch(&wrong_owner, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST);
    memset(pointer, 0xee, ELEMENTS * sizeof(double));
    hf_free(pointer);
}

static double *block(void)
{
    double *elements = (double *)hf_malloc(ELEMENTS * sizeof(double));
    int i;
    for (i = 0; elements != NULL && i < ELEMENTS; i++)
        elements[i] = i;
    return elements;
}

static struct hf_release *memory(void)
{
    return hf_python_record(block(), "elements", destroy);
}

/* ---- counts ---- */

static PyObject *counts(PyObject *self, PyObject *args)
{
    struct hf_stats stats;
    stats.size = sizeof stats;
    (void)self, (void)args;
    if (hf_stats(&stats) != 0)
        return PyErr_NoMemory();
    return Py_BuildValue("{sKsKsKsisisisi}", "live", (unsigned long long)stats.releases_live, "run",
                         (unsigned long long)stats.releases_run, "leaked",
                         (unsigned long long)stats.releases_leaked, "destroyed", destroyed,
                         "wrong_owner", wrong_owner, "forged", forged_calls, "arrow", arrow_calls);
}

static void tell(void)
{
    struct hf_stats stats;
    stats.size = sizeof stats;
    if (hf_stats(&stats) == 0)
        printf("%s: live %d run %d leaked %d destroyed %d wrong %d\n", at_end,
               (int)stats.releases_live, (int)stats.releases_run, (int)stats.releases_leaked,
               destroyed, wrong_owner);
    fflush(stdout);
}

static PyObject *tell_at_end(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    at_end = "end";
    if (atexit(tell) != 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* ---- capsules ---- */

static PyObject *capsule(PyObject *self, PyObject *args)
{
    const char *name = NAME;
    void *pointer;
    PyObject *result;
    (void)self;
    if (!PyArg_ParseTuple(args, "|z", &name))
        return NULL;
    pointer = block();
    result = hf_capsule_new(pointer, name, destroy);
    if (result == NULL)
        hf_free(pointer);
    return result;
}

static PyObject *null_pointer(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    return hf_capsule_new(NULL, NAME, destroy);
}

static PyObject *null_destroy(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    return hf_capsule_new(&destroyed, NAME, NULL);
}

/* refused(): the exception of hf_capsule_new() if there is no memory for a capsule. */
static PyObject *refused(PyObject *self, PyObject *args)
{
    void *pointer = block();
    PyObject *made;
    (void)self, (void)args;
    refuse_capsules = 1;
    made = hf_capsule_new(pointer, NAME, destroy);
    refuse_capsules = 0;
    hf_free(pointer); /* was not taken */
    return made;
}

static PyObject *freed_name(PyObject *self, PyObject *args)
{
    char *name = hf_strdup("a name that goes");
    PyObject *result = hf_capsule_new(block(), name, destroy);
    (void)self, (void)args;
    memset(name, 'x', strlen(name));
    hf_free(name);
    return result;
}

static PyObject *name_of(PyObject *self, PyObject *object)
{
    (void)self;
    return Py_BuildValue("z", PyCapsule_GetName(object));
}

/* rename(capsule, keep): gives the capsule another name, and frees that name unless `keep`. */
static PyObject *rename_it(PyObject *self, PyObject *args)
{
    PyObject *object;
    int keep;
    char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &object, &keep))
        return NULL;
    name = hf_strdup("used_capsules");
    PyCapsule_SetName(object, keep ? "used_capsules" : name);
    hf_free(name);
    Py_RETURN_NONE;
}

static PyCapsule_Destructor old_destructor;

static void call_old_twice(PyObject *object)
{
    old_destructor(object);
    old_destructor(object);
}

/* take_destructor(capsule, chain) */
static PyObject *take_destructor(PyObject *self, PyObject *args)
{
    PyObject *object;
    int chain;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &object, &chain))
        return NULL;
    old_destructor = PyCapsule_GetDestructor(object);
    PyCapsule_SetDestructor(object, chain ? call_old_twice : NULL);
    Py_RETURN_NONE;
}

static PyObject *take_context(PyObject *self, PyObject *object)
{
    (void)self;
    PyCapsule_SetContext(object, &destroyed);
    Py_RETURN_NONE;
}

static PyObject *run_it(PyObject *self, PyObject *object)
{
    struct hf_release *record = hf_capsule_record(object);
    (void)self;
    return record != NULL ? PyLong_FromLong(hf_release_run(record)) : NULL;
}

static void destroy_badly(void *pointer)
{
    destroy(pointer);
    PyErr_SetString(PyExc_KeyError, "a destroy function that calls Python");
}

/* error_kept(): drops a capsule while an exception is set; its destroy sets another one. */
static PyObject *error_kept(PyObject *self, PyObject *args)
{
    PyObject *made = hf_capsule_new(block(), NAME, destroy_badly);
    (void)self, (void)args;
    if (made == NULL)
        return NULL;
    PyErr_SetString(PyExc_LookupError, "set before");
    Py_DECREF(made);
    return NULL;
}

static PyObject *plain_capsule(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    return PyCapsule_New(&destroyed, NAME, NULL);
}

/* ---- other threads, and the end ---- */

static void *drop_in_thread(void *record)
{
    hf_release_drop((struct hf_release *)record);
    return NULL;
}

/* Waits without the GIL until a thread has dropped the record. Result: None. */
static PyObject *dropped_in_thread(struct hf_release *record)
{
    pthread_t thread;
    Py_BEGIN_ALLOW_THREADS;
    if (pthread_create(&thread, NULL, drop_in_thread, record) == 0)
        pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* thread_drop(capsule): a C thread takes the record and drops it while this thread waits without
 * the GIL. */
static PyObject *thread_drop(PyObject *self, PyObject *object)
{
    struct hf_release *record = hf_capsule_record(object);
    (void)self;
    if (record == NULL)
        return NULL;
    hf_release_take(record);
    return dropped_in_thread(record);
}

static struct hf_release *late[10000];
static int lates;

static void drop_late(void)
{
    while (lates > 0)
        hf_release_drop(late[--lates]);
}

/* at_exit(capsule): an exit handler in C, which runs after Python's end, drops the record. */
static PyObject *at_exit(PyObject *self, PyObject *object)
{
    struct hf_release *record = hf_capsule_record(object);
    (void)self;
    if (record == NULL)
        return NULL;
    if (lates == 0 && atexit(drop_late) != 0)
        return PyErr_NoMemory();
    hf_release_take(record);
    late[lates++] = record;
    Py_RETURN_NONE;
}

/* ---- held objects ---- */

/* hold(object): a capsule that holds the object and releases it with the GIL. */
static PyObject *hold(PyObject *self, PyObject *object)
{
    struct hf_release *record = hf_object_hold(object);
    PyObject *made;
    (void)self;
    if (record == NULL)
        return NULL;
    made = hf_object_held(record) == object ? hf_capsule_of(record) : NULL;
    hf_release_drop(record);
    return made;
}

static void plain_destructor(PyObject *object)
{
    hf_release_drop((struct hf_release *)PyCapsule_GetPointer(object, NULL));
}

/* hold_plainly(object): released by code that does not say that it has the GIL. */
static PyObject *hold_plainly(PyObject *self, PyObject *object)
{
    struct hf_release *record = hf_object_hold(object);
    (void)self;
    return record != NULL ? PyCapsule_New(record, NULL, plain_destructor) : NULL;
}

/* hold_in_thread(object): held, and released by a thread that Python does not know. */
static PyObject *hold_in_thread(PyObject *self, PyObject *object)
{
    struct hf_release *record = hf_object_hold(object);
    (void)self;
    return record != NULL ? dropped_in_thread(record) : NULL;
}

/* hold_without_gil(object): released by this thread after it has given up the GIL. */
static PyObject *hold_without_gil(PyObject *self, PyObject *object)
{
    struct hf_release *record = hf_object_hold(object);
    (void)self;
    if (record == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    hf_release_drop(record);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *hold_null(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    return (PyObject *)hf_object_hold(NULL);
}

static sem_t under_way;

static void *drop_all(void *nothing)
{
    int i;
    (void)nothing;
    for (i = 0; i < 100; i++)
        hf_release_drop(late[--lates]);
    sem_post(&under_way);
    drop_late();
    return NULL;
}

static pthread_t dropper;

static void join_dropper(void)
{
    pthread_join(dropper, NULL);
}

/* hold_while_ending(objects): a C thread releases them one by one while the interpreter ends. An
 * exit handler waits for the thread. */
static PyObject *hold_while_ending(PyObject *self, PyObject *objects)
{
    Py_ssize_t i, count = PyList_Size(objects);
    (void)self;
    for (i = 0; i < count; i++) {
        late[lates] = hf_object_hold(PyList_GetItem(objects, i));
        if (late[lates++] == NULL)
            return NULL;
    }
    if (sem_init(&under_way, 0, 0) != 0 || atexit(join_dropper) != 0 ||
        pthread_create(&dropper, NULL, drop_all, NULL) != 0)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    while (sem_wait(&under_way) != 0)
        ;
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* ---- buffers ---- */

#if HF_HAVE_PYTHON_BUFFER
static PyObject *buffer_of(PyObject *args, PyObject *(*make)(struct hf_release *, void *,
                                                             const struct hf_buffer_layout *))
{
    Py_ssize_t shape[2], strides[2];
    struct hf_buffer_layout layout;
    struct hf_release *record;
    PyObject *made;
    const char *order = "C";
    int readonly = 0;
    shape[0] = 2, shape[1] = 3;
    if (!PyArg_ParseTuple(args, "|(nn)si", &shape[0], &shape[1], &order, &readonly))
        return NULL;
    record = memory();
    if (record == NULL)
        return NULL;
    strides[0] = sizeof(double), strides[1] = shape[0] * (Py_ssize_t)sizeof(double);
    if (order[0] == 'G') /* with gaps */
        shape[0] = shape[1] = 1, strides[0] = strides[1] = 2 * sizeof(double), shape[1] = 3;
    layout.format = "d";
    layout.itemsize = sizeof(double);
    layout.ndim = 2;
    layout.shape = shape;
    layout.strides = order[0] == 'C' ? NULL : strides;
    layout.readonly = readonly;
    made = make(record, hf_release_pointer(record), &layout);
    memset(shape, 0xff, sizeof shape); /* the layout is copied */
    hf_release_drop(record);
    return made;
}

static PyObject *buffer(PyObject *self, PyObject *args)
{
    (void)self;
    return buffer_of(args, hf_buffer_new);
}

static PyObject *numpy_array(PyObject *self, PyObject *args)
{
    (void)self;
    return buffer_of(args, hf_numpy_array);
}

/* wrong_buffer(how) */
static PyObject *wrong_buffer(PyObject *self, PyObject *args)
{
    Py_ssize_t shape[2];
    struct hf_buffer_layout layout;
    struct hf_release *record;
    PyObject *made;
    int how;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &how))
        return NULL;
    record = memory();
    shape[0] = how == 3 ? -1 : 2, shape[1] = how == 5 ? PY_SSIZE_T_MAX : 1;
    layout.format = NULL;
    layout.itemsize = how == 1 ? 0 : 1;
    layout.ndim = how == 2 ? 65 : 2;
    layout.shape = how == 4 ? NULL : shape;
    layout.strides = NULL;
    layout.readonly = 0;
    made = hf_buffer_new(record, how == 0 ? NULL : hf_release_pointer(record), &layout);
    hf_release_drop(record);
    return made;
}
#endif

/* ---- DLPack ---- */

/* dlpack(capsule, max_version=None, flags=0) of 2x3 doubles. */
static PyObject *dlpack(PyObject *self, PyObject *args)
{
    PyObject *object, *version = NULL;
    unsigned long long flags = 0;
    struct hf_release *record;
    struct hf_dl_tensor tensor;
    int64_t shape[2];
    (void)self;
    if (!PyArg_ParseTuple(args, "O|OK", &object, &version, &flags))
        return NULL;
    record = hf_capsule_record(object);
    if (record == NULL)
        return NULL;
    memset(&tensor, 0, sizeof tensor);
    shape[0] = 2, shape[1] = 3;
    tensor.data = hf_release_pointer(record);
    tensor.device.type = HF_DL_CPU;
    tensor.ndim = 2;
    tensor.dtype.code = HF_DL_FLOAT;
    tensor.dtype.bits = 64;
    tensor.dtype.lanes = 1;
    tensor.shape = shape;
    object = hf_dlpack_export(record, &tensor, flags, version);
    memset(shape, 0xff, sizeof shape);
    return object;
}

/* wrong_dlpack(how) */
static PyObject *wrong_dlpack(PyObject *self, PyObject *args)
{
    struct hf_release *record = memory();
    struct hf_dl_tensor tensor;
    int64_t shape[2];
    PyObject *made;
    int how;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &how))
        return NULL;
    memset(&tensor, 0, sizeof tensor);
    shape[0] = how == 0 ? -1 : 2, shape[1] = how == 1 ? INT64_MAX : 1;
    tensor.data = how == 2 ? NULL : hf_release_pointer(record);
    tensor.ndim = how == 3 ? -1 : how == 4 ? 65 : 2;
    tensor.dtype.bits = how == 5 ? 0 : 64;
    tensor.dtype.lanes = how == 6 ? 0 : 1;
    tensor.shape = how == 7 ? NULL : shape;
    made =
        how % 2 != 0 ? hf_dlpack_new(record, &tensor) : hf_dlpack_new_versioned(record, &tensor, 0);
    hf_release_drop(record);
    return made;
}

/* consume(dlpack capsule): (its first and last element, shape, flags, a capsule of the record). */
static PyObject *consume(PyObject *self, PyObject *object)
{
    struct hf_dl_tensor *tensor;
    uint64_t flags = 77;
    struct hf_release *record = hf_dlpack_consume(object, &tensor, &flags);
    PyObject *made;
    double *data;
    (void)self;
    if (record == NULL)
        return NULL;
    data = (double *)(void *)((char *)tensor->data + tensor->byte_offset);
    made = Py_BuildValue("ddLLKN", data[0], data[ELEMENTS - 1], (long long)tensor->shape[0],
                         (long long)(tensor->strides != NULL ? tensor->strides[0] : 0),
                         (unsigned long long)flags, hf_capsule_of(record));
    hf_release_drop(record);
    return made;
}

/* answer(device type, id, producer, keywords): (capsule of what __dlpack__() returned, its device)
 * for memory that pretends to be there. */
static PyObject *answer(PyObject *self, PyObject *args)
{
    int64_t shape[1];
    struct hf_dl_tensor tensor;
    struct hf_dlpack_request request;
    struct hf_release *record;
    PyObject *keywords, *empty, *made = NULL;
    Py_ssize_t producer;
    int type, id;
    (void)self;
    if (!PyArg_ParseTuple(args, "iinO!", &type, &id, &producer, &PyDict_Type, &keywords))
        return NULL;
    shape[0] = ELEMENTS;
    memset(&tensor, 0, sizeof tensor);
    tensor.device.type = type;
    tensor.device.id = id;
    tensor.ndim = 1;
    tensor.shape = shape;
    tensor.dtype.code = HF_DL_FLOAT;
    tensor.dtype.bits = 64;
    tensor.dtype.lanes = 1;
    record = memory();
    empty = PyTuple_New(0);
    if (record != NULL && empty != NULL && hf_dlpack_read_request(empty, keywords, &request) == 0) {
        tensor.data = hf_release_pointer(record);
        made = hf_dlpack_answer(record, &tensor, 0, (void *)producer, &request);
    }
    Py_XDECREF(empty);
    hf_python_drop(record);
    return made;
}

/* import_of(object, stream): (device type, id, first element, capsule of the memory) */
static PyObject *import_of(PyObject *self, PyObject *args)
{
    PyObject *object, *made;
    Py_ssize_t stream;
    struct hf_dl_tensor *tensor;
    struct hf_release *record;
    (void)self;
    if (!PyArg_ParseTuple(args, "On", &object, &stream))
        return NULL;
    record = hf_dlpack_import(object, (void *)stream, &tensor, NULL);
    if (record == NULL)
        return NULL;
    made = Py_BuildValue("iidN", (int)tensor->device.type, (int)tensor->device.id,
                         *(double *)tensor->data, hf_capsule_of(record));
    hf_release_drop(record);
    return made;
}

static struct hf_dl_managed_versioned forged;

static void forged_deleter(struct hf_dl_managed_versioned *unused)
{
    (void)unused;
    forged_calls++;
}

static void forged_destructor(PyObject *object)
{
    if (PyCapsule_IsValid(object, "dltensor_versioned"))
        forged.deleter(&forged);
}

/* forge(major, has_deleter): a capsule of an unusual producer. */
static PyObject *forge(PyObject *self, PyObject *args)
{
    static double data[ELEMENTS];
    static int64_t shape[1] = {ELEMENTS}, strides[1] = {1};
    int major, has_deleter;
    (void)self;
    if (!PyArg_ParseTuple(args, "ii", &major, &has_deleter))
        return NULL;
    memset(&forged, 0, sizeof forged);
    forged.major = (uint32_t)major;
    forged.minor = 9;
    forged.deleter = has_deleter ? forged_deleter : NULL;
    forged.tensor.data = data;
    forged.tensor.ndim = 1;
    forged.tensor.shape = shape;
    forged.tensor.strides = strides;
    return PyCapsule_New(&forged, "dltensor_versioned", has_deleter ? forged_destructor : NULL);
}

/* delete_twice(dlpack capsule): a consumer's error. */
static PyObject *delete_twice(PyObject *self, PyObject *object)
{
    struct hf_dl_managed *managed =
        (struct hf_dl_managed *)PyCapsule_GetPointer(object, "dltensor");
    void (*deleter)(struct hf_dl_managed *);
    (void)self;
    if (managed == NULL)
        return NULL;
    deleter = managed->deleter;
    PyCapsule_SetName(object, "used_dltensor");
    deleter(managed);
    deleter(managed);
    Py_RETURN_NONE;
}

/* thread_delete(dlpack capsule): consumed, and its deleter called by a thread without the GIL. */
static PyObject *thread_delete(PyObject *self, PyObject *object)
{
    struct hf_dl_tensor *tensor;
    struct hf_release *record = hf_dlpack_consume(object, &tensor, NULL);
    pthread_t thread;
    (void)self;
    if (record == NULL)
        return NULL;
    /* This thread keeps the GIL, so the other one cannot have it. */
    if (pthread_create(&thread, NULL, drop_in_thread, record) == 0)
        pthread_join(thread, NULL);
    Py_RETURN_NONE;
}

/* ---- Arrow ---- */

static void arrow_release(struct hf_arrow_schema *schema)
{
    arrow_calls++;
    schema->release = NULL;
}

static void arrow_release_array(struct hf_arrow_array *array)
{
    arrow_calls++;
    array->release = NULL;
}

/* arrow(moved): (schema, array); `moved`: a consumer has set release to NULL. */
static PyObject *arrow(PyObject *self, PyObject *args)
{
    struct hf_arrow_schema *schema =
        (struct hf_arrow_schema *)hf_calloc(1, sizeof(struct hf_arrow_schema));
    struct hf_arrow_array *array =
        (struct hf_arrow_array *)hf_calloc(1, sizeof(struct hf_arrow_array));
    int moved;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &moved))
        return NULL;
    schema->format = "n";
    schema->release = moved ? NULL : arrow_release;
    array->length = 3;
    array->null_count = 3;
    array->release = moved ? NULL : arrow_release_array;
    return Py_BuildValue("NN", hf_arrow_schema_new(schema), hf_arrow_array_new(array));
}

/* ---- the module ---- */

static PyMethodDef methods[] = {
    {"counts", counts, METH_NOARGS, NULL},
    {"tell_at_end", tell_at_end, METH_NOARGS, NULL},
    {"capsule", capsule, METH_VARARGS, NULL},
    {"null_pointer", null_pointer, METH_NOARGS, NULL},
    {"null_destroy", null_destroy, METH_NOARGS, NULL},
    {"refused", refused, METH_NOARGS, NULL},
    {"freed_name", freed_name, METH_NOARGS, NULL},
    {"name_of", name_of, METH_O, NULL},
    {"rename", rename_it, METH_VARARGS, NULL},
    {"take_destructor", take_destructor, METH_VARARGS, NULL},
    {"take_context", take_context, METH_O, NULL},
    {"run", run_it, METH_O, NULL},
    {"error_kept", error_kept, METH_NOARGS, NULL},
    {"plain_capsule", plain_capsule, METH_NOARGS, NULL},
    {"thread_drop", thread_drop, METH_O, NULL},
    {"at_exit", at_exit, METH_O, NULL},
    {"hold", hold, METH_O, NULL},
    {"hold_plainly", hold_plainly, METH_O, NULL},
    {"hold_in_thread", hold_in_thread, METH_O, NULL},
    {"hold_without_gil", hold_without_gil, METH_O, NULL},
    {"hold_null", hold_null, METH_NOARGS, NULL},
    {"hold_while_ending", hold_while_ending, METH_O, NULL},
#if HF_HAVE_PYTHON_BUFFER
    {"buffer", buffer, METH_VARARGS, NULL},
    {"numpy_array", numpy_array, METH_VARARGS, NULL},
    {"wrong_buffer", wrong_buffer, METH_VARARGS, NULL},
#endif
    {"dlpack", dlpack, METH_VARARGS, NULL},
    {"wrong_dlpack", wrong_dlpack, METH_VARARGS, NULL},
    {"consume", consume, METH_O, NULL},
    {"answer", answer, METH_VARARGS, NULL},
    {"import_of", import_of, METH_VARARGS, NULL},
    {"forge", forge, METH_VARARGS, NULL},
    {"delete_twice", delete_twice, METH_O, NULL},
    {"thread_delete", thread_delete, METH_O, NULL},
    {"arrow", arrow, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* The state of the module holds a capsule, as modules do. */
struct state {
    PyObject *capsule;
};

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    struct state *state = (struct state *)PyModule_GetState(self);
    Py_VISIT(state->capsule);
    return 0;
}

static int clear(PyObject *self)
{
    struct state *state = (struct state *)PyModule_GetState(self);
    Py_CLEAR(state->capsule);
    return 0;
}

static void gone(void *self)
{
    clear((PyObject *)self);
}

static int execute(PyObject *self)
{
    struct state *state = (struct state *)PyModule_GetState(self);
    state->capsule = hf_capsule_new(block(), "state", destroy);
    return state->capsule != NULL ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, HF_PY_FUNCTION(execute)},
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, NAME, NULL, sizeof(struct state), methods, slots, traverse, clear, gone};

PyMODINIT_FUNC PyInit_capsules(void)
{
    return PyModuleDef_Init(&definition);
}
