/*
 * The double of CUDA: devices, their primary contexts, the contexts that a program makes, and which
 * of them is each thread's. See double.h.
 */
#include "control.h"
#include "double.h"

#include <stdlib.h>

enum { DEPTH_MAX = 32 };

int double_device_count = 2;
struct double_device double_device[DEVICES_MAX];
bool double_is_initialised;
int double_runtime_version = 13000;

static struct double_context others[CONTEXTS_MAX]; /* made with cuCtxCreate() */
static _Thread_local struct double_context *stack[DEPTH_MAX];
static _Thread_local unsigned depth;

void double_read_environment(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    const char *const devices = getenv("DOUBLE_CUDA_DEVICES"),
                      *const memory = getenv("DOUBLE_CUDA_MEMORY"),
                      *const version = getenv("DOUBLE_CUDA_VERSION");
    if (devices != NULL)
        double_device_count = (int)strtol(devices, NULL, 10);
    if (version != NULL)
        double_runtime_version = (int)strtol(version, NULL, 10);
    for (int i = 0; i < DEVICES_MAX; i++) {
        double_device[i].memory = memory != NULL ? strtoull(memory, NULL, 10) : (size_t)1 << 30;
        double_device[i].primary.device = i;
        double_device[i].primary.is_primary = true;
    }
}

/* ---- contexts ---- */

static void start_context(struct double_context *context)
{
    context->is_live = true;
    context->lost = 0;
    context->legacy = (struct double_stream){.context = context, .is_blocking = true};
    context->per_thread = (struct double_stream){.context = context, .is_blocking = true};
}

int double_primary(int device, struct double_context **out)
{
    if (device < 0 || device >= double_device_count)
        return INVALID_DEVICE;
    *out = &double_device[device].primary;
    if (!(*out)->is_live) {
        double_device[device].contexts_created++;
        start_context(*out);
    }
    return 0;
}

struct double_context *double_new_context(int device)
{
    for (int i = 0; i < CONTEXTS_MAX; i++)
        if (!others[i].is_live) {
            others[i].device = device;
            start_context(&others[i]);
            return &others[i];
        }
    double_broken("too many contexts");
}

void double_end_context(struct double_context *context)
{
    if (!context->is_live)
        return;
    double_end_streams(context);
    if (context->is_primary)
        double_free_all_of(context->device);
    context->is_live = false;
    context->lost = 0;
}

bool double_is_context(const struct double_context *context)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        if (context == &double_device[i].primary)
            return true;
    for (int i = 0; i < CONTEXTS_MAX; i++)
        if (context == &others[i])
            return true;
    return false;
}

struct double_context *double_top(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

int double_current(struct double_context **out)
{
    *out = double_top();
    if (*out == NULL)
        return INVALID_CONTEXT;
    return (*out)->is_live ? 0 : CONTEXT_IS_DESTROYED;
}

int double_push(struct double_context *context)
{
    if (!double_is_context(context))
        return INVALID_CONTEXT;
    if (depth == DEPTH_MAX)
        double_broken("too many contexts are pushed");
    stack[depth++] = context;
    return 0;
}

int double_pop(struct double_context **out)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *out = stack[--depth];
    return 0;
}

int double_set_top(struct double_context *context)
{
    if (context != NULL && !double_is_context(context))
        return INVALID_CONTEXT;
    if (depth == 0)
        depth = 1;
    stack[depth - 1] = context;
    return 0;
}

/* ---- control.h ---- */

void double_devices(int count)
{
    double_lock();
    if (count < 0 || count > DEVICES_MAX)
        double_broken("there are 0 to 8 devices");
    double_device_count = count;
    double_unlock();
}

void double_memory(int device, size_t bytes)
{
    double_lock();
    double_device[device].memory = bytes;
    double_unlock();
}

void double_can_map(int device, int can)
{
    double_lock();
    double_device[device].cannot_map = can == 0;
    double_unlock();
}

int double_has_context(int device)
{
    double_lock();
    const int has = double_device[device].primary.is_live;
    double_unlock();
    return has;
}

unsigned double_contexts_created(int device)
{
    double_lock();
    const unsigned created = double_device[device].contexts_created;
    double_unlock();
    return created;
}

size_t double_used(int device)
{
    double_lock();
    const size_t used = double_device[device].used;
    double_unlock();
    return used;
}
