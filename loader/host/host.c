/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hf_python_install() and hf_python_uninstall(): which allocations of the host, CPython, the heap
 * serves; and what is done for it uninstalled, once it is loaded (host.h). Owns the lock under
 * which hooks are installed and the mode that was requested. Hooks stay installed for the rest of
 * the process: libhomefree is never unloaded, so they outlive the interpreter.
 */
#include "loader/host/host.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/libc_functions.h"
#include "alloc/base/options.h"
#include "alloc/base/sized.h"
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "loader/host/cpython.h"
#include "loader/host/domains.h"
#include "loader/host/mimalloc.h"
#include "loader/host/numpy.h"
#include "loader/host/pymalloc.h"

#include <errno.h>
#include <pthread.h>

/* Its holder may wait for a GIL, or for a collection to end: since 3.13, PyMem_SetAllocator() takes
 * a lock of CPython's, and lets go of the GIL if another thread has it. Whoever waits for this lock
 * is therefore detached. */
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static enum hf_python_mode mode;

static void lock_host(const struct hf_cpython *cpython)
{
    while (pthread_mutex_trylock(&lock) != 0) {
        const bool attached = cpython != NULL && hf_cpython_attached(cpython);
        struct hf_py_thread *thread = attached ? cpython->detach() : NULL;
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        if (thread != NULL)
            cpython->attach(thread);
    }
}

static int install_domains(const struct hf_cpython *cpython, enum hf_python_mode wanted)
{
    int error = hf_domain_install(cpython, HF_PY_RAW);
    hf_mimalloc_install(cpython);
    if (!cpython->free_threaded && error == 0)
        hf_pymalloc_install(cpython);
    if (wanted == HF_PYTHON_FULL && error == 0)
        error = hf_domain_install(cpython, HF_PY_MEM);
    if (wanted == HF_PYTHON_FULL && error == 0 && !cpython->free_threaded) {
        error = hf_domain_install(cpython, HF_PY_OBJECT);
        hf_pymalloc_set_objects(hf_domain_previous(HF_PY_OBJECT));
    }
    return error;
}

/* Whether the domain MEM may leave CPython's mimalloc. In a free-threaded build its documentation
 * forbids it, and its code, up to 3.14, does not mind: the collector walks through the pages of
 * objects alone, what other threads may still be reading of an array is freed after they have
 * passed a quiescent state, by whatever PyMem_Free() is, and mimalloc itself keeps no page of MEM
 * for readers (page_use_qsbr). Objects must stay: the collector finds them by their pages, and
 * other threads may read one that was freed. */
static bool mem_may_move(const struct hf_cpython *cpython)
{
    return !cpython->free_threaded || cpython->version <= 0x30e;
}

static int install_python(const struct hf_cpython *cpython, enum hf_python_mode wanted,
                          enum hf_python_mode *now)
{
    lock_host(cpython);
    /* A mode that is already higher stays in force. */
    int error = wanted > HF_PYTHON_OFF ? install_domains(cpython, wanted) : 0;
    if (wanted == HF_PYTHON_ARENA && cpython->free_threaded)
        wanted = HF_PYTHON_RAW;
    if (error == 0 && wanted > mode)
        mode = wanted;
    *now = mode;
    pthread_mutex_unlock(&lock);
    return error;
}

static int install(const struct hf_python_options *options, struct hf_python_state *out)
{
    struct hf_python_options wanted = {
        .size = sizeof wanted, .python = HF_PYTHON_ARENA, .numpy = 1};
    struct hf_python_state state = {.numpy = HF_PYTHON_NUMPY_OFF};
    if (options != NULL) {
        if (options->size <= sizeof(size_t))
            return -EINVAL;
        hf_sized_copy(&wanted, options, options->size);
    }
    if (wanted.python < HF_PYTHON_OFF || wanted.python > HF_PYTHON_FULL ||
        wanted.python == HF_PYTHON_RAW || (out != NULL && out->size <= sizeof(size_t)))
        return -EINVAL;
    const struct hf_cpython *cpython = hf_cpython_find((const void *)wanted.cpython);
    if (cpython == NULL)
        return -ENOENT;
    /* CPython passes some RAW memory to libc's free(), which must be routed to the heap. */
    if (!hf_options.route)
        return -EPERM;
    if (wanted.python == HF_PYTHON_FULL && !mem_may_move(cpython))
        return -ENOSYS;
    bool running = cpython->is_initialized() != 0;
    if (running && !hf_cpython_attached(cpython))
        return -EACCES;
    int error = install_python(cpython, wanted.python, &state.python);
    if (error != 0)
        return error;
    if (wanted.numpy != 0)
        state.numpy = running ? hf_numpy_install(cpython) : HF_PYTHON_NUMPY_ABSENT;
    if (out != NULL)
        hf_sized_copy(out, &state, sizeof state);
    return 0;
}

static int uninstall(void)
{
    lock_host(hf_cpython());
    for (enum hf_py_domain domain = HF_PY_RAW; domain < HF_PY_DOMAINS; domain++)
        hf_domain_uninstall(domain);
    hf_pymalloc_uninstall();
    hf_numpy_uninstall();
    mode = HF_PYTHON_OFF;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Programs load several to look at them, before they start one. */
static void give_way(const struct hf_object *object)
{
    const struct hf_cpython *known = hf_cpython();
    if (known != NULL && known->map != object->map && !known->is_initialized() &&
        hf_pymalloc_give_way(known))
        hf_cpython_forget();
}

bool hf_host_meet(const struct hf_object *object, struct hf_mapping_host *out)
{
    const bool mimalloc = hf_mimalloc_is_used(object);
    if (!mimalloc && !hf_whole_process)
        return false;
    give_way(object);
    const struct hf_cpython *cpython =
        hf_cpython_find(hf_object_address(object, "PyMem_SetAllocator"));
    if (cpython == NULL || cpython->map != object->map)
        return false;
    if (hf_whole_process && !cpython->free_threaded && !cpython->is_initialized())
        hf_pymalloc_record(cpython);
    return mimalloc && hf_mimalloc_find(cpython, out);
}

int hf_python_install(const struct hf_python_options *options, struct hf_python_state *out)
{
    HF_INSTANCE_FORWARD(python_install, options, out);
    return install(options, out);
}

int hf_python_uninstall(void)
{
    HF_INSTANCE_FORWARD(python_uninstall);
    return uninstall();
}
