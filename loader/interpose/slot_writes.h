/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes GOT slots: checks which may be written, makes RELRO ranges writable and read-only again
 * one object at a time, and repairs slots that the loader resolved meanwhile.
 *
 * A slot update (hf_write_begin() to hf_write_end()) runs under the loader's lock (loader_lock.h),
 * which serialises updates.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_SLOT_WRITES_H
#define HOMEFREE_LOADER_INTERPOSE_SLOT_WRITES_H

#include "alloc/base/dynlink.h"

/* The object being written. The caller sets `object` and leaves the rest zero. */
struct hf_writer {
    struct hf_object *object;
    bool opened; /* its RELRO range is writable */
    bool lazy;   /* the last slot written, outside RELRO, held another value than expected */
    int error;   /* why the object cannot be made writable; negative errno */
};

/* `many`: enough objects follow to make opening /proc/self/mem worthwhile. */
void hf_write_begin(bool many);
void hf_write_end(void);

/* Returns whether the file's segments make the slot writable. Reads the segments once per
 * object. */
bool hf_write_is_allowed(struct hf_writer *writer, void **slot);

/* Makes a slot's memory writable. Result: false if that failed; writer->error says why. */
bool hf_write_open(struct hf_writer *writer, void **slot);

/* Writes a slot for which hf_write_is_allowed() returned true, at the latest in hf_write_close().
 * `expected` is the value the caller believes it holds; if it held another, the slot is checked
 * again at the end of the update. Result: false if the slot cannot be made writable. */
bool hf_write_slot(struct hf_writer *writer, void **slot, void *value, void *expected);

/* Ends the process, because a part of the object ("relocated data") stays writable; the reason is
 * in errno. */
__attribute__((noreturn, cold)) void hf_write_fail(const struct hf_object *object,
                                                   const char *part);

/* Writes what is pending and protects the object again, or ends the process. */
void hf_write_close(struct hf_writer *writer);

/* Returns whether the process is known to be single-threaded; always false before glibc 2.32. */
bool hf_write_is_single_threaded(void);

#endif
