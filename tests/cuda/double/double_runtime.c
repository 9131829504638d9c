/*
 * The double of CUDA: what libcudart.so.13 exports, but for memory. See runtime.h.
 */
#include "api.h"
#include "runtime.h"

enum { NON_BLOCKING = 1 };

static _Thread_local int last_error;
static _Thread_local int chosen; /* the device of a thread without a context */

int double_last(int error)
{
    if (error != 0)
        last_error = error;
    return error;
}

int double_runtime_enter(const char *function)
{
    double_lock();
    double_is_initialised = true;
    const int error = double_enter(function, NULL);
    double_unlock();
    return error != 0 || double_device_count > 0 ? error : NO_DEVICE;
}

int double_context(struct double_context **out)
{
    *out = double_top();
    if (*out != NULL && ((*out)->is_live || !(*out)->is_primary))
        return double_current(out);
    const int error = double_primary(*out != NULL ? (*out)->device : chosen, out);
    if (error == 0 && (*out)->retained == 0)
        (*out)->retained = 1;
    return error != 0 ? error : double_set_top(*out);
}

/* ---- versions and errors ---- */

static int store(int *out, int value)
{
    *out = value;
    return 0;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    DOUBLE_CALL("cudaRuntimeGetVersion", NULL, store(version, double_runtime_version));
}

cudaError_t cudaDriverGetVersion(int *version)
{
    DOUBLE_CALL("cudaDriverGetVersion", NULL, store(version, 13000));
}

cudaError_t cudaPeekAtLastError(void)
{
    (void)double_leave(double_enter("cudaPeekAtLastError", NULL));
    return last_error;
}

cudaError_t cudaGetLastError(void)
{
    const int error = last_error;
    (void)double_leave(double_enter("cudaGetLastError", NULL));
    last_error = 0;
    return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case 0:
        return "cudaSuccess";
    case OUT_OF_MEMORY:
        return "cudaErrorMemoryAllocation";
    case UNLOADING:
        return "cudaErrorCudartUnloading";
    case 35:
        return "cudaErrorInsufficientDriver";
    case NO_DEVICE:
        return "cudaErrorNoDevice";
    default:
        return "cudaErrorOfTheDouble";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    DOUBLE_RUNTIME("cudaGetDeviceCount", store(count, double_device_count));
}

static int current_device(int *device)
{
    const struct double_context *top = double_top();
    return store(device, top != NULL ? top->device : chosen);
}

cudaError_t cudaGetDevice(int *device)
{
    DOUBLE_RUNTIME("cudaGetDevice", current_device(device));
}

/* Since CUDA 12 this creates the primary context. */
static int choose(int device)
{
    struct double_context *context;
    const int error = double_primary(device, &context);
    if (error != 0)
        return error;
    if (context->retained == 0)
        context->retained = 1;
    chosen = device;
    return double_set_top(context);
}

cudaError_t cudaSetDevice(int device)
{
    DOUBLE_RUNTIME("cudaSetDevice", choose(device));
}

cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    return double_last(cuDeviceGetAttribute(value, attribute, device));
}

cudaError_t cudaDeviceSynchronize(void)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaDeviceSynchronize", double_synchronize());
}

static int reset_device(void)
{
    int device;
    (void)current_device(&device);
    double_device[device].primary.retained = 0;
    double_end_context(&double_device[device].primary);
    return 0;
}

cudaError_t cudaDeviceReset(void)
{
    DOUBLE_RUNTIME("cudaDeviceReset", reset_device());
}

/* ---- streams ---- */

static int new_stream(struct double_context *context, cudaStream_t *out, unsigned flags)
{
    struct double_stream *stream = NULL;
    const int error = double_new_stream(context, (flags & NON_BLOCKING) == 0, &stream);
    if (error == 0)
        *out = stream;
    return error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaStreamCreateWithFlags", new_stream(context_, out, flags));
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    DOUBLE_RUNTIME("cudaStreamDestroy", double_destroy_stream(stream));
}

static int synchronize_stream(cudaStream_t handle)
{
    struct double_stream *stream;
    int error = double_stream_of(handle, &stream);
    if (error == 0)
        error = double_uses(stream);
    if (error == 0 && stream->capture != 0)
        error = CAPTURE_UNSUPPORTED;
    if (error != 0)
        return error;
    double_finish_stream(stream);
    return stream->context->lost;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaStreamSynchronize", synchronize_stream(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaStreamQuery", double_stream_query(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    DOUBLE_RUNTIME_IN_CONTEXT("cudaStreamWaitEvent", double_stream_wait(stream, event));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaStreamIsCapturing", double_is_capturing(stream, status));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaStreamBeginCapture", double_begin_capture(stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaStreamEndCapture", double_end_capture(stream, out));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode)
{
    DOUBLE_RUNTIME("cudaThreadExchangeStreamCaptureMode", double_exchange_mode(mode));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    DOUBLE_RUNTIME("cudaGraphDestroy", double_destroy_graph(graph));
}

static int launch(cudaStream_t handle, void (*function)(void *), void *argument)
{
    struct double_stream *stream;
    const int error = double_stream_of(handle, &stream);
    return error != 0 ? error : double_enqueue_call(stream, function, argument);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *argument)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaLaunchHostFunc", launch(stream, function, argument));
}

/* ---- events ---- */

static int new_event(cudaEvent_t *out)
{
    struct double_event *event = NULL;
    const int error = double_new_event(&event);
    if (error == 0)
        *out = event;
    return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    DOUBLE_RUNTIME_IN_CONTEXT("cudaEventCreateWithFlags", new_event(out));
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaEventRecord", double_record(event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaEventQuery", double_event_query(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaEventSynchronize", double_event_wait(event));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    DOUBLE_RUNTIME("cudaEventDestroy", double_destroy_event(event));
}
