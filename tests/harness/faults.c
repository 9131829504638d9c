/* A module with one fault for each condition of `homefree test`, for test_harness.py. With SOUND
 * defined, the same module without the faults. Functions take no arguments, so learning them is
 * quick; each is named for where its memory must not be freed. */
#define PY_SSIZE_T_CLEAN
#include <pyconfig.h> /* says whether this CPython is free-threaded */
#ifndef Py_GIL_DISABLED
#    define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef SOUND
#    define FAULTY 0
#else
#    define FAULTY 1
#endif

enum {
    BLOCK = 100,
    READ_ONLY = 0x100, /* PyBUF_READ, which the limited API leaves out */
};

struct block {
    pthread_t thread;
    pid_t process;
    char *bytes;
};

static void die(void)
{
    raise(SIGSEGV);
}

static struct block *make_block(void)
{
    struct block *block = malloc(sizeof *block);
    block->thread = pthread_self();
    block->process = getpid();
    block->bytes = malloc(BLOCK);
    memset(block->bytes, 'b', BLOCK);
    return block;
}

static void free_block(struct block *block)
{
    free(block->bytes);
    free(block);
}

static struct block *block_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, NULL);
}

/* ---- capsules, each with a destructor that expects something of where it runs ---- */

static void in_its_thread(PyObject *capsule)
{
    struct block *block = block_of(capsule);
    if (FAULTY && !pthread_equal(block->thread, pthread_self()))
        die();
    free_block(block);
}

static void not_waiting(PyObject *capsule)
{
    struct block *block = block_of(capsule);
    while (FAULTY && !pthread_equal(block->thread, pthread_self()) && block->process == getpid())
        pause();
    free_block(block);
}

static void in_its_process(PyObject *capsule)
{
    struct block *block = block_of(capsule);
    if (FAULTY && block->process != getpid())
        abort();
    free_block(block);
}

static void in_the_main_interpreter(PyObject *capsule)
{
    if (FAULTY && PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
        die();
    free_block(block_of(capsule));
}

static const char *volatile table; /* gone with the module */

static void with_its_module(PyObject *capsule)
{
    if (FAULTY && table[0] != 't')
        abort();
    free_block(block_of(capsule));
}

static void before_the_end(PyObject *capsule)
{
    if (FAULTY) {
        PyObject *json = PyImport_ImportModule("json"); /* NULL while the interpreter ends */
        Py_DECREF(json);
    }
    free_block(block_of(capsule));
}

static void half(PyObject *capsule)
{
    struct block *block = block_of(capsule);
    if (!FAULTY)
        free(block->bytes);
    free(block);
}

static void twice(PyObject *capsule)
{
    struct block *block = block_of(capsule);
    void *volatile bytes = block->bytes; /* or compilers warn */
    free(bytes);
    if (FAULTY)
        free(bytes);
    free(block);
}

#define CAPSULE(function, destructor)                              \
    static PyObject *function(PyObject *self, PyObject *arguments) \
    {                                                              \
        (void)self, (void)arguments;                               \
        return PyCapsule_New(make_block(), NULL, destructor);      \
    }

CAPSULE(dies_in_other_thread, in_its_thread)
CAPSULE(hangs_in_other_thread, not_waiting)
CAPSULE(dies_in_forked_child, in_its_process)
CAPSULE(dies_in_subinterpreter, in_the_main_interpreter)
CAPSULE(dies_without_module, with_its_module)
CAPSULE(dies_at_exit, before_the_end)
CAPSULE(leaks, half)
CAPSULE(dies_always, twice)

/* ---- buffers ---- */

static pthread_key_t key;

static void unmap(void *memory)
{
    munmap(memory, 4096);
}

/* Memory of the calling thread, which goes with it. */
static PyObject *dies_with_thread(PyObject *self, PyObject *arguments)
{
    void *memory = pthread_getspecific(key);
    (void)self, (void)arguments;
    if (memory == NULL)
        memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (FAULTY)
        pthread_setspecific(key, memory);
    return PyMemoryView_FromMemory(memory, 4096, READ_ONLY);
}

/* Memory that is free already. */
static PyObject *dangles(PyObject *self, PyObject *arguments)
{
    static char kept[200];
    char *memory = FAULTY ? malloc(200) : kept;
    void *volatile freed = memory; /* or compilers warn */
    (void)self, (void)arguments;
    memset(memory, 'd', 200);
    if (FAULTY)
        free(freed);
    return PyMemoryView_FromMemory(memory, 200, READ_ONLY);
}

/* Memory of the argument, which may go first. */
static PyObject *borrows(PyObject *self, PyObject *argument)
{
    (void)self;
    if (!PyByteArray_Check(argument)) {
        PyErr_SetString(PyExc_TypeError, "borrows(): a bytearray is wanted");
        return NULL;
    }
    if (!FAULTY)
        return PyMemoryView_FromObject(argument);
    return PyMemoryView_FromMemory(PyByteArray_AsString(argument), PyByteArray_Size(argument),
                                   READ_ONLY);
}

/* ---- an object that is pickled as an address ---- */

static PyObject *handle_type;

static PyObject *rebuild(PyObject *self, PyObject *address)
{
    const char *bytes = PyLong_AsVoidPtr(address);
    (void)self;
    if (FAULTY && bytes[0] != 0)
        die();
    return PyObject_CallObject(handle_type, NULL);
}

static PyObject *handle_reduce(PyObject *self, PyObject *arguments)
{
    static void *memory;
    (void)self, (void)arguments;
    if (memory == NULL)
        memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* A static reference to the function would keep the module alive. */
    PyObject *module = PyImport_ImportModule(MODULE);
    if (module == NULL)
        return NULL;
    PyObject *made = Py_BuildValue("N(N)", PyObject_GetAttrString(module, "_rebuild"),
                                   PyLong_FromVoidPtr(memory));
    Py_DECREF(module);
    return made;
}

static PyMethodDef handle_methods[] = {{"__reduce__", handle_reduce, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot handle_slots[] = {{Py_tp_methods, handle_methods}, {0, NULL}};
static PyType_Spec handle_spec = {MODULE ".dies_unpickled", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT,
                                  handle_slots};

/* ---- DLPack ---- */

struct managed {
    struct {
        void *data;
        int32_t device[2];
        int32_t ndim;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } tensor;
    void *context;
    void (*deleter)(struct managed *self);
    int64_t shape[1];
};

static void delete_tensor(struct managed *managed)
{
    if (FAULTY)
        PyErr_Clear(); /* there is no thread state once the interpreter is gone */
    free(managed->tensor.data);
    free(managed);
}

static void delete_unused(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    }
}

static PyObject *dies_unloading(PyObject *self, PyObject *arguments)
{
    struct managed *managed = calloc(1, sizeof *managed);
    (void)self, (void)arguments;
    managed->tensor.data = calloc(8, 8);
    managed->tensor.device[0] = 1;
    managed->tensor.ndim = 1;
    managed->tensor.code = 2;
    managed->tensor.bits = 64;
    managed->tensor.lanes = 1;
    managed->tensor.shape = managed->shape;
    managed->shape[0] = 8;
    managed->deleter = delete_tensor;
    return PyCapsule_New(managed, "dltensor", delete_unused);
}

/* ---- a raw pointer that the host is to free ---- */

static PyObject *address(PyObject *self, PyObject *arguments)
{
    static char *cached;
    (void)self, (void)arguments;
    if (!FAULTY || cached == NULL)
        cached = strdup("some text that the host frees, and which the module caches");
    return PyLong_FromVoidPtr(cached);
}

/* ---- the module ---- */

static PyMethodDef methods[] = {
    {"dies_in_other_thread", dies_in_other_thread, METH_NOARGS, NULL},
    {"hangs_in_other_thread", hangs_in_other_thread, METH_NOARGS, NULL},
    {"dies_in_forked_child", dies_in_forked_child, METH_NOARGS, NULL},
    {"dies_in_subinterpreter", dies_in_subinterpreter, METH_NOARGS, NULL},
    {"dies_without_module", dies_without_module, METH_NOARGS, NULL},
    {"dies_at_exit", dies_at_exit, METH_NOARGS, NULL},
    {"leaks", leaks, METH_NOARGS, NULL},
    {"dies_always", dies_always, METH_NOARGS, NULL},
    {"dies_with_thread", dies_with_thread, METH_NOARGS, NULL},
    {"dangles", dangles, METH_NOARGS, NULL},
    {"borrows", borrows, METH_O, NULL},
    {"dies_unloading", dies_unloading, METH_NOARGS, NULL},
    {"address", address, METH_NOARGS, NULL},
    {"_rebuild", rebuild, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    table = "table";
    if (key == 0 && pthread_key_create(&key, unmap) != 0)
        return -1;
    handle_type = PyType_FromSpec(&handle_spec);
    if (handle_type == NULL)
        return -1;
    return PyObject_SetAttrString(module, "dies_unpickled", handle_type);
}

static void gone(void *module)
{
    (void)module;
    table = NULL;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute},
#ifdef Py_GIL_DISABLED
                                   {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                   {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = MODULE,
    .m_methods = methods,
    .m_slots = slots,
    .m_free = gone,
};

PyMODINIT_FUNC INIT(void);
PyMODINIT_FUNC INIT(void)
{
    return PyModuleDef_Init(&definition);
}
