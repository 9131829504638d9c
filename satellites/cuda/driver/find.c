/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds a CUDA runtime, asks it for devices, and looks up the functions of the driver. Owns no
 * state: what is found goes to cuda_calls.c. Takes the dynamic linker's lock, and no other is held
 * meanwhile, because another library's constructor may wait for ours under that lock.
 *
 * A runtime that is used is kept loaded, by a reference of our own. One that was loaded here and
 * has no device stays loaded as well: it has started the driver, and threads, by then.
 */
#include "alloc/base/base_name.h"
#include "alloc/base/options.h"
#include "satellites/cuda/driver/cuda.h"
#include "satellites/cuda/driver/cuda_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const sonames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
enum { MAJOR_FIRST = 11, MAJOR_LAST = 13, PATH_MOST = 1024 };

/* ---- functions ---- */

/* Looks up the runtime's or the driver's functions. NULL, or the name of one that is missing. */
static const char *look_up_runtime(void *handle, struct hf_cuda_functions *out)
{
#define HF_CUDA_RUNTIME(result, name, parameters) \
    *(void **)&out->name = dlsym(handle, #name);  \
    if (out->name == NULL)                        \
        return #name;
#define HF_CUDA_DRIVER(name, symbol, parameters)
#define HF_CUDA_DRIVER_OPTIONAL(name, symbol, parameters)
#include "satellites/cuda/driver/cuda_functions.def"
#undef HF_CUDA_RUNTIME
#undef HF_CUDA_DRIVER
#undef HF_CUDA_DRIVER_OPTIONAL
    return NULL;
}

static const char *look_up_driver(void *handle, struct hf_cuda_functions *out)
{
#define HF_CUDA_RUNTIME(result, name, parameters)
#define HF_CUDA_DRIVER(name, symbol, parameters)   \
    *(void **)&out->name = dlsym(handle, #symbol); \
    if (out->name == NULL)                         \
        return #symbol;
#define HF_CUDA_DRIVER_OPTIONAL(name, symbol, parameters) \
    *(void **)&out->name = dlsym(handle, #symbol);
#include "satellites/cuda/driver/cuda_functions.def"
#undef HF_CUDA_RUNTIME
#undef HF_CUDA_DRIVER
#undef HF_CUDA_DRIVER_OPTIONAL
    return NULL;
}

/* ---- the driver ---- */

/* Whether an older runtime may work with this driver. */
static bool wants_other_driver(hf_cu_error error)
{
    return error == HF_CU_INSUFFICIENT_DRIVER || error == HF_CU_CALL_REQUIRES_NEWER_DRIVER ||
           error == HF_CU_SYSTEM_DRIVER_MISMATCH || error == HF_CU_COMPAT_NOT_SUPPORTED_ON_DEVICE;
}

/* -ENOTSUP: another runtime may do. */
static int find_devices(const char *path, struct hf_cuda_functions *functions)
{
    int count = 0;
    const struct hf_cuda_last last = hf_cuda_last_before(functions);
    const hf_cu_error error = functions->cudaGetDeviceCount(&count);
    hf_cuda_last_after(functions, last, error);
    if (error != 0) {
        char number[32];
        snprintf(number, sizeof number, " (%d)", error);
        hf_cuda_set_reason(path, ": cudaGetDeviceCount: ", functions->cudaGetErrorName(error),
                           number, NULL);
        if (wants_other_driver(error))
            return -ENOTSUP;
        return hf_cuda_errno_of(error) == -ESHUTDOWN ? -ESHUTDOWN : -ENODEV;
    }
    if (count <= 0) {
        hf_cuda_set_reason(path, ": there is no device", NULL);
        return -ENODEV;
    }
    functions->count = count < HF_CUDA_DEVICES_MAX ? count : HF_CUDA_DEVICES_MAX;
    return 0;
}

/* The runtime has loaded the driver by now, unless it reaches it in a way of its own. */
static void *load_driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return handle != NULL ? handle : dlopen("libcuda.so.1", RTLD_NOW);
}

static int find_driver(struct hf_cuda_functions *functions)
{
    void *handle = load_driver();
    if (handle == NULL) {
        hf_cuda_set_reason("the driver cannot be loaded: ", dlerror(), NULL);
        return -ENODEV;
    }
    const char *const missing = look_up_driver(handle, functions);
    if (missing != NULL) {
        hf_cuda_set_reason("the driver (libcuda.so.1) is too old: it has no ", missing, NULL);
        (void)dlclose(handle);
        return -ENODEV;
    }
    for (int i = 0; i < functions->count; i++) {
        const hf_cu_result error = functions->cuDeviceGet(&functions->device[i], i);
        if (error != 0) {
            const int result = hf_cuda_failed("cuDeviceGet", error);
            (void)dlclose(handle);
            return result == -ESHUTDOWN ? result : -ENODEV;
        }
    }
    return 0;
}

/* ---- the runtime ---- */

/* Uses a runtime if it can be used. -EAGAIN: another one may do; -ENOTSUP: the same, and this one
 * has started. */
static int try_runtime(void *handle, const char *path)
{
    struct hf_cuda_functions functions;
    memset(&functions, 0, sizeof functions);
    const char *const missing = look_up_runtime(handle, &functions);
    int version = 0;
    if (missing != NULL) {
        hf_cuda_set_reason(path, ": it has no function ", missing, NULL);
        return -EAGAIN;
    }
    if (functions.cudaRuntimeGetVersion(&version) != 0 || version / 1000 < MAJOR_FIRST ||
        version / 1000 > MAJOR_LAST) {
        char text[96];
        snprintf(text, sizeof text, ": version %d.%d of the CUDA runtime; homefree knows %d to %d",
                 version / 1000, version % 1000 / 10, MAJOR_FIRST, MAJOR_LAST);
        hf_cuda_set_reason(path, text, NULL);
        return -EAGAIN;
    }
    int result = find_devices(path, &functions);
    if (result == 0)
        result = find_driver(&functions);
    if (result == 0)
        result = hf_cuda_publish(&functions);
    if (result == 0)
        hf_cuda_set_reason("", NULL);
    else if (result == -EIO) {
        hf_cuda_set_reason("the table of CUDA's functions cannot be written", NULL);
        result = -ENODEV;
    }
    return result == -EEXIST ? 0 : result;
}

struct search {
    size_t skip;          /* matches to pass over */
    char path[PATH_MOST]; /* of the next one */
};

/* Copies the path of a loaded runtime; under the dynamic linker's lock. Wheels bring names such as
 * libcudart-9335f6a2.so.12. */
static int match(struct dl_phdr_info *info, size_t size, void *context)
{
    struct search *search = context;
    const char *const name = hf_base_name(info->dlpi_name);
    const size_t length = strlen(info->dlpi_name);
    (void)size;
    if (strncmp(name, "libcudart", strlen("libcudart")) != 0 || length >= sizeof search->path ||
        search->skip-- > 0)
        return 0;
    memcpy(search->path, info->dlpi_name, length + 1);
    return 1;
}

/* -ENOENT: none is loaded. -EAGAIN: none of them can be used. */
static int try_loaded(void)
{
    struct search search;
    int result = -ENOENT;
    for (size_t i = 0; result == -ENOENT || result == -EAGAIN; i++) {
        search.skip = i;
        if (dl_iterate_phdr(match, &search) == 0)
            break;
        void *handle = dlopen(search.path, RTLD_NOW | RTLD_NOLOAD);
        if (handle == NULL)
            continue;
        result = try_runtime(handle, search.path);
        if (result != 0)
            (void)dlclose(handle);
        if (result == -ENOTSUP)
            result = -EAGAIN;
    }
    return result;
}

/* -ENOENT: it cannot be loaded. -EAGAIN: it cannot be used. */
static int try_file(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW);
    if (handle == NULL)
        return -ENOENT;
    const int result = try_runtime(handle, name);
    if (result == -EAGAIN)
        (void)dlclose(handle);
    return result == -ENOTSUP ? -EAGAIN : result;
}

static int try_sonames(void)
{
    int result = -ENOENT;
    for (size_t i = 0; i < sizeof sonames / sizeof sonames[0]; i++) {
        const int tried = try_file(sonames[i]);
        if (tried == -ENOENT)
            continue;
        result = tried;
        if (result != -EAGAIN)
            break;
    }
    return result;
}

static int find(void)
{
    const int loaded = try_loaded();
    if (loaded != -ENOENT && loaded != -EAGAIN)
        return loaded;
    const bool is_named = hf_options.cuda == HF_FILE_PATH;
    const int result = is_named ? try_file(hf_options.cuda_path) : try_sonames();
    if (result != -ENOENT && result != -EAGAIN)
        return result;
    /* What was refused says more than what was not there. */
    if (result == -ENOENT && is_named) {
        char refused[256] = "";
        if (loaded == -EAGAIN)
            hf_cuda_reason(refused, sizeof refused);
        hf_cuda_set_reason(refused, refused[0] != '\0' ? "; " : "",
                           "the file that the option cuda names cannot be loaded: ", dlerror(),
                           NULL);
    } else if (result == -ENOENT && loaded == -ENOENT)
        hf_cuda_set_reason("no CUDA runtime is loaded, and ", sonames[0], ", ", sonames[1], " and ",
                           sonames[2], " cannot be loaded", NULL);
    return -ENODEV;
}

int hf_cuda_find(void)
{
    const int saved_errno = errno;
    int result = hf_cuda_ready();
    if (result == -ENODEV)
        result = find();
    errno = saved_errno;
    return result;
}
