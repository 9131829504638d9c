/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that others have from CUDA. Owns the sealed table of the driver's functions that are
 * called for it; takes no lock but the dynamic linker's, once. See cuda.h.
 *
 * These functions are the driver's that the process has loaded, whoever loaded it: the memory may
 * come from a runtime that homefree would not choose, or from the driver itself.
 */
#include "alloc/base/seal.h"
#include "satellites/cuda/driver/cuda.h"
#include "satellites/cuda/driver/cuda_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#define OF_DRIVER(name) __typeof__(((struct hf_cuda_functions *)NULL)->name) name
struct driver {
    OF_DRIVER(cuCtxGetCurrent);
    OF_DRIVER(cuCtxGetDevice);
    OF_DRIVER(cuCtxPushCurrent);
    OF_DRIVER(cuCtxPopCurrent);
    OF_DRIVER(cuCtxSynchronize);
    OF_DRIVER(cuPointerGetAttributes);
};

static HF_SEALED_UNION(struct driver, driver) table HF_SEALED;
static atomic_bool taken;

static const struct driver *driver(void)
{
    return atomic_load_explicit(&taken, memory_order_acquire) ? &table.driver : NULL;
}

static bool look_up(void *handle, struct driver *out)
{
    *(void **)&out->cuCtxGetCurrent = dlsym(handle, "cuCtxGetCurrent");
    *(void **)&out->cuCtxGetDevice = dlsym(handle, "cuCtxGetDevice");
    *(void **)&out->cuCtxPushCurrent = dlsym(handle, "cuCtxPushCurrent_v2");
    *(void **)&out->cuCtxPopCurrent = dlsym(handle, "cuCtxPopCurrent_v2");
    *(void **)&out->cuCtxSynchronize = dlsym(handle, "cuCtxSynchronize");
    *(void **)&out->cuPointerGetAttributes = dlsym(handle, "cuPointerGetAttributes");
    return out->cuCtxGetCurrent != NULL && out->cuCtxGetDevice != NULL &&
           out->cuCtxPushCurrent != NULL && out->cuCtxPopCurrent != NULL &&
           out->cuCtxSynchronize != NULL && out->cuPointerGetAttributes != NULL;
}

int hf_cuda_take_driver(void)
{
    struct driver found;
    struct hf_seal seal;
    if (driver() != NULL)
        return 0;
    const int saved_errno = errno;
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    const bool complete = handle != NULL && look_up(handle, &found);
    errno = saved_errno;
    if (!complete || !hf_seal_open(&seal))
        return -ENODEV;
    table.driver = found;
    atomic_store_explicit(&taken, true, memory_order_release);
    hf_seal_close(&seal);
    return 0;
}

int hf_cuda_here(void **context)
{
    const struct driver *call = driver();
    const int saved_errno = errno;
    hf_cu_context current = NULL;
    hf_cu_device device = -1;
    if (call == NULL || call->cuCtxGetCurrent(&current) != 0 || current == NULL ||
        call->cuCtxGetDevice(&device) != 0)
        device = -1;
    errno = saved_errno;
    *context = current;
    return device;
}

struct known {
    unsigned type, managed;
    int device;
    hf_cu_context context; /* NULL: in none, or unknown */
};

static hf_cu_result ask(const struct driver *call, const void *ptr, struct known *known)
{
    hf_cu_pointer_attribute attributes[] = {
        HF_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        HF_CU_POINTER_ATTRIBUTE_IS_MANAGED,
        HF_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        HF_CU_POINTER_ATTRIBUTE_CONTEXT,
    };
    *known = (struct known){.device = -1};
    void *data[] = {&known->type, &known->managed, &known->device, &known->context};
    enum { COUNT = sizeof data / sizeof data[0] };
    return call->cuPointerGetAttributes(COUNT, attributes, data, (uintptr_t)ptr);
}

int hf_cuda_device_of(const void *ptr)
{
    const struct driver *call = driver();
    const int saved_errno = errno;
    struct known known;
    const int device = call != NULL && ask(call, ptr, &known) == 0 ? known.device : -1;
    errno = saved_errno;
    return device >= 0 ? device : -1;
}

static int errno_of(hf_cu_result error)
{
    switch (hf_cuda_errno_of(error)) {
    case 0:
        return 0;
    case -EINVAL:
        return -ENOENT;
    case -ESHUTDOWN:
    case -ENODEV:
        return -ESHUTDOWN;
    default:
        return -EIO;
    }
}

static int release_in_context(const struct driver *call, void *release, void *ptr, bool idle)
{
    const hf_cu_result error = idle ? call->cuCtxSynchronize() : 0;
    return errno_of(error != 0 ? error : ((hf_cu_result(*)(void *))release)(ptr));
}

/* In the memory's own context, because a runtime's function would make one in a thread that has
 * none. The driver is asked first: the context that it was allocated in may have ended. */
static int release_known(const struct driver *call, void *release, void *ptr, void *context,
                         bool idle)
{
    struct known known;
    const hf_cu_result error = ask(call, ptr, &known);
    /* Without a context, some drivers know no address. */
    if (error != 0 && error != HF_CU_INVALID_CONTEXT)
        return errno_of(error);
    if (error == 0 && known.type == 0 && known.managed == 0)
        return -ENOENT;
    hf_cu_context current = known.context != NULL ? known.context : context;
    if (current == NULL || call->cuCtxPushCurrent(current) != 0)
        return -ESHUTDOWN;
    const int result = release_in_context(call, release, ptr, idle);
    (void)call->cuCtxPopCurrent(&current);
    return result;
}

int hf_cuda_release(void *release, void *ptr, void *context, bool idle)
{
    const struct driver *call = driver();
    const int saved_errno = errno;
    const int result = call != NULL ? release_known(call, release, ptr, context, idle) : -ENODEV;
    errno = saved_errno;
    return result;
}
