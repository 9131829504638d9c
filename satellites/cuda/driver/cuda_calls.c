/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the sealed table of CUDA's functions, the primary contexts that homefree retains, the text
 * of the last failure, and whether CUDA may be called at all. See cuda_calls.h, and cuda.h for what
 * may be called when.
 *
 * The table is written once and then only read; `published` says so. A primary context is retained
 * at its first use and kept: were it released, the context would end with our memory in it.
 */
#include "satellites/cuda/driver/cuda_calls.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/seal.h"
#include "satellites/cuda/driver/cuda.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static HF_SEALED_UNION(struct hf_cuda_functions, functions) table HF_SEALED;

pthread_mutex_t HF_FORK_LOCK hf_cuda_lock_of_state = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool published, over;
static _Atomic(hf_cu_context) contexts[HF_CUDA_DEVICES_MAX];
/* Always ends with a zero byte, in a forked child, too. */
static char reason[512];

/* ---- the table ---- */

bool hf_cuda_found(void)
{
    return atomic_load_explicit(&published, memory_order_acquire);
}

int hf_cuda_ready(void)
{
    if (atomic_load_explicit(&over, memory_order_relaxed))
        return -ESHUTDOWN;
    return hf_cuda_found() ? 0 : -ENODEV;
}

const struct hf_cuda_functions *hf_cuda_functions(void)
{
    return hf_cuda_ready() == 0 ? &table.functions : NULL;
}

int hf_cuda_publish(const struct hf_cuda_functions *functions)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return -EIO;
    /* Only one thread at a time gets here, and it may not take a lock. */
    const bool first = !hf_cuda_found();
    if (first) {
        table.functions = *functions;
        atomic_store_explicit(&published, true, memory_order_release);
    }
    hf_seal_close(&seal);
    return first ? 0 : -EEXIST;
}

void hf_cuda_forbid(void)
{
    atomic_store(&over, true);
}

/* ---- errors ---- */

void hf_cuda_set_reason(const char *first, ...)
{
    char text[sizeof reason] = "";
    size_t length = 0;
    va_list more;
    va_start(more, first);
    for (const char *part = first; part != NULL; part = va_arg(more, const char *)) {
        const size_t size = strnlen(part, sizeof text - 1 - length);
        memcpy(text + length, part, size);
        length += size;
    }
    va_end(more);
    pthread_mutex_lock(&hf_cuda_lock_of_state);
    memcpy(reason, text, sizeof reason);
    pthread_mutex_unlock(&hf_cuda_lock_of_state);
}

void hf_cuda_reason(char *text, size_t size)
{
    if (size == 0)
        return;
    pthread_mutex_lock(&hf_cuda_lock_of_state);
    const size_t length = strnlen(reason, size - 1);
    memcpy(text, reason, length);
    pthread_mutex_unlock(&hf_cuda_lock_of_state);
    text[length] = '\0';
}

/* All that homefree does about an error follows from this; others are -EIO. */
static const struct {
    hf_cu_result error;
    int result;
} errors[] = {
    {0, 0},
    {HF_CU_INVALID_VALUE, -EINVAL},
    {HF_CU_INVALID_DEVICE, -EINVAL},
    {HF_CU_INVALID_HANDLE, -EINVAL},
    {HF_CU_HOST_MEMORY_ALREADY_REGISTERED, -EINVAL},
    {HF_CU_HOST_MEMORY_NOT_REGISTERED, -EINVAL},
    {HF_CU_OUT_OF_MEMORY, -ENOMEM},
    {HF_CU_NOT_INITIALIZED, -ENODEV},
    {HF_CU_STUB_LIBRARY, -ENODEV},
    {HF_CU_INSUFFICIENT_DRIVER, -ENODEV},
    {HF_CU_CALL_REQUIRES_NEWER_DRIVER, -ENODEV},
    {HF_CU_DEVICE_UNAVAILABLE, -ENODEV},
    {HF_CU_NO_DEVICE, -ENODEV},
    {HF_CU_SYSTEM_DRIVER_MISMATCH, -ENODEV},
    {HF_CU_COMPAT_NOT_SUPPORTED_ON_DEVICE, -ENODEV},
    {HF_CU_DEINITIALIZED, -ESHUTDOWN},
    {HF_CU_INVALID_CONTEXT, -ESHUTDOWN},
    {HF_CU_CONTEXT_IS_DESTROYED, -ESHUTDOWN},
    {HF_CU_NOT_READY, -EAGAIN},
    {HF_CU_NOT_SUPPORTED, -ENOTSUP},
};

int hf_cuda_errno_of(hf_cu_result error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return errors[i].result;
    return error >= HF_CU_STREAM_CAPTURE_UNSUPPORTED && error <= HF_CU_STREAM_CAPTURE_WRONG_THREAD
               ? -EBUSY
               : -EIO;
}

int hf_cuda_public(int error)
{
    switch (error) {
    case 0:
    case -EBUSY:
    case -ENODEV:
    case -ENOMEM:
        return error;
    case -ESHUTDOWN:
        return -ENODEV;
    default:
        return -EIO;
    }
}

int hf_cuda_failed(const char *call, hf_cu_result error)
{
    const int result = hf_cuda_errno_of(error);
    if (result == 0)
        return 0;
    const char *name = NULL;
    char number[32];
    const int saved_errno = errno;
    if (hf_cuda_ready() != 0 || table.functions.cuGetErrorName(error, &name) != 0 || name == NULL)
        name = "error";
    snprintf(number, sizeof number, " (%d)", error);
    hf_cuda_set_reason(call, ": ", name, number, NULL);
    if (result == -ESHUTDOWN)
        atomic_store(&over, true);
    errno = saved_errno;
    return result;
}

struct hf_cuda_last hf_cuda_last_before(const struct hf_cuda_functions *functions)
{
    return (struct hf_cuda_last){functions->cudaPeekAtLastError()};
}

void hf_cuda_last_after(const struct hf_cuda_functions *functions, struct hf_cuda_last last,
                        hf_cu_error error)
{
    if (error != 0 && last.before == 0)
        (void)functions->cudaGetLastError();
}

/* ---- contexts ---- */

static int enter(struct hf_cuda_scope *scope, hf_cu_context context, bool ends)
{
    scope->call = &table.functions;
    const hf_cu_result error = scope->call->cuCtxPushCurrent(context);
    if (error != 0) {
        const int result =
            ends ? hf_cuda_failed("cuCtxPushCurrent", error) : hf_cuda_errno_of(error);
        errno = scope->saved_errno;
        return result;
    }
    scope->mode = HF_CU_STREAM_CAPTURE_MODE_RELAXED;
    scope->mode_is_changed = scope->call->cuThreadExchangeStreamCaptureMode(&scope->mode) == 0;
    return 0;
}

/* The device's primary context. It is created and retained once. */
static int context_of(int device, hf_cu_context *out)
{
    const struct hf_cuda_functions *functions = &table.functions;
    if (device < 0 || device >= functions->count)
        return -EINVAL;
    *out = atomic_load_explicit(&contexts[device], memory_order_acquire);
    if (*out != NULL)
        return 0;
    const hf_cu_result error = functions->cuDevicePrimaryCtxRetain(out, functions->device[device]);
    if (error != 0)
        return hf_cuda_failed("cuDevicePrimaryCtxRetain", error);
    hf_cu_context none = NULL;
    if (!atomic_compare_exchange_strong(&contexts[device], &none, *out))
        (void)functions->cuDevicePrimaryCtxRelease(functions->device[device]);
    return 0;
}

int hf_cuda_enter(struct hf_cuda_scope *scope, int device)
{
    hf_cu_context context;
    scope->saved_errno = errno;
    int result = hf_cuda_ready();
    if (result == 0)
        result = context_of(device, &context);
    if (result != 0) {
        errno = scope->saved_errno;
        return result;
    }
    return enter(scope, context, true);
}

int hf_cuda_enter_any(struct hf_cuda_scope *scope)
{
    scope->saved_errno = errno;
    const int result = hf_cuda_ready();
    if (result != 0)
        return result;
    for (int i = 0; i < table.functions.count; i++) {
        hf_cu_context context = atomic_load_explicit(&contexts[i], memory_order_acquire);
        if (context != NULL)
            return enter(scope, context, true);
    }
    return -EINVAL;
}

int hf_cuda_enter_context(struct hf_cuda_scope *scope, hf_cu_context context)
{
    scope->saved_errno = errno;
    const int result = hf_cuda_ready();
    return result != 0 ? result : enter(scope, context, false);
}

void hf_cuda_leave(const struct hf_cuda_scope *scope)
{
    hf_cu_capture_mode mode = scope->mode;
    hf_cu_context context;
    if (scope->mode_is_changed)
        (void)scope->call->cuThreadExchangeStreamCaptureMode(&mode);
    (void)scope->call->cuCtxPopCurrent(&context);
    errno = scope->saved_errno;
}

int hf_cuda_done(const struct hf_cuda_scope *scope, const char *call, hf_cu_result error)
{
    const int result = hf_cuda_failed(call, error);
    hf_cuda_leave(scope);
    return result;
}
