/* Buffers that grow by realloc: many small ones by a little at a time, and a few to megabytes. */
#include "field.h"

enum { BUFFERS = 200, SMALL = 32768, LARGE = 8 << 20 };

struct buffer {
    char *bytes;
    size_t size, limit;
};

static void grow(struct buffer *buffer, size_t more)
{
    if (buffer->size + more > buffer->limit) {
        free(buffer->bytes);
        buffer->bytes = NULL;
        buffer->size = 0;
    }
    buffer->bytes = realloc(buffer->bytes, buffer->size + more);
    if (buffer->bytes == NULL)
        abort();
    /* What is new gets written. */
    for (size_t at = buffer->size; at < buffer->size + more; at += 64)
        buffer->bytes[at] = 1;
    buffer->size += more;
}

void field_work(const struct field_call *call)
{
    struct buffer buffers[BUFFERS] = {{NULL, 0, 0}};
    uint64_t random = field_seed(0);
    size_t count = field_times(call, 150000);
    for (size_t i = 0; i < BUFFERS; i++)
        buffers[i].limit = i % 50 == 0 ? LARGE : SMALL;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = field_draw(&random);
        struct buffer *buffer = &buffers[(uint32_t)number % BUFFERS];
        size_t share = buffer->limit == LARGE ? buffer->size / 4 : buffer->size / 16;
        grow(buffer, 8 + (number >> 32) % 100 + share);
    }
    for (size_t i = 0; i < BUFFERS; i++)
        free(buffers[i].bytes);
}
