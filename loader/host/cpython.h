/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface to CPython, the only one in libhomefree. libhomefree does not link libpython: the
 * few structures below have had the same layout since 3.5, and the functions are looked up in the
 * running process, in the program itself (a static python) or in libpython.
 *
 * CPython's limited API covers none of this. Code here must not assume anything about a version
 * that it does not check for.
 */
#ifndef HOMEFREE_LOADER_HOST_CPYTHON_H
#define HOMEFREE_LOADER_HOST_CPYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hf_py_object;
struct hf_py_thread;

/* PyMemAllocatorDomain */
enum hf_py_domain { HF_PY_RAW, HF_PY_MEM, HF_PY_OBJECT, HF_PY_DOMAINS };

/* PyMemAllocatorEx */
struct hf_py_allocator {
    void *ctx;
    void *(*malloc)(void *ctx, size_t size);
    void *(*calloc)(void *ctx, size_t count, size_t size);
    void *(*realloc)(void *ctx, void *ptr, size_t size);
    void (*free)(void *ctx, void *ptr);
};

/* PyObjectArenaAllocator */
struct hf_py_arenas {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *ptr, size_t size);
};

/* Every function that homefree calls: F(member, name, result, parameters). The functions of the
 * first list are required; members of the second are NULL where the running version lacks them. */
struct hf_py_interpreter;
#define HF_CPYTHON_FUNCTIONS(F)                                                               \
    F(get_version, Py_GetVersion, const char *, (void))                                       \
    F(is_initialized, Py_IsInitialized, int, (void))                                          \
    F(get_allocator, PyMem_GetAllocator, void, (enum hf_py_domain, struct hf_py_allocator *)) \
    F(set_allocator, PyMem_SetAllocator, void, (enum hf_py_domain, struct hf_py_allocator *)) \
    F(get_arenas, PyObject_GetArenaAllocator, void, (struct hf_py_arenas *))                  \
    F(set_arenas, PyObject_SetArenaAllocator, void, (struct hf_py_arenas *))                  \
    F(raw_malloc, PyMem_RawMalloc, void *, (size_t))                                          \
    F(raw_realloc, PyMem_RawRealloc, void *, (void *, size_t))                                \
    F(raw_free, PyMem_RawFree, void, (void *))                                                \
    F(mem_malloc, PyMem_Malloc, void *, (size_t))                                             \
    F(mem_realloc, PyMem_Realloc, void *, (void *, size_t))                                   \
    F(mem_free, PyMem_Free, void, (void *))                                                   \
    F(object_malloc, PyObject_Malloc, void *, (size_t))                                       \
    F(object_realloc, PyObject_Realloc, void *, (void *, size_t))                             \
    F(object_free, PyObject_Free, void, (void *))                                             \
    F(this_thread, PyGILState_GetThisThreadState, struct hf_py_thread *, (void))              \
    F(detach, PyEval_SaveThread, struct hf_py_thread *, (void))                               \
    F(attach, PyEval_RestoreThread, void, (struct hf_py_thread *))                            \
    F(string, PyUnicode_FromString, struct hf_py_object *, (const char *))                    \
    F(imported, PyImport_GetModule, struct hf_py_object *, (struct hf_py_object *))           \
    F(attribute, PyObject_GetAttrString, struct hf_py_object *,                               \
      (struct hf_py_object *, const char *))                                                  \
    F(capsule_pointer, PyCapsule_GetPointer, void *, (struct hf_py_object *, const char *))   \
    F(capsule_new, PyCapsule_New, struct hf_py_object *,                                      \
      (void *, const char *, void (*)(struct hf_py_object *)))                                \
    F(release, Py_DecRef, void, (struct hf_py_object *))                                      \
    F(clear_error, PyErr_Clear, void, (void))
#define HF_CPYTHON_LATER_FUNCTIONS(F)                                                 \
    F(gil_check, PyGILState_Check, int, (void))                                       \
    F(current_thread, PyThreadState_GetUnchecked, struct hf_py_thread *, (void))      \
    F(current_thread_old, _PyThreadState_UncheckedGet, struct hf_py_thread *, (void)) \
    F(stop_world, _PyEval_StopTheWorld, void, (struct hf_py_interpreter *))           \
    F(start_world, _PyEval_StartTheWorld, void, (struct hf_py_interpreter *))

/* PyStatus, which is returned by value. */
struct hf_py_status {
    int kind; /* 0: success */
    const char *function;
    const char *message;
    int exit_code;
};

/* PyInterpreterConfig, the same from 3.12 to 3.14. */
struct hf_py_config {
    int use_main_obmalloc, allow_fork, allow_exec, allow_threads, allow_daemon_threads;
    int check_multi_interp_extensions;
    int gil; /* HF_PY_OWN_GIL */
};
#define HF_PY_OWN_GIL 2

/* Py_buffer, the same since 3.3. */
struct hf_py_buffer {
    void *start;
    struct hf_py_object *object;
    ssize_t bytes, item_size;
    int read_only, dimensions;
    char *format;
    ssize_t *shape, *strides, *suboffsets;
    void *internal;
};

/* Flags of PyObject_GetBuffer() */
enum {
    HF_PY_BUFFER_WRITABLE = 0x01,
    HF_PY_BUFFER_FORMAT = 0x04,
    HF_PY_BUFFER_ND = 0x08,
    HF_PY_BUFFER_STRIDES = 0x10 | HF_PY_BUFFER_ND,
    HF_PY_BUFFER_C = 0x20 | HF_PY_BUFFER_STRIDES,
    HF_PY_BUFFER_F = 0x40 | HF_PY_BUFFER_STRIDES,
    HF_PY_BUFFER_ANY = 0x80 | HF_PY_BUFFER_STRIDES,
    HF_PY_BUFFER_FULL_READ = 0x100 | HF_PY_BUFFER_STRIDES | HF_PY_BUFFER_FORMAT
};

/* PyType_Spec and PyType_Slot, with the numbers of slots that are used here. */
struct hf_py_type_slot {
    int number;
    void *function;
};
enum { HF_PY_BUFFER_GET = 1, HF_PY_BUFFER_RELEASE = 2, HF_PY_DEALLOC = 52 };
struct hf_py_type_spec {
    const char *name;
    int basic_size, item_size;
    unsigned flags;
    struct hf_py_type_slot *slots;
};

/* PyMethodDef, with the flag for a function without arguments. */
struct hf_py_method {
    const char *name;
    struct hf_py_object *(*function)(struct hf_py_object *self, struct hf_py_object *unused);
    int flags;
    const char *documentation;
};
enum { HF_PY_NO_ARGUMENTS = 4 };

/* CPython's objects that are used here: D(member, name). */
#define HF_CPYTHON_OBJECTS(D)         \
    D(none, _Py_NoneStruct)           \
    D(object_type, PyBaseObject_Type) \
    D(bool_type, PyBool_Type)         \
    D(int_type, PyLong_Type)          \
    D(float_type, PyFloat_Type)       \
    D(text_type, PyUnicode_Type)      \
    D(bytes_type, PyBytes_Type)       \
    D(list_type, PyList_Type)         \
    D(tuple_type, PyTuple_Type)       \
    D(view_type, PyMemoryView_Type)

/* What running several interpreters needs besides, in every version from 3.9 on; members of the
 * second list are NULL where the running version lacks them. */
#define HF_CPYTHON_INTERPRETER_FUNCTIONS(F)                                                       \
    F(initialize, Py_InitializeEx, void, (int))                                                   \
    F(end_interpreter, Py_EndInterpreter, void, (struct hf_py_thread *))                          \
    F(thread_new, PyThreadState_New, struct hf_py_thread *, (struct hf_py_interpreter *))         \
    F(thread_clear, PyThreadState_Clear, void, (struct hf_py_thread *))                           \
    F(thread_delete_current, PyThreadState_DeleteCurrent, void, (void))                           \
    F(thread_next, PyThreadState_Next, struct hf_py_thread *, (struct hf_py_thread *))            \
    F(thread_head, PyInterpreterState_ThreadHead, struct hf_py_thread *,                          \
      (struct hf_py_interpreter *))                                                               \
    F(interpreter_of, PyThreadState_GetInterpreter, struct hf_py_interpreter *,                   \
      (struct hf_py_thread *))                                                                    \
    F(interpreter_id, PyInterpreterState_GetID, int64_t, (struct hf_py_interpreter *))            \
    F(interpreter_head, PyInterpreterState_Head, struct hf_py_interpreter *, (void))              \
    F(interpreter_next, PyInterpreterState_Next, struct hf_py_interpreter *,                      \
      (struct hf_py_interpreter *))                                                               \
    F(main_interpreter, PyInterpreterState_Main, struct hf_py_interpreter *, (void))              \
    F(interpreter_dict, PyInterpreterState_GetDict, struct hf_py_object *,                        \
      (struct hf_py_interpreter *))                                                               \
    F(import, PyImport_ImportModule, struct hf_py_object *, (const char *))                       \
    F(add_module, PyImport_AddModule, struct hf_py_object *, (const char *))                      \
    F(module_dict, PyModule_GetDict, struct hf_py_object *, (struct hf_py_object *))              \
    F(compile, Py_CompileString, struct hf_py_object *, (const char *, const char *, int))        \
    F(evaluate, PyEval_EvalCode, struct hf_py_object *,                                           \
      (struct hf_py_object *, struct hf_py_object *, struct hf_py_object *))                      \
    F(call, PyObject_CallObject, struct hf_py_object *,                                           \
      (struct hf_py_object *, struct hf_py_object *))                                             \
    F(call_with, PyObject_CallFunctionObjArgs, struct hf_py_object *,                             \
      (struct hf_py_object *, ...))                                                               \
    F(set_attribute, PyObject_SetAttrString, int,                                                 \
      (struct hf_py_object *, const char *, struct hf_py_object *))                               \
    F(string_of, PyObject_Str, struct hf_py_object *, (struct hf_py_object *))                    \
    F(utf8, PyUnicode_AsUTF8AndSize, const char *, (struct hf_py_object *, ssize_t *))            \
    F(text_in_file_system, PyUnicode_EncodeFSDefault, struct hf_py_object *,                      \
      (struct hf_py_object *))                                                                    \
    F(file_system_text, PyUnicode_DecodeFSDefault, struct hf_py_object *, (const char *))         \
    F(bytes_read, PyBytes_AsStringAndSize, int, (struct hf_py_object *, char **, ssize_t *))      \
    F(list_new, PyList_New, struct hf_py_object *, (ssize_t))                                     \
    F(list_append, PyList_Append, int, (struct hf_py_object *, struct hf_py_object *))            \
    F(sequence_size, PySequence_Size, ssize_t, (struct hf_py_object *))                           \
    F(sequence_item, PySequence_GetItem, struct hf_py_object *, (struct hf_py_object *, ssize_t)) \
    F(error_occurred, PyErr_Occurred, struct hf_py_object *, (void))                              \
    F(error_set_text, PyErr_SetString, void, (struct hf_py_object *, const char *))               \
    F(take, Py_IncRef, void, (struct hf_py_object *))                                             \
    F(type_of, PyObject_Type, struct hf_py_object *, (struct hf_py_object *))                     \
    F(is_subtype, PyType_IsSubtype, int, (struct hf_py_object *, struct hf_py_object *))          \
    F(is_instance, PyObject_IsInstance, int, (struct hf_py_object *, struct hf_py_object *))      \
    F(bool_new, PyBool_FromLong, struct hf_py_object *, (long))                                   \
    F(int_new, PyLong_FromLongLong, struct hf_py_object *, (long long))                           \
    F(int_read, PyLong_AsLongLongAndOverflow, long long, (struct hf_py_object *, int *))          \
    F(float_new, PyFloat_FromDouble, struct hf_py_object *, (double))                             \
    F(float_read, PyFloat_AsDouble, double, (struct hf_py_object *))                              \
    F(text_new, PyUnicode_FromStringAndSize, struct hf_py_object *, (const char *, ssize_t))      \
    F(bytes_new, PyBytes_FromStringAndSize, struct hf_py_object *, (const char *, ssize_t))       \
    F(tuple_new, PyTuple_New, struct hf_py_object *, (ssize_t))                                   \
    F(tuple_set, PyTuple_SetItem, int, (struct hf_py_object *, ssize_t, struct hf_py_object *))   \
    F(dict_set, PyDict_SetItemString, int,                                                        \
      (struct hf_py_object *, const char *, struct hf_py_object *))                               \
    F(dict_remove, PyDict_DelItemString, int, (struct hf_py_object *, const char *))              \
    F(buffer_check, PyObject_CheckBuffer, int, (struct hf_py_object *))                           \
    F(buffer_get, PyObject_GetBuffer, int, (struct hf_py_object *, struct hf_py_buffer *, int))   \
    F(function_new, PyCFunction_NewEx, struct hf_py_object *,                                     \
      (struct hf_py_method *, struct hf_py_object *, struct hf_py_object *))                      \
    F(memory_view, PyMemoryView_FromObject, struct hf_py_object *, (struct hf_py_object *))       \
    F(buffer_release, PyBuffer_Release, void, (struct hf_py_buffer *))                            \
    F(type_from_spec, PyType_FromSpec, struct hf_py_object *, (struct hf_py_type_spec *))         \
    F(object_new, PyType_GenericAlloc, struct hf_py_object *, (struct hf_py_object *, ssize_t))   \
    F(to_unsigned_long, PyLong_AsUnsignedLong, unsigned long, (struct hf_py_object *))            \
    F(raise_in, PyThreadState_SetAsyncExc, int, (unsigned long, struct hf_py_object *))           \
    F(system_object, PySys_GetObject, struct hf_py_object *, (const char *))                      \
    F(error_fetch, PyErr_Fetch, void,                                                             \
      (struct hf_py_object **, struct hf_py_object **, struct hf_py_object **))                   \
    F(error_restore, PyErr_Restore, void,                                                         \
      (struct hf_py_object *, struct hf_py_object *, struct hf_py_object *))                      \
    F(error_normalize, PyErr_NormalizeException, void,                                            \
      (struct hf_py_object **, struct hf_py_object **, struct hf_py_object **))                   \
    F(error_set_traceback, PyException_SetTraceback, int,                                         \
      (struct hf_py_object *, struct hf_py_object *))
#define HF_CPYTHON_INTERPRETER_LATER_FUNCTIONS(F)                        \
    F(new_interpreter, Py_NewInterpreterFromConfig, struct hf_py_status, \
      (struct hf_py_thread **, const struct hf_py_config *))             \
    F(is_finalizing, Py_IsFinalizing, int, (void))                       \
    F(is_finalizing_old, _Py_IsFinalizing, int, (void))                  \
    F(set_stack, PyUnstable_ThreadState_SetStackProtection, int,         \
      (struct hf_py_thread *, void *, size_t))

struct hf_cpython_interpreters {
    const struct hf_cpython *cpython;
#define HF_MEMBER(member, name) struct hf_py_object *member;
    HF_CPYTHON_OBJECTS(HF_MEMBER)
#undef HF_MEMBER
    struct hf_py_object **buffer_error; /* PyExc_BufferError */
#define HF_MEMBER(member, name, result, parameters) result(*member) parameters;
    HF_CPYTHON_INTERPRETER_FUNCTIONS(HF_MEMBER)
    HF_CPYTHON_INTERPRETER_LATER_FUNCTIONS(HF_MEMBER)
#undef HF_MEMBER
};

struct hf_cpython {
    unsigned version; /* 3.12 is 0x30c */
    bool free_threaded;
    const void *map; /* the shared object or program that contains CPython's functions */
#define HF_MEMBER(member, name, result, parameters) result(*member) parameters;
    HF_CPYTHON_FUNCTIONS(HF_MEMBER)
    HF_CPYTHON_LATER_FUNCTIONS(HF_MEMBER)
#undef HF_MEMBER
};

/*
 * Finds the CPython of this process, once: through `anchor`, the address of any CPython function,
 * or by name if that is NULL. The object that contains it is never unloaded afterwards. Any thread.
 *
 * Returns NULL if there is none, or only one older than 3.9.
 */
const struct hf_cpython *hf_cpython_find(const void *anchor);

/* Makes hf_cpython_find() find one anew. Nobody uses the one that was found. */
void hf_cpython_forget(void);

/* The result of an earlier hf_cpython_find(), or NULL. Lock-free. */
const struct hf_cpython *hf_cpython(void);

/* What running several interpreters needs, looked up by the first call after a successful
 * hf_cpython_find(). NULL if something is missing. Any thread. */
const struct hf_cpython_interpreters *hf_cpython_interpreters(void);

/* Whether the calling thread is attached to an interpreter, that is, holds its GIL. May be called
 * by any thread at any time, also after Py_Finalize(). */
bool hf_cpython_attached(const struct hf_cpython *cpython);

/*
 * Finds the allocator at the bottom of a domain's chain. Each of CPython's own wrappers (the debug
 * hooks, tracemalloc) keeps the allocator below it in a structure in CPython's data.
 *
 * Returns the address of the structure that holds the bottom allocator, or NULL if the domain's own
 * allocator is the bottom or is not a known wrapper. `out` receives the bottom's functions;
 * `debug`, which may be NULL, receives whether debug hooks are in the chain.
 */
struct hf_py_allocator *hf_cpython_bottom(const struct hf_cpython *cpython,
                                          enum hf_py_domain domain, struct hf_py_allocator *out,
                                          bool *debug);

#endif
