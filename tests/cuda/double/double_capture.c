/*
 * The double of CUDA: captures of streams into graphs, and the calls that they forbid. See
 * double.h. A graph remembers how much work it has, and cannot be launched.
 */
#include "double.h"

enum { GLOBAL, THREAD_LOCAL, RELAXED, GRAPHS_MAX = 256, ACTIVE = 1, INVALIDATED = 2 };

struct graph {
    bool is_live;
    size_t work;
};

static struct graph graphs[GRAPHS_MAX];
size_t double_graphs;
static _Thread_local int mode = GLOBAL; /* its address stands for the thread, too */

static void invalidate(struct double_stream *stream, void *unused)
{
    (void)unused;
    if (stream->capture == ACTIVE)
        stream->capture = INVALIDATED;
}

static void note_forbidden(struct double_stream *stream, void *forbidden)
{
    if (stream->capture != ACTIVE || stream->capture_mode == RELAXED)
        return;
    const bool own = stream->capturing == &mode;
    if ((mode == GLOBAL && (stream->capture_mode == GLOBAL || own)) ||
        (mode == THREAD_LOCAL && own))
        *(bool *)forbidden = true;
}

int double_unsafe(void)
{
    bool forbidden = false;
    double_each_stream(NULL, note_forbidden, &forbidden);
    if (!forbidden)
        return 0;
    double_each_stream(NULL, invalidate, NULL);
    return CAPTURE_UNSUPPORTED;
}

static void note_capture(struct double_stream *stream, void *found)
{
    *(bool *)found |= stream->capture == ACTIVE;
}

int double_waits(struct double_context *context)
{
    bool found = false;
    double_each_stream(context, note_capture, &found);
    if (!found)
        return 0;
    double_each_stream(context, invalidate, NULL);
    return CAPTURE_UNSUPPORTED;
}

static void note_blocking(struct double_stream *stream, void *found)
{
    *(bool *)found |= stream->capture == ACTIVE && stream->is_blocking;
}

int double_uses(struct double_stream *stream)
{
    bool found = false;
    if (!stream->context->is_live)
        return CONTEXT_IS_DESTROYED;
    if (stream->context->lost != 0)
        return stream->context->lost;
    if (stream->capture == INVALIDATED)
        return CAPTURE_INVALIDATED;
    if (stream != &stream->context->legacy)
        return 0;
    double_each_stream(stream->context, note_blocking, &found);
    if (!found)
        return 0;
    double_each_stream(stream->context, invalidate, NULL);
    return CAPTURE_IMPLICIT;
}

int double_is_capturing(void *handle, int *status)
{
    struct double_stream *stream;
    bool found = false;
    const int error = double_stream_of(handle, &stream);
    if (error != 0)
        return error;
    if (stream == &stream->context->legacy) {
        double_each_stream(stream->context, note_blocking, &found);
        if (found)
            return CAPTURE_IMPLICIT;
    }
    *status = stream->capture;
    return 0;
}

int double_begin_capture(void *handle, int how)
{
    struct double_stream *stream;
    int error = double_stream_of(handle, &stream);
    if (error == 0 && (stream == &stream->context->legacy || stream->capture != 0))
        error = CAPTURE_UNSUPPORTED;
    if (error != 0)
        return error;
    stream->capture = ACTIVE;
    stream->capture_mode = how;
    stream->capturing = &mode;
    stream->captured = 0;
    return 0;
}

int double_end_capture(void *handle, void **out)
{
    struct double_stream *stream;
    const int error = double_stream_of(handle, &stream);
    *out = NULL;
    if (error != 0)
        return error;
    const int capture = stream->capture;
    if (capture == 0)
        return CAPTURE_UNMATCHED;
    if (stream->capture_mode != RELAXED && stream->capturing != &mode)
        return CAPTURE_WRONG_THREAD;
    stream->capture = 0;
    if (capture == INVALIDATED)
        return CAPTURE_INVALIDATED;
    for (int i = 0; i < GRAPHS_MAX; i++)
        if (!graphs[i].is_live) {
            graphs[i] = (struct graph){true, stream->captured};
            double_graphs++;
            *out = &graphs[i];
            return 0;
        }
    double_broken("too many graphs");
}

int double_exchange_mode(int *other)
{
    const int before = mode;
    if (*other < GLOBAL || *other > RELAXED)
        return INVALID_VALUE;
    mode = *other;
    *other = before;
    return 0;
}

int double_destroy_graph(void *handle)
{
    for (int i = 0; i < GRAPHS_MAX; i++)
        if (handle == &graphs[i] && graphs[i].is_live) {
            graphs[i].is_live = false;
            double_graphs--;
            return 0;
        }
    return INVALID_HANDLE;
}
