/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See recorded_file.h.
 *
 * A file that is being written is read so that whatever its findings, pairs and samples refer to is
 * there: first it is noted how many of them each chunk counts, then everything is read. The process
 * has written what they refer to before it counted them.
 */
#include "loader/command/report/recorded_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BODY = HF_REPORT_CHUNK - sizeof(struct hf_report_chunk) };

_Static_assert(sizeof(struct hf_report_header) <= HF_REPORT_CHUNK, "the header is one chunk");

/* Bytes of a record; 1 for those that are counted in bytes. */
static const size_t record_sizes[HF_REPORT_TYPES] = {
    [HF_REPORT_STRINGS] = 1,
    [HF_REPORT_OBJECTS] = sizeof(struct hf_report_object),
    [HF_REPORT_SITES] = sizeof(struct hf_report_site),
    [HF_REPORT_ALLOCATORS] = sizeof(struct hf_report_allocator),
    [HF_REPORT_FINDINGS] = sizeof(struct hf_report_finding),
    [HF_REPORT_PAIRS] = sizeof(struct hf_report_pair),
    [HF_REPORT_STACKS] = 1,
    [HF_REPORT_SAMPLES] = sizeof(struct hf_report_sample),
    [HF_REPORT_SUPPRESSED] = sizeof(struct hf_report_suppressed),
};

/* ---- reading -------------------------------------------------------------------------------- */

static int fail(const char **why, int error, const char *text)
{
    *why = text != NULL ? text : strerror(-error);
    return error;
}

static int open_regular(const char *path, uint64_t *size, const char **why)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return fail(why, -errno, NULL);
    struct stat status;
    int result = 0;
    if (fstat(descriptor, &status) != 0)
        result = fail(why, -errno, NULL);
    else if (S_ISDIR(status.st_mode))
        result = fail(why, -EISDIR, NULL);
    else if (!S_ISREG(status.st_mode))
        result = fail(why, -EINVAL, "it is not a regular file");
    if (result != 0) {
        close(descriptor);
        return result;
    }
    *size = (uint64_t)status.st_size;
    return descriptor;
}

/* Where the bytes of a report lie. */
struct source {
    int descriptor;
    uint64_t start, size;
};

/* The number of bytes read, fewer where the file ends; or a negative errno. Memory that a process
 * has unmapped meanwhile ends there, too. */
static ssize_t read_at(const struct source *source, uint64_t offset, void *buffer, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t got = pread(source->descriptor, (char *)buffer + done, size - done,
                                  (off_t)(source->start + offset + done));
        if (got < 0 && errno == EIO && source->start != 0)
            break;
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
    }
    return (ssize_t)done;
}

static int check_header(struct hf_recorded *file, const struct source *source, const char **why)
{
    struct hf_report_header *header = &file->header;
    const ssize_t got = read_at(source, 0, header, sizeof *header);
    if (got < 0)
        return fail(why, (int)got, NULL);
    if (got == 0)
        return fail(why, -ENOEXEC, "the file is empty");
    if ((size_t)got < sizeof header->magic ||
        memcmp(header->magic, HF_REPORT_MAGIC, sizeof header->magic) != 0)
        return fail(why, -ENOEXEC, "it is not the report of a process on this kind of machine");
    if ((size_t)got < sizeof *header)
        return fail(why, -ENOEXEC, "the file is too short");
    if (header->version > HF_REPORT_VERSION)
        return fail(why, -ENOTSUP, "it was written by a newer homefree; use its 'homefree report'");
    if (header->version == 0)
        return fail(why, -ENOEXEC, "its header is damaged");

    if (header->chunks == 0 || header->chunks > HF_REPORT_CHUNKS_MAX ||
        header->mode < HF_REPORT_COUNT || header->mode > HF_REPORT_STRICT ||
        header->end > HF_REPORT_EXEC || header->command_size > sizeof header->command)
        file->damaged = true;
    if (header->command_size > sizeof header->command)
        header->command_size = sizeof header->command;
    header->command[sizeof header->command - 1] = '\0';
    header->homefree[sizeof header->homefree - 1] = '\0';
    header->host[sizeof header->host - 1] = '\0';
    return 0;
}

/* Records that refer to others, and to which none refers. Nothing needs their numbers. */
static bool is_event(uint32_t type)
{
    return type == HF_REPORT_FINDINGS || type == HF_REPORT_PAIRS || type == HF_REPORT_SAMPLES ||
           type == HF_REPORT_SUPPRESSED;
}

/* Notes for each chunk how many bytes of events it counts now; see above. */
static int note_events(const struct source *source, size_t chunks, uint32_t *events)
{
    for (size_t i = 1; i < chunks; i++) {
        struct hf_report_chunk chunk = {.type = HF_REPORT_UNUSED};
        const ssize_t got = read_at(source, (uint64_t)i * HF_REPORT_CHUNK, &chunk, sizeof chunk);
        if (got < 0)
            return (int)got;
        events[i] = (size_t)got == sizeof chunk && is_event(chunk.type) ? chunk.used : 0;
    }
    return 0;
}

/* Adds the records of one chunk to the parts of its type. `available`: bytes of the body that the
 * file has. */
static void add_part(struct hf_recorded *file, const unsigned char *bytes, size_t available,
                     const uint32_t *events)
{
    struct hf_report_chunk chunk;
    memcpy(&chunk, bytes, sizeof chunk);
    if (chunk.type == HF_REPORT_UNUSED)
        return;
    if (chunk.type >= HF_REPORT_TYPES || chunk.used > BODY) {
        file->damaged = true;
        return;
    }
    size_t used = chunk.used;
    if (is_event(chunk.type) && events != NULL && *events < used)
        used = *events;
    if (used > available) {
        used = available;
        file->damaged = true;
    }
    const size_t size = record_sizes[chunk.type];
    struct hf_recorded_part *parts = file->parts[chunk.type];
    const size_t count = file->parts_count[chunk.type];
    const size_t next = count == 0 ? 0 : parts[count - 1].first + parts[count - 1].count;
    const size_t first = is_event(chunk.type) ? next : chunk.first;
    if (first < next) {
        file->damaged = true; /* it would give numbers twice */
        return;
    }
    /* While the process runs, it may have added to the chunk before this one in the meantime. */
    if ((first > next && file->header.end != HF_REPORT_RUNS) || chunk.used % size != 0)
        file->damaged = true;
    parts[count] = (struct hf_recorded_part){
        .bytes = bytes + sizeof chunk, .first = first, .count = used / size};
    file->parts_count[chunk.type]++;
}

static int read_chunks(struct hf_recorded *file, const struct source *source, const char **why)
{
    const uint64_t size = source->size;
    size_t chunks = file->header.chunks;
    const uint64_t present = (size + HF_REPORT_CHUNK - 1) / HF_REPORT_CHUNK;
    if (chunks == 0 || chunks > HF_REPORT_CHUNKS_MAX)
        chunks = HF_REPORT_CHUNKS_MAX;
    if (chunks > present)
        chunks = (size_t)present;
    if ((uint64_t)file->header.chunks * HF_REPORT_CHUNK > size)
        file->damaged = true;

    uint32_t *events = calloc(chunks + 1, sizeof *events);
    file->bytes = calloc(chunks + 1, HF_REPORT_CHUNK);
    bool memory = events != NULL && file->bytes != NULL;
    for (size_t type = 1; memory && type < HF_REPORT_TYPES; type++) {
        file->parts[type] = calloc(chunks + 1, sizeof *file->parts[type]);
        memory = file->parts[type] != NULL;
    }
    if (!memory) {
        free(events);
        return fail(why, -ENOMEM, NULL);
    }

    const bool runs = file->header.end == HF_REPORT_RUNS;
    int result = runs ? note_events(source, chunks, events) : 0;
    ssize_t got = 0;
    if (result == 0) {
        got = read_at(source, 0, file->bytes, chunks * HF_REPORT_CHUNK);
        result = got < 0 ? (int)got : 0;
    }
    for (size_t i = 1; result == 0 && i < chunks; i++) {
        const size_t start = i * HF_REPORT_CHUNK + sizeof(struct hf_report_chunk);
        if ((size_t)got < start) {
            file->damaged = true;
            break;
        }
        const size_t left = (size_t)got - start;
        add_part(file, file->bytes + i * HF_REPORT_CHUNK, left < BODY ? left : BODY,
                 runs ? &events[i] : NULL);
    }
    free(events);
    return result == 0 ? 0 : fail(why, result, NULL);
}

int hf_recorded_read(struct hf_recorded *file, int descriptor, uint64_t start, uint64_t size,
                     const char **why)
{
    const struct source source = {descriptor, start, size};
    *file = (struct hf_recorded){.damaged = false};
    int result = check_header(file, &source, why);
    if (result == 0)
        result = read_chunks(file, &source, why);
    if (result != 0)
        hf_recorded_close(file);
    return result;
}

int hf_recorded_open(struct hf_recorded *file, const char *path, const char **why)
{
    uint64_t size = 0;
    *file = (struct hf_recorded){.damaged = false};
    const int descriptor = open_regular(path, &size, why);
    if (descriptor < 0)
        return descriptor;
    const int result = hf_recorded_read(file, descriptor, 0, size, why);
    close(descriptor);
    return result;
}

void hf_recorded_close(struct hf_recorded *file)
{
    free(file->bytes);
    for (size_t type = 1; type < HF_REPORT_TYPES; type++)
        free(file->parts[type]);
    file->bytes = NULL;
    memset(file->parts, 0, sizeof file->parts);
    memset(file->parts_count, 0, sizeof file->parts_count);
}

uint64_t hf_recorded_index(const char *path)
{
    uint64_t size = 0;
    const char *why;
    const int descriptor = open_regular(path, &size, &why);
    if (descriptor < 0)
        return 0;
    close(descriptor);
    return size;
}

/* ---- records -------------------------------------------------------------------------------- */

/* The part that has the number, or NULL. */
static const struct hf_recorded_part *part_of(const struct hf_recorded *file,
                                              enum hf_report_type type, size_t number)
{
    size_t low = 0, high = file->parts_count[type];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct hf_recorded_part *part = &file->parts[type][middle];
        if (number < part->first)
            high = middle;
        else if (number - part->first >= part->count)
            low = middle + 1;
        else
            return part;
    }
    return NULL;
}

bool hf_recorded_get(struct hf_recorded *file, enum hf_report_type type, size_t number, void *out)
{
    const struct hf_recorded_part *part = part_of(file, type, number);
    if (part == NULL) {
        file->damaged = true;
        return false;
    }
    const size_t size = record_sizes[type];
    memcpy(out, part->bytes + (number - part->first) * size, size);
    return true;
}

bool hf_recorded_next(const struct hf_recorded *file, enum hf_report_type type,
                      struct hf_recorded_cursor *cursor, void *out)
{
    while (cursor->part < file->parts_count[type]) {
        const struct hf_recorded_part *part = &file->parts[type][cursor->part];
        if (cursor->record < part->count) {
            const size_t size = record_sizes[type];
            memcpy(out, part->bytes + cursor->record * size, size);
            cursor->record++;
            return true;
        }
        *cursor = (struct hf_recorded_cursor){.part = cursor->part + 1};
    }
    return false;
}

const char *hf_recorded_string(struct hf_recorded *file, uint32_t string)
{
    if (string == 0)
        return NULL;
    const struct hf_recorded_part *part = part_of(file, HF_REPORT_STRINGS, string - 1);
    if (part != NULL) {
        const size_t offset = string - 1 - part->first;
        const unsigned char *text = part->bytes + offset;
        if (memchr(text, '\0', part->count - offset) != NULL)
            return *text != '\0' ? (const char *)text : NULL;
    }
    file->damaged = true;
    return NULL;
}

/* A process that runs may give a finding a stack that it recorded after the stacks were read. */
static bool lacks_stack(struct hf_recorded *file)
{
    if (file->header.end != HF_REPORT_RUNS)
        file->damaged = true;
    return false;
}

bool hf_recorded_stack(struct hf_recorded *file, uint32_t stack, struct hf_recorded_stack *out)
{
    if (stack == 0)
        return false;
    struct hf_report_stack head;
    const struct hf_recorded_part *part = part_of(file, HF_REPORT_STACKS, stack - 1);
    const size_t offset = part != NULL ? stack - 1 - part->first : 0;
    if (part == NULL || part->count - offset < sizeof head)
        return lacks_stack(file);
    memcpy(&head, part->bytes + offset, sizeof head);
    const size_t frames = head.native * sizeof(struct hf_report_frame);
    const size_t lines = head.python * sizeof(struct hf_report_line);
    if (part->count - offset - sizeof head < frames + lines)
        return lacks_stack(file);
    out->frames = part->bytes + offset + sizeof head;
    out->lines = out->frames + frames;
    out->native = head.native;
    out->python = head.python;
    return head.native > 0 || head.python > 0;
}

struct hf_report_frame hf_recorded_frame(const struct hf_recorded_stack *stack, size_t index)
{
    struct hf_report_frame frame;
    memcpy(&frame, stack->frames + index * sizeof frame, sizeof frame);
    return frame;
}

struct hf_report_line hf_recorded_line(const struct hf_recorded_stack *stack, size_t index)
{
    struct hf_report_line line;
    memcpy(&line, stack->lines + index * sizeof line, sizeof line);
    return line;
}
