/*
 * The double of CUDA: streams, events, the work in them, and when it runs. See double.h.
 *
 * Each piece of work has a number, in the order in which it was enqueued. It runs after the pieces
 * before it in its stream; in a stream that synchronises with its context's default stream also
 * after those in the other that have a smaller number; and after the mark that it waits for, whose
 * number is smaller, too. So whatever must run first has a smaller number, and waiting for one
 * piece ends.
 */
#include "control.h"
#include "double.h"

#include <string.h>

enum { STREAMS_MAX = 1024, EVENTS_MAX = 65536, WORK_MAX = 65536 };

struct double_work {
    struct double_work *next;
    enum { NO_WORK, CALL, COPY, FREE, RECORD, WAIT } kind;
    unsigned long long number;
    void (*call)(void *argument);
    void *argument;
    struct double_copy copy;
    uintptr_t freed;
    struct double_event *event;
    unsigned long long mark; /* the number of the RECORD that is waited for */
};

static struct double_stream streams[STREAMS_MAX];
static struct double_event events[EVENTS_MAX];
static struct double_work works[WORK_MAX];
static struct double_work *free_works;
static size_t work_count, used_works, used_streams;

/* ---- streams ---- */

void double_each_stream(struct double_context *context,
                        void (*visit)(struct double_stream *, void *), void *argument)
{
    for (int i = 0; i < DEVICES_MAX; i++) {
        struct double_context *primary = &double_device[i].primary;
        if (primary->is_live && (context == NULL || context == primary)) {
            visit(&primary->legacy, argument);
            visit(&primary->per_thread, argument);
        }
    }
    if (context != NULL && !context->is_primary) {
        visit(&context->legacy, argument);
        visit(&context->per_thread, argument);
    }
    for (size_t i = 0; i < used_streams; i++)
        if (streams[i].context != NULL && (context == NULL || context == streams[i].context))
            visit(&streams[i], argument);
}

int double_stream_of(void *handle, struct double_stream **out)
{
    struct double_context *context;
    *out = handle;
    if ((uintptr_t)handle <= 2) {
        const int error = double_current(&context);
        if (error == 0)
            *out = (uintptr_t)handle == 2 ? &context->per_thread : &context->legacy;
        return error;
    }
    for (size_t i = 0; i < STREAMS_MAX; i++)
        if (handle == &streams[i])
            return streams[i].context != NULL ? 0 : INVALID_HANDLE;
    return INVALID_HANDLE;
}

int double_new_stream(struct double_context *context, bool is_blocking, struct double_stream **out)
{
    /* The entry that was free for longest, so that an old handle is noticed. */
    static size_t next;
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        struct double_stream *stream = &streams[next++ % STREAMS_MAX];
        if (stream->context != NULL)
            continue;
        *stream = (struct double_stream){.context = context, .is_blocking = is_blocking};
        if (used_streams <= (size_t)(stream - streams))
            used_streams = (size_t)(stream - streams) + 1;
        *out = stream;
        return 0;
    }
    double_broken("too many streams");
}

/* Its work is done first, as CUDA does later on its own. */
int double_destroy_stream(void *handle)
{
    struct double_stream *stream;
    const int error = (uintptr_t)handle <= 2 ? INVALID_HANDLE : double_stream_of(handle, &stream);
    if (error != 0)
        return error;
    double_finish_stream(stream);
    stream->context = NULL;
    return 0;
}

/* ---- work ---- */

static struct double_work *enqueue(struct double_stream *stream)
{
    struct double_work *work = free_works;
    if (work != NULL)
        free_works = work->next;
    else if (used_works < WORK_MAX)
        work = &works[used_works++];
    else
        double_broken("too much work is queued");
    *work = (struct double_work){.number = ++double_sequence};
    if (stream->last != NULL)
        stream->last->next = work;
    else
        stream->first = work;
    stream->last = work;
    work_count++;
    return work;
}

static void carry_out(const struct double_work *work)
{
    switch (work->kind) {
    case CALL:
        work->call(work->argument);
        break;
    case COPY:
        (void)double_run_copy(&work->copy);
        break;
    case FREE:
        (void)double_free_pooled(work->freed);
        break;
    case RECORD:
        if (work->event->context != NULL && work->event->completed < work->number)
            work->event->completed = work->number;
        break;
    case WAIT:
    case NO_WORK:
        break;
    }
}

/* Takes the first piece of work out before it runs, because a kernel may enqueue more. */
static void run_first(struct double_stream *stream)
{
    struct double_work work = *stream->first, *entry = stream->first;
    stream->first = entry->next;
    if (stream->first == NULL)
        stream->last = NULL;
    entry->kind = NO_WORK;
    entry->next = free_works;
    free_works = entry;
    work_count--;
    if (stream->context->lost == 0)
        carry_out(&work);
}

/* ---- order ---- */

/* What another stream must have done before a piece of work. */
struct before {
    const struct double_stream *stream;
    const struct double_work *work;
    struct double_stream *found; /* a stream that has something to do first */
    unsigned long long up_to;    /* and the last number of that */
};

static void look_before(struct double_stream *other, void *context)
{
    struct before *before = context;
    const struct double_stream *stream = before->stream;
    if (other == stream || other->first == NULL || before->found != NULL)
        return;
    const bool legacy = stream == &stream->context->legacy,
               other_legacy = other == &other->context->legacy;
    const bool in_order = stream->context == other->context &&
                          ((legacy && other->is_blocking) || (other_legacy && stream->is_blocking));
    if (in_order && other->first->number < before->work->number) {
        before->found = other;
        before->up_to = before->work->number - 1;
    }
}

static void look_for_mark(struct double_stream *other, void *context)
{
    struct before *before = context;
    for (const struct double_work *work = other->first; work != NULL; work = work->next)
        if (work->kind == RECORD && work->number == before->work->mark) {
            before->found = other;
            before->up_to = work->number;
        }
}

static struct before first_before(const struct double_stream *stream)
{
    struct before before = {.stream = stream, .work = stream->first};
    double_each_stream(stream->context, look_before, &before);
    if (before.found == NULL && before.work->kind == WAIT)
        double_each_stream(NULL, look_for_mark, &before);
    return before;
}

/* Runs a stream's work up to a number, and before each piece what must come first. */
static void finish(struct double_stream *stream, unsigned long long up_to)
{
    while (stream->first != NULL && stream->first->number <= up_to) {
        const struct before before = first_before(stream);
        if (before.found != NULL && before.found != stream)
            finish(before.found, before.up_to);
        else
            run_first(stream);
    }
}

void double_finish_stream(struct double_stream *stream)
{
    finish(stream, double_sequence);
}

static void finish_each(struct double_stream *stream, void *unused)
{
    (void)unused;
    double_finish_stream(stream);
}

void double_finish_context(struct double_context *context)
{
    double_each_stream(context, finish_each, NULL);
}

int double_synchronize(void)
{
    struct double_context *context;
    int error = double_current(&context);
    if (error == 0)
        error = double_waits(context);
    if (error != 0)
        return error;
    double_finish_context(context);
    return context->lost;
}

static void drop_work(struct double_stream *stream, void *unused)
{
    (void)unused;
    const int lost = stream->context->lost;
    stream->context->lost = CONTEXT_IS_DESTROYED; /* so that nothing is carried out */
    while (stream->first != NULL)
        run_first(stream);
    stream->context->lost = lost;
}

void double_end_streams(struct double_context *context)
{
    double_each_stream(context, drop_work, NULL);
    for (size_t i = 0; i < STREAMS_MAX; i++)
        if (streams[i].context == context)
            streams[i].context = NULL;
    for (size_t i = 0; i < EVENTS_MAX; i++)
        if (events[i].context == context)
            events[i].is_lost = true;
}

int double_stream_query(void *handle)
{
    struct double_stream *stream;
    int error = double_stream_of(handle, &stream);
    if (error == 0)
        error = double_uses(stream);
    if (error == 0 && stream->capture != 0)
        error = CAPTURE_UNSUPPORTED;
    if (error != 0)
        return error;
    if (stream->first != NULL)
        return NOT_READY;
    return stream->context->lost;
}

/* ---- enqueueing ---- */

/* Whether work goes into a graph instead of the stream. */
static bool is_captured(struct double_stream *stream)
{
    stream->captured += stream->capture != 0;
    return stream->capture != 0;
}

int double_enqueue_call(struct double_stream *stream, void (*call)(void *), void *argument)
{
    const int error = double_uses(stream);
    if (error != 0 || is_captured(stream))
        return error;
    struct double_work *work = enqueue(stream);
    work->kind = CALL;
    work->call = call;
    work->argument = argument;
    return 0;
}

int double_enqueue_copy(struct double_stream *stream, const struct double_copy *copy)
{
    const int error = double_uses(stream);
    if (error != 0 || is_captured(stream))
        return error;
    struct double_work *work = enqueue(stream);
    work->kind = COPY;
    work->copy = *copy;
    return 0;
}

int double_enqueue_free(struct double_stream *stream, uintptr_t at)
{
    const int error = double_uses(stream);
    if (error != 0 || is_captured(stream))
        return error;
    struct double_work *work = enqueue(stream);
    work->kind = FREE;
    work->freed = at;
    return 0;
}

/* ---- events ---- */

int double_new_event(struct double_event **out)
{
    static size_t next;
    struct double_context *context;
    const int error = double_current(&context);
    if (error != 0)
        return error;
    for (size_t i = 0; i < EVENTS_MAX; i++) {
        struct double_event *event = &events[next++ % EVENTS_MAX];
        if (event->context != NULL)
            continue;
        *event = (struct double_event){.context = context};
        *out = event;
        return 0;
    }
    double_broken("too many events");
}

int double_event_of(void *handle, struct double_event **out)
{
    const uintptr_t offset = (uintptr_t)handle - (uintptr_t)events;
    if (offset >= sizeof events || offset % sizeof events[0] != 0)
        return INVALID_HANDLE;
    *out = handle;
    if ((*out)->context == NULL)
        return INVALID_HANDLE;
    return (*out)->is_lost ? CONTEXT_IS_DESTROYED : 0;
}

/* Events of a context that has ended can still be destroyed. */
int double_destroy_event(void *handle)
{
    struct double_event *event;
    const int error = double_event_of(handle, &event);
    if (error != 0 && error != CONTEXT_IS_DESTROYED)
        return error;
    event->context = NULL;
    return 0;
}

int double_record(void *handle, void *stream_handle)
{
    struct double_event *event;
    struct double_stream *stream;
    int error = double_event_of(handle, &event);
    if (error == 0)
        error = double_stream_of(stream_handle, &stream);
    if (error == 0 && event->context != stream->context)
        error = INVALID_HANDLE;
    if (error == 0)
        error = double_uses(stream);
    if (error != 0)
        return error;
    event->is_captured = is_captured(stream);
    if (event->is_captured)
        return 0;
    struct double_work *work = enqueue(stream);
    work->kind = RECORD;
    work->event = event;
    event->recorded = work->number;
    return 0;
}

int double_event_query(void *handle)
{
    struct double_event *event;
    int error = double_unsafe();
    if (error == 0)
        error = double_event_of(handle, &event);
    if (error == 0 && event->is_captured)
        error = CAPTURED_EVENT;
    if (error != 0)
        return error;
    if (event->completed < event->recorded)
        return event->context->lost != 0 ? event->context->lost : NOT_READY;
    return 0;
}

static void finish_mark(struct double_stream *stream, void *context)
{
    const struct double_event *event = context;
    for (const struct double_work *work = stream->first; work != NULL; work = work->next)
        if (work->kind == RECORD && work->number == event->recorded) {
            finish(stream, event->recorded);
            return;
        }
}

int double_event_wait(void *handle)
{
    struct double_event *event;
    const int error = double_event_query(handle);
    if (error != NOT_READY)
        return error;
    (void)double_event_of(handle, &event);
    double_each_stream(event->context, finish_mark, event);
    return event->context->lost;
}

int double_stream_wait(void *stream_handle, void *handle)
{
    struct double_event *event;
    struct double_stream *stream;
    int error = double_event_of(handle, &event);
    if (error == 0)
        error = double_stream_of(stream_handle, &stream);
    if (error == 0 && event->is_captured) { /* the stream joins the capture */
        stream->captured++;
        return 0;
    }
    if (error == 0)
        error = double_uses(stream);
    if (error != 0 || is_captured(stream) || event->completed >= event->recorded)
        return error;
    struct double_work *work = enqueue(stream);
    work->kind = WAIT;
    work->mark = event->recorded;
    return 0;
}

/* ---- control.h ---- */

struct step {
    unsigned long long before; /* work that is enqueued meanwhile waits for the next step */
    size_t run;
};

static void step_stream(struct double_stream *stream, void *context)
{
    struct step *step = context;
    if (stream->first == NULL || stream->first->number > step->before)
        return;
    if (first_before(stream).found != NULL)
        return;
    run_first(stream);
    step->run++;
}

void double_advance(unsigned steps)
{
    double_lock();
    struct step step = {.run = 1};
    for (; steps > 0 && step.run > 0; steps--) {
        step = (struct step){.before = double_sequence};
        double_each_stream(NULL, step_stream, &step);
    }
    double_unlock();
}

void double_advance_stream(void *handle, unsigned steps)
{
    struct double_stream *stream = &double_device[0].primary.legacy;
    double_lock();
    if (handle != NULL && double_stream_of(handle, &stream) != 0)
        double_broken("there is no such stream to advance");
    for (struct step step = {.before = double_sequence}; steps > 0; steps--)
        step_stream(stream, &step);
    double_unlock();
}

size_t double_pending(void)
{
    double_lock();
    const size_t count = work_count;
    double_unlock();
    return count;
}

int double_enqueue(void *handle, void (*kernel)(void *argument), void *argument)
{
    struct double_stream *stream;
    double_lock();
    int error = double_stream_of(handle, &stream);
    if (error == 0)
        error = double_enqueue_call(stream, kernel, argument);
    double_unlock();
    return error;
}

void double_count_streams(struct double_live *live)
{
    for (size_t i = 0; i < STREAMS_MAX; i++)
        live->streams += streams[i].context != NULL;
    for (size_t i = 0; i < EVENTS_MAX; i++)
        live->events += events[i].context != NULL;
}
