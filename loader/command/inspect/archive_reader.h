/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads archives and the lists of installed distributions, with the standard library of a Python
 * that runs beside the command (read_archive.py).
 *
 * Owns: that process, the connection to it, and a file in memory to which it writes the ELF files
 * of one archive at a time. Nothing is written to disk. Python runs without the user's and the
 * environment's modules when it reads archives. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_INSPECT_ARCHIVE_READER_H
#define HOMEFREE_LOADER_COMMAND_INSPECT_ARCHIVE_READER_H

#include <stddef.h>
#include <stdint.h>

struct hf_archive_reader;

enum hf_archive_question {
    HF_ARCHIVE_MEMBERS = 'a', /* the ELF files in an archive, by path */
    HF_ARCHIVE_PACKAGE = 'p', /* the files of a distribution, by name */
};

/* One line of the answer. The strings are valid during the call. */
struct hf_archive_member {
    const char
        *name; /* the member's name, or the path of a distribution's file; "" for the whole */
    const char *place;     /* its path once it is installed, without "." and ".." */
    const char *why;       /* why it cannot be inspected; NULL: it can */
    uint64_t offset, size; /* where it is in the reader's file; 0 for a distribution's */
};
typedef void hf_archive_visitor(const struct hf_archive_member *member, void *context);

/* Starts a Python for one kind of question. Returns NULL after an error message. */
struct hf_archive_reader *hf_archive_reader_start(const char *who, char *python,
                                                  enum hf_archive_question question);

/* Asks, calls `wait` about ten times a second until the answer comes, and visits each line of it.
 * Members stay readable until the next question. Returns 0, or -EIO if the Python ended in between.
 */
int hf_archive_reader_ask(struct hf_archive_reader *reader, const char *what,
                          hf_archive_visitor *visit, void (*wait)(void *context), void *context);

/* The file in memory. */
int hf_archive_reader_descriptor(const struct hf_archive_reader *reader);

/* Ends the process. NULL is permitted. */
void hf_archive_reader_end(struct hf_archive_reader *reader);

#endif
