/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the file of one diagnosed process (alloc/diagnose/report_format.h).
 *
 * Constraint: every file is hostile, and the process may be writing it now. The file is read into
 * memory, never mapped: cutting it short meanwhile would raise SIGBUS. Every number and position is
 * checked before use; what is wrong counts as unknown and sets `damaged`. Reading takes linear
 * time.
 *
 * Owns: the contents of the file, until hf_recorded_close(). Strings point into them. One thread
 * for each file.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_RECORDED_FILE_H
#define HOMEFREE_LOADER_COMMAND_REPORT_RECORDED_FILE_H

#include "alloc/diagnose/report_format.h"

#include <stdbool.h>
#include <stddef.h>

/* The records of one chunk. `first` and `count` are numbers of records; of bytes for strings and
 * stacks. Findings, pairs, samples and suppressions have no numbers. */
struct hf_recorded_part {
    const unsigned char *bytes;
    size_t first, count;
};

struct hf_recorded {
    struct hf_report_header header; /* its texts end with a zero byte */
    bool damaged;                   /* cut short, or something in it is wrong */
    /* The rest is private. */
    unsigned char *bytes;
    struct hf_recorded_part *parts[HF_REPORT_TYPES]; /* by type, in the order of `first` */
    size_t parts_count[HF_REPORT_TYPES];
};

/*
 * Reads a file. Returns 0, or a negative errno with the reason in `why`. Refuses a FIFO or device
 * without waiting for it. hf_recorded_close() is required after success and harmless after failure.
 */
int hf_recorded_open(struct hf_recorded *file, const char *path, const char **why);

/* The same for `size` bytes from `start` on of a descriptor that pread(2) takes: an open file, or
 * /proc/PID/mem, in which the records of a running process lie. */
int hf_recorded_read(struct hf_recorded *file, int descriptor, uint64_t start, uint64_t size,
                     const char **why);

void hf_recorded_close(struct hf_recorded *file);

/* Copies the record with a number to `out`, whose type belongs to `type`. A number that the file
 * does not have counts as damage: false. */
bool hf_recorded_get(struct hf_recorded *file, enum hf_report_type type, size_t number, void *out);

/* Copies the next record of the type; a cursor starts as {0}. False after the last. */
struct hf_recorded_cursor {
    size_t part, record;
};
bool hf_recorded_next(const struct hf_recorded *file, enum hf_report_type type,
                      struct hf_recorded_cursor *cursor, void *out);

/* The text of a `string`; NULL if it is unknown or empty. */
const char *hf_recorded_string(struct hf_recorded *file, uint32_t string);

/* A stack: where its frames and lines lie. */
struct hf_recorded_stack {
    const unsigned char *frames, *lines;
    size_t native, python;
};
/* Finds a stack by 1 + its position. An empty one, and 0, give false. */
bool hf_recorded_stack(struct hf_recorded *file, uint32_t stack, struct hf_recorded_stack *out);
struct hf_report_frame hf_recorded_frame(const struct hf_recorded_stack *stack, size_t index);
struct hf_report_line hf_recorded_line(const struct hf_recorded_stack *stack, size_t index);

/* The number of processes that asked for a file in a report's directory, from the path of its
 * index; 0 where there is no index. */
uint64_t hf_recorded_index(const char *path);

#endif
