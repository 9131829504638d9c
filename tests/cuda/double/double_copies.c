/*
 * The double of CUDA: copies and fills. See double.h.
 *
 * Where an end of a copy is, is found out when it is asked for, and again when it runs. Page-locked
 * memory is read and written only then. Pageable memory is read or written at once, after what is
 * in the stream.
 */
#include "control.h"
#include "double.h"

#include <string.h>

enum where { NOWHERE, PAGEABLE, PINNED, ON_DEVICE };

/* Where a range is; NOWHERE if it crosses an end. */
static enum where where_is(uintptr_t at, size_t size)
{
    const struct double_range *range = double_range_of(at);
    if (range == NULL)
        return double_is_devices(at) ? NOWHERE : PAGEABLE;
    if (range->kind == HOST_BLOCK || range->kind == REGISTERED)
        return size <= range->size - (at - range->start) ? PINNED : NOWHERE;
    /* Mappings that adjoin are one to the device. */
    for (;;) {
        const size_t left = range->size - (at - range->start);
        if (!range->is_accessible)
            return NOWHERE;
        if (size <= left)
            return ON_DEVICE;
        at += left;
        size -= left;
        const struct double_range *next = double_range_of(at);
        if (next == NULL || next->kind != MAPPED || range->kind != MAPPED)
            return NOWHERE;
        range = next;
    }
}

/* The bytes behind an address, and how many of them adjoin. */
static char *bytes_at(uintptr_t at, size_t size, size_t *adjoining)
{
    const struct double_range *range = double_range_of(at);
    *adjoining = size;
    if (range == NULL || range->physical == NULL || range->kind == MANAGED)
        return (char *)at;
    const size_t offset = at - range->start;
    if (*adjoining > range->size - offset)
        *adjoining = range->size - offset;
    return range->physical->bytes + offset;
}

/* The context whose memory it is, to be lost. */
static void lose(uintptr_t at)
{
    const struct double_range *range = double_range_of(at);
    struct double_context *context = double_top();
    if (range != NULL && range->device >= 0)
        context = &double_device[range->device].primary;
    if (context == NULL)
        context = &double_device[0].primary;
    context->lost = ILLEGAL_ADDRESS;
}

static int fail(const char *what, uintptr_t at, size_t size)
{
    double_fault(what, at, size);
    lose(at);
    return ILLEGAL_ADDRESS;
}

int double_run_copy(const struct double_copy *copy)
{
    size_t size = copy->size;
    uintptr_t to = copy->to, from = copy->from;
    if ((int)where_is(to, size) != copy->to_where)
        return fail("work writes to memory that is gone", to, size);
    if (copy->value < 0 && (int)where_is(from, size) != copy->from_where)
        return fail("work reads memory that is gone", from, size);
    while (size > 0) {
        size_t some, other = size;
        char *target = bytes_at(to, size, &some);
        const char *source = copy->value < 0 ? bytes_at(from, size, &other) : NULL;
        some = some < other ? some : other;
        if (source != NULL)
            memmove(target, source, some);
        else
            memset(target, copy->value, some);
        to += some;
        from += some;
        size -= some;
    }
    return 0;
}

/* Fills in where the ends are; false if one is nowhere. */
static bool look(struct double_copy *copy, bool *pageable)
{
    const enum where to = where_is(copy->to, copy->size);
    const enum where from = copy->value < 0 ? where_is(copy->from, copy->size) : ON_DEVICE;
    copy->to_where = to;
    copy->from_where = from;
    *pageable = to == PAGEABLE || from == PAGEABLE;
    return to != NOWHERE && from != NOWHERE;
}

int double_copy_now(const struct double_copy *wanted, void *stream_handle)
{
    struct double_copy copy = *wanted;
    struct double_stream *stream;
    bool pageable;
    int error = double_unsafe();
    if (error == 0)
        error = double_stream_of(stream_handle, &stream);
    if (error == 0)
        error = double_uses(stream);
    if (error == 0 && stream->capture != 0)
        error = CAPTURE_UNSUPPORTED;
    if (error == 0 && !look(&copy, &pageable))
        error = INVALID_VALUE;
    if (error == 0)
        error = double_enqueue_copy(stream, &copy);
    if (error != 0)
        return error;
    double_finish_stream(stream);
    return stream->context->lost;
}

int double_copy_async(const struct double_copy *wanted, void *stream_handle)
{
    struct double_copy copy = *wanted;
    struct double_stream *stream;
    bool pageable;
    int error = double_stream_of(stream_handle, &stream);
    if (error == 0 && !look(&copy, &pageable))
        error = INVALID_VALUE;
    if (error == 0)
        error = double_enqueue_copy(stream, &copy);
    if (error == 0 && pageable && stream->capture == 0)
        double_finish_stream(stream);
    return error;
}

/* ---- control.h ---- */

static int access_device(uintptr_t at, uintptr_t other, size_t size, bool writes)
{
    double_lock();
    struct double_copy copy = {
        .to = writes ? at : other, .from = writes ? other : at, .size = size, .value = -1};
    bool pageable;
    const int error = look(&copy, &pageable) && where_is(at, size) == ON_DEVICE
                          ? double_run_copy(&copy)
                          : fail("a kernel touches memory that is not there", at, size);
    double_unlock();
    return error;
}

int double_read(const void *from, void *to, size_t size)
{
    return access_device((uintptr_t)from, (uintptr_t)to, size, false);
}

int double_write(void *to, const void *from, size_t size)
{
    return access_device((uintptr_t)to, (uintptr_t)from, size, true);
}
