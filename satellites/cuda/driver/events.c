/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks in streams, and waiting. Owns the pool of events that were dropped, a list for each device,
 * guarded by hf_cuda_lock_of_state; what the pool has is published with a single store, so that it
 * is whole in a forked child. The structures come from libc, because CUDA's own threads may free
 * while the heap is busy with them.
 *
 * An event belongs to a context. Streams of a context that the user made (cuCtxCreate()) get events
 * of that context, which are not pooled: the context may end at any time.
 */
#include "alloc/base/libc_functions.h"
#include "satellites/cuda/driver/cuda.h"
#include "satellites/cuda/driver/cuda_calls.h"

#include <errno.h>

enum { POOLED_MOST = 256 }; /* for each device; more are destroyed */

struct hf_cuda_event {
    struct hf_cuda_event *next; /* in the pool */
    hf_cu_event event;
    hf_cu_context context; /* the user's; NULL for a device's primary context */
    int device;
};

static struct hf_cuda_event *pool[HF_CUDA_DEVICES_MAX];
static unsigned pooled[HF_CUDA_DEVICES_MAX];

/* ---- events ---- */

static struct hf_cuda_event *take_pooled(int device)
{
    pthread_mutex_lock(&hf_cuda_lock_of_state);
    struct hf_cuda_event *event = pool[device];
    if (event != NULL) {
        pool[device] = event->next;
        pooled[device]--;
    }
    pthread_mutex_unlock(&hf_cuda_lock_of_state);
    return event;
}

/* Within a scope, whose context is the event's. */
static hf_cu_result make_event(const struct hf_cuda_scope *scope, int device, hf_cu_context context,
                               struct hf_cuda_event **out)
{
    struct hf_cuda_event *event = hf_libc()->malloc(sizeof *event);
    if (event == NULL)
        return HF_CU_OUT_OF_MEMORY;
    *event = (struct hf_cuda_event){.context = context, .device = device};
    const hf_cu_result error =
        scope->call->cuEventCreate(&event->event, HF_CU_EVENT_DISABLE_TIMING);
    if (error != 0)
        hf_libc()->free(event);
    else
        *out = event;
    return error;
}

static int enter_of(struct hf_cuda_scope *scope, const struct hf_cuda_event *event)
{
    return event->context != NULL ? hf_cuda_enter_context(scope, event->context)
                                  : hf_cuda_enter(scope, event->device);
}

static void destroy_event(struct hf_cuda_event *event)
{
    struct hf_cuda_scope scope;
    if (enter_of(&scope, event) == 0) {
        (void)scope.call->cuEventDestroy(event->event);
        hf_cuda_leave(&scope);
    }
    hf_libc()->free(event);
}

void hf_cuda_drop(struct hf_cuda_event *event)
{
    bool is_kept = false;
    if (event == NULL)
        return;
    if (event->context == NULL) {
        pthread_mutex_lock(&hf_cuda_lock_of_state);
        is_kept = pooled[event->device] < POOLED_MOST;
        if (is_kept) {
            event->next = pool[event->device];
            pool[event->device] = event;
            pooled[event->device]++;
        }
        pthread_mutex_unlock(&hf_cuda_lock_of_state);
    }
    if (!is_kept)
        destroy_event(event);
}

/* ---- marks ---- */

/* In a scope: an event at the end of the stream's work. */
static hf_cu_result record(const struct hf_cuda_scope *scope, int device, hf_cu_context context,
                           hf_cu_stream stream, const char **call, struct hf_cuda_event **out)
{
    struct hf_cuda_event *event = context == NULL ? take_pooled(device) : NULL;
    hf_cu_result error = 0;
    *call = "cuEventCreate";
    if (event == NULL)
        error = make_event(scope, device, context, &event);
    if (error != 0)
        return error;
    *call = "cuEventRecord";
    error = scope->call->cuEventRecord(event->event, stream);
    if (error == 0)
        *out = event;
    else
        hf_cuda_drop(event);
    return error;
}

/* The stream is not one of the device's primary context: its own context is asked for. */
static int mark_elsewhere(int device, hf_cu_stream stream, struct hf_cuda_event **out)
{
    struct hf_cuda_scope scope;
    hf_cu_context context = NULL;
    hf_cu_capture_status status = HF_CU_STREAM_CAPTURE_STATUS_NONE;
    const char *call;
    const struct hf_cuda_functions *functions = hf_cuda_functions();
    if (functions == NULL)
        return -ESHUTDOWN;
    if (functions->cuStreamGetCtx(stream, &context) != 0 || context == NULL)
        return -EINVAL;
    const int result = hf_cuda_enter_context(&scope, context);
    if (result != 0)
        return result == -ESHUTDOWN && hf_cuda_ready() == 0 ? -EINVAL : result;
    hf_cu_result error = scope.call->cuStreamIsCapturing(stream, &status);
    const bool is_capturing = error == 0 && status != HF_CU_STREAM_CAPTURE_STATUS_NONE;
    if (error == 0 && !is_capturing)
        error = record(&scope, device, context, stream, &call, out);
    hf_cuda_leave(&scope);
    return is_capturing ? -EBUSY : hf_cuda_errno_of(error);
}

static bool is_special(hf_cu_stream stream)
{
    return (uintptr_t)stream <= HF_CU_STREAM_PER_THREAD;
}

bool hf_cuda_is_elsewhere(int device, void *stream)
{
    struct hf_cuda_scope scope;
    hf_cu_context own = NULL, context = NULL;
    if (is_special(stream))
        return false;
    if (hf_cuda_enter(&scope, device) != 0)
        return true;
    const hf_cu_result error = scope.call->cuStreamGetCtx(stream, &context);
    const bool known = error == 0 && scope.call->cuCtxGetCurrent(&own) == 0;
    hf_cuda_leave(&scope);
    return !known || context != own;
}

bool hf_cuda_is_capturing(int device, void *stream)
{
    struct hf_cuda_scope scope;
    hf_cu_capture_status status = HF_CU_STREAM_CAPTURE_STATUS_NONE;
    if (hf_cuda_enter(&scope, device) != 0)
        return false;
    const hf_cu_result error = scope.call->cuStreamIsCapturing(stream, &status);
    hf_cuda_leave(&scope);
    return hf_cuda_errno_of(error) == -EBUSY ||
           (error == 0 && status != HF_CU_STREAM_CAPTURE_STATUS_NONE);
}

int hf_cuda_mark(int device, void *stream, struct hf_cuda_event **out)
{
    struct hf_cuda_scope scope;
    hf_cu_capture_status status = HF_CU_STREAM_CAPTURE_STATUS_NONE;
    const char *call = "cuStreamIsCapturing";
    int result = hf_cuda_enter(&scope, device);
    if (result != 0)
        return result;
    hf_cu_result error = scope.call->cuStreamIsCapturing(stream, &status);
    if (error == 0 && status != HF_CU_STREAM_CAPTURE_STATUS_NONE) {
        hf_cuda_leave(&scope);
        return -EBUSY;
    }
    if (error == 0)
        error = record(&scope, device, NULL, stream, &call, out);
    const bool may_be_elsewhere =
        !is_special(stream) && (error == HF_CU_INVALID_HANDLE || error == HF_CU_INVALID_CONTEXT ||
                                error == HF_CU_INVALID_VALUE);
    if (!may_be_elsewhere)
        return hf_cuda_done(&scope, call, error);
    hf_cuda_leave(&scope);
    result = mark_elsewhere(device, stream, out);
    errno = scope.saved_errno;
    return result == -EINVAL ? hf_cuda_failed(call, error) : result;
}

/* In a scope: makes the stream wait, unless it is being captured, which an event from outside would
 * invalidate. */
static hf_cu_result wait_in(const struct hf_cuda_scope *scope, hf_cu_stream stream,
                            const struct hf_cuda_event *event, const char **call,
                            bool *is_capturing)
{
    hf_cu_capture_status status = HF_CU_STREAM_CAPTURE_STATUS_NONE;
    *call = "cuStreamIsCapturing";
    const hf_cu_result error = scope->call->cuStreamIsCapturing(stream, &status);
    *is_capturing = error == 0 && status != HF_CU_STREAM_CAPTURE_STATUS_NONE;
    if (error != 0 || *is_capturing)
        return error;
    *call = "cuStreamWaitEvent";
    return scope->call->cuStreamWaitEvent(stream, event->event, 0);
}

static int order_after(int device, const struct hf_cuda_event *event, hf_cu_stream after)
{
    struct hf_cuda_scope scope;
    hf_cu_context context = NULL;
    const char *call;
    bool is_capturing = false;
    int result = hf_cuda_enter(&scope, device);
    if (result != 0)
        return result;
    hf_cu_result error = wait_in(&scope, after, event, &call, &is_capturing);
    if (error != 0 && !is_special(after) && scope.call->cuStreamGetCtx(after, &context) == 0 &&
        context != NULL) {
        hf_cuda_leave(&scope);
        result = hf_cuda_enter_context(&scope, context);
        if (result != 0)
            return result;
        error = wait_in(&scope, after, event, &call, &is_capturing);
    }
    result = hf_cuda_done(&scope, call, error);
    return is_capturing ? -EBUSY : result;
}

int hf_cuda_order(int device, void *before, void *after)
{
    struct hf_cuda_event *event = NULL;
    if (before == after)
        return 0;
    int result = hf_cuda_mark(device, before, &event);
    if (result == 0 && event != NULL)
        result = order_after(device, event, after);
    hf_cuda_drop(event);
    return result;
}

/* The end of a context that the user made ends nothing else. */
static int end_elsewhere(const struct hf_cuda_event *event, int error)
{
    return error == -ESHUTDOWN && event->context != NULL && hf_cuda_ready() == 0 ? -EINVAL : error;
}

int hf_cuda_await(struct hf_cuda_event *event)
{
    struct hf_cuda_scope scope;
    const int result = enter_of(&scope, event);
    if (result != 0)
        return end_elsewhere(event, result);
    const hf_cu_result error = scope.call->cuEventSynchronize(event->event);
    if (event->context != NULL) {
        hf_cuda_leave(&scope);
        return end_elsewhere(event, hf_cuda_errno_of(error));
    }
    return hf_cuda_done(&scope, "cuEventSynchronize", error);
}

int hf_cuda_is_done(struct hf_cuda_event *event)
{
    struct hf_cuda_scope scope;
    const int result = enter_of(&scope, event);
    if (result != 0)
        return end_elsewhere(event, result);
    const hf_cu_result error = scope.call->cuEventQuery(event->event);
    if (error == HF_CU_NOT_READY || event->context != NULL) {
        hf_cuda_leave(&scope);
        return end_elsewhere(event, hf_cuda_errno_of(error));
    }
    return hf_cuda_done(&scope, "cuEventQuery", error);
}

/* ---- waiting ---- */

/* To wait for a device would invalidate a capture in it. That there is one can be seen only if its
 * stream synchronises with the default stream. */
static int wait_for(int device)
{
    struct hf_cuda_scope scope;
    hf_cu_capture_status status = HF_CU_STREAM_CAPTURE_STATUS_NONE;
    const int result = hf_cuda_enter(&scope, device);
    if (result != 0)
        return result;
    const hf_cu_result error =
        scope.call->cuStreamIsCapturing((hf_cu_stream)(uintptr_t)HF_CU_STREAM_LEGACY, &status);
    if (error != 0)
        return hf_cuda_done(&scope, "cuStreamIsCapturing", error);
    return hf_cuda_done(&scope, "cuCtxSynchronize", scope.call->cuCtxSynchronize());
}

int hf_cuda_wait(int device)
{
    if (device >= 0)
        return wait_for(device);
    int result = 0;
    const int count = hf_cuda_devices();
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        const int waited = hf_cuda_has_context(i) ? wait_for(i) : 0;
        result = result != 0 ? result : waited;
    }
    return result;
}
