/*
 * The double of CUDA: the functions that libcuda.so.1 exports. See double.h.
 */
#include "api.h"
#include "control.h"
#include "double.h"

enum { PORTABLE_FLAGS = 0xf, CAN_MAP = 102, UNIFIED_ADDRESSING = 41, MEMORY_POOLS = 115 };

/* ---- the driver and its devices ---- */

static int start(void)
{
    double_is_initialised = true;
    return double_device_count > 0 ? 0 : NO_DEVICE;
}

CUresult cuInit(unsigned flags)
{
    DOUBLE_CALL("cuInit", NULL, flags != 0 ? INVALID_VALUE : start());
}

static int store(int *out, int value)
{
    *out = value;
    return 0;
}

CUresult cuDriverGetVersion(int *version)
{
    DOUBLE_CALL("cuDriverGetVersion", NULL, store(version, 13000));
}

static int name_of(int error, const char **name)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {0, "CUDA_SUCCESS"},
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {UNLOADING, "CUDA_ERROR_DEINITIALIZED"},
        {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_READY, "CUDA_ERROR_NOT_READY"},
        {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
        {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
        {NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
        {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
        {999, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].error == error) {
            *name = names[i].name;
            return 0;
        }
    *name = NULL;
    return INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    DOUBLE_CALL("cuGetErrorName", NULL, name_of(error, name));
}

static bool is_device(int device)
{
    return device >= 0 && device < double_device_count;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    DOUBLE_CALL("cuDeviceGet", NULL, is_device(ordinal) ? store(device, ordinal) : INVALID_DEVICE);
}

CUresult cuDeviceGetCount(int *count)
{
    DOUBLE_CALL("cuDeviceGetCount", NULL, store(count, double_device_count));
}

static int attribute_of(int *value, int attribute, int device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    *value = attribute == CAN_MAP ? !double_device[device].cannot_map
                                  : attribute == UNIFIED_ADDRESSING || attribute == MEMORY_POOLS;
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    DOUBLE_CALL("cuDeviceGetAttribute", "cudaDeviceGetAttribute",
                attribute_of(value, attribute, device));
}

/* ---- contexts ---- */

static int state_of(int device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = is_device(device) && double_device[device].primary.is_live;
    return is_device(device) ? 0 : INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    DOUBLE_CALL("cuDevicePrimaryCtxGetState", NULL, state_of(device, flags, active));
}

static int retain(CUcontext *out, int device)
{
    struct double_context *context;
    const int error = double_primary(device, &context);
    if (error != 0)
        return error;
    context->retained++;
    *out = context;
    return 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    DOUBLE_CALL("cuDevicePrimaryCtxRetain", NULL, retain(context, device));
}

static int release(int device)
{
    if (!is_device(device) || double_device[device].primary.retained == 0)
        return INVALID_CONTEXT;
    if (--double_device[device].primary.retained == 0)
        double_end_context(&double_device[device].primary);
    return 0;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    DOUBLE_CALL("cuDevicePrimaryCtxRelease", NULL, release(device));
}

static int reset(int device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    double_end_context(&double_device[device].primary);
    return 0;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    DOUBLE_CALL("cuDevicePrimaryCtxReset", "cudaDeviceReset", reset(device));
}

static int create_context(CUcontext *out, int device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    struct double_context *context = double_new_context(device);
    *out = context;
    return double_push(context);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    DOUBLE_CALL("cuCtxCreate", NULL, (void)flags, create_context(context, device));
}

static int destroy_context(struct double_context *context)
{
    struct double_context *top = double_top();
    if (!double_is_context(context) || context->is_primary || !context->is_live)
        return INVALID_CONTEXT;
    double_end_context(context);
    return top == context ? double_pop(&top) : 0;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    DOUBLE_CALL("cuCtxDestroy", NULL, destroy_context(context));
}

static int store_pointer(void **out, void *value)
{
    *out = value;
    return 0;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    DOUBLE_CALL("cuCtxGetCurrent", NULL, store_pointer(context, double_top()));
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    DOUBLE_CALL("cuCtxSetCurrent", NULL, double_set_top(context));
}

static int device_of_context(int *device)
{
    const struct double_context *top = double_top();
    return top != NULL ? store(device, top->device) : INVALID_CONTEXT;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    DOUBLE_CALL("cuCtxGetDevice", NULL, device_of_context(device));
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    DOUBLE_CALL("cuCtxPushCurrent", NULL, double_push(context));
}

static int pop(CUcontext *out)
{
    struct double_context *top;
    const int error = double_pop(&top);
    return error != 0 ? error : store_pointer(out, top);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    DOUBLE_CALL("cuCtxPopCurrent", NULL, pop(context));
}

CUresult cuCtxSynchronize(void)
{
    DOUBLE_CALL("cuCtxSynchronize", "cudaDeviceSynchronize", double_synchronize());
}

/* ---- streams and events ---- */

static int create_stream(CUstream *out, unsigned flags)
{
    struct double_context *context;
    struct double_stream *stream = NULL;
    int error = double_current(&context);
    if (error == 0)
        error = double_new_stream(context, (flags & cudaStreamNonBlocking) == 0, &stream);
    return error != 0 ? error : store_pointer(out, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    DOUBLE_CALL("cuStreamCreate", "cudaStreamCreateWithFlags", create_stream(stream, flags));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    DOUBLE_CALL("cuStreamDestroy", "cudaStreamDestroy", double_destroy_stream(stream));
}

static int context_of(CUstream handle, CUcontext *out)
{
    struct double_stream *stream;
    const int error = double_stream_of(handle, &stream);
    return error != 0 ? error : store_pointer(out, stream->context);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    DOUBLE_CALL("cuStreamGetCtx", NULL, context_of(stream, context));
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    DOUBLE_CALL("cuStreamIsCapturing", "cudaStreamIsCapturing",
                double_is_capturing(stream, status));
}

static int synchronize_stream(CUstream handle)
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

CUresult cuStreamSynchronize(CUstream stream)
{
    DOUBLE_CALL("cuStreamSynchronize", "cudaStreamSynchronize", synchronize_stream(stream));
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    DOUBLE_CALL("cuThreadExchangeStreamCaptureMode", "cudaThreadExchangeStreamCaptureMode",
                double_exchange_mode(mode));
}

static int create_event(CUevent *out)
{
    struct double_event *event = NULL;
    const int error = double_new_event(&event);
    return error != 0 ? error : store_pointer(out, event);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    DOUBLE_CALL("cuEventCreate", "cudaEventCreateWithFlags", (void)flags, create_event(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    DOUBLE_CALL("cuEventRecord", "cudaEventRecord", double_record(event, stream));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    DOUBLE_CALL("cuStreamWaitEvent", "cudaStreamWaitEvent", double_stream_wait(stream, event));
}

CUresult cuEventSynchronize(CUevent event)
{
    DOUBLE_CALL("cuEventSynchronize", "cudaEventSynchronize", double_event_wait(event));
}

CUresult cuEventQuery(CUevent event)
{
    DOUBLE_CALL("cuEventQuery", "cudaEventQuery", double_event_query(event));
}

CUresult cuEventDestroy_v2(CUevent event)
{
    DOUBLE_CALL("cuEventDestroy", "cudaEventDestroy", double_destroy_event(event));
}
