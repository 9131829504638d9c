/*
 * Fails one allocation of CPython's at the moment that matters: while another thread is inside a
 * constructor, and so has the dynamic loader's lock, and waits for the GIL there. Linked with
 * nothing: the functions of CPython are the process's.
 *
 * Loaded once as it is, and once more, as a copy, by the other thread: the copy's constructor is
 * the one that waits.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <string.h>

typedef struct object object;
struct allocator {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *ptr, size_t size);
    void (*free)(void *context, void *ptr);
};
extern void PyMem_GetAllocator(int domain, struct allocator *out);
extern void PyMem_SetAllocator(int domain, struct allocator *in);
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int state);
extern object *PyObject_CallFunctionObjArgs(object *callable, ...);
enum { OBJECTS = 2 };

static struct allocator before;
static const char *copy;
static pthread_t here, other;
static int armed;
sem_t gate_entered __attribute__((visibility("default")));

static void *load_copy(void *unused)
{
    (void)unused;
    return dlopen(copy, RTLD_NOW | RTLD_LOCAL);
}

static void *fail_once(void *context, size_t size)
{
    (void)context;
    if (!armed || !pthread_equal(here, pthread_self()))
        return before.malloc(before.context, size);
    armed = 0;
    pthread_create(&other, NULL, load_copy, NULL);
    sem_wait(&gate_entered);
    return NULL;
}

/* Calls function(argument) and makes its first allocation of an object fail. */
__attribute__((visibility("default"))) object *gate_call(object *function, object *argument,
                                                         const char *path)
{
    struct allocator failing;
    PyMem_GetAllocator(OBJECTS, &before);
    failing = before;
    failing.malloc = fail_once;
    sem_init(&gate_entered, 0, 0);
    copy = path;
    here = pthread_self();
    armed = 1;
    PyMem_SetAllocator(OBJECTS, &failing);
    object *result = PyObject_CallFunctionObjArgs(function, argument, NULL);
    PyMem_SetAllocator(OBJECTS, &before);
    return result;
}

/* Called without the GIL. */
__attribute__((visibility("default"))) int gate_join(void)
{
    void *handle = NULL;
    return pthread_join(other, &handle) == 0 && handle != NULL;
}

__attribute__((constructor)) static void construct(void)
{
    Dl_info info;
    sem_t *entered = dlsym(RTLD_DEFAULT, "gate_entered");
    if (dladdr((void *)construct, &info) == 0 || strstr(info.dli_fname, "copy") == NULL ||
        entered == NULL)
        return;
    sem_post(entered);
    PyGILState_Release(PyGILState_Ensure());
}
