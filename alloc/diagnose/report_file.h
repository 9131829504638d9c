/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report of this process, as report_format.h describes it: memory that becomes a file.
 *
 * Records begin in anonymous memory. hf_report_to_file() moves them into a mapped file at the same
 * address, so that they outlive the process. A forked child gets a copy of what it needs to go on
 * (strings, objects, sites), again in anonymous memory, and a file of its own once it has something
 * to tell.
 *
 * Invariant: nothing here allocates from the process or takes a lock of its own but the records'
 * lock. That lock is a leaf, is held for a few stores and a few system calls, and is given up
 * on, with the event counted as dropped, rather than waited for without end: its holder may be a
 * thread that a signal handler interrupted. If the holder's frame was left by longjmp(3), the
 * thread takes the lock over; what it had not published is lost. So everything may be called by any
 * thread, at any stage after hf_report_begin(), also under the locks of other allocators.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_REPORT_FILE_H
#define HOMEFREE_ALLOC_DIAGNOSE_REPORT_FILE_H

#include "alloc/diagnose/report_format.h"

#include <stdbool.h>
#include <stddef.h>

/* Reserves the memory, once. If the system refuses, nothing is recorded. Called by the first call
 * into the heap. */
void hf_report_begin(void);

/* The header; NULL before hf_report_begin(), or if it failed. */
extern char *hf_report_base __attribute__((visibility("hidden")));
static inline struct hf_report_header *hf_report_header(void)
{
    return (struct hf_report_header *)__atomic_load_n(&hf_report_base, __ATOMIC_ACQUIRE);
}

/* Bytes that are reserved from the header on. */
size_t hf_report_reserved(void);

/* The records' lock. False: do without, and call hf_report_drop(). */
bool hf_report_lock(void);
void hf_report_unlock(void);

/* Counts an event that was not recorded. */
void hf_report_drop(void);

/*
 * Adds a record of `size` bytes, which are zero. Under the lock. `number` receives the record's
 * number within its type; may be NULL. Returns NULL if there is no room. Fill the record in, then
 * call hf_report_publish().
 */
void *hf_report_add(enum hf_report_type type, size_t size, uint32_t *number);
void hf_report_publish(enum hf_report_type type, size_t size);

/* Adds a string, cut short if it is longer than a chunk. Under the lock. Returns what a record
 * refers to it by; 0 if there is no room. `copy`, unless NULL, receives the copy in the records'
 * memory, which stays; NULL if there is none. */
uint32_t hf_report_string(const char *text, size_t length, const char **copy);

/* Whether there is room for another stack; they get at most half of the memory. Under the lock. */
bool hf_report_holds_stack(size_t size);

/* Whether the records are the calling process's: a child of vfork(2) shares its parent's memory. */
bool hf_report_is_own(void);

/*
 * From now on, recording makes no system call that a program does not need by itself, because this
 * process is about to forbid some. Its file gets room for what may still come. Without a file there
 * will be none, in forked children neither.
 */
void hf_report_confine(void);
bool hf_report_is_confined(void);

/* Moves the records into a file in `directory`, an absolute path that stays valid. Does nothing if
 * there is a file. Returns 0 or a negative errno; -EMFILE if the directory holds its maximum. Under
 * the lock. */
int hf_report_to_file(const char *directory);

/* The file's path; "" if there is none. */
const char *hf_report_path(void);

/*
 * A child that a system call made, such as clone(2) without fork(3)'s handlers, is noticed by the
 * next hf_report_lock(), or here, unless it shares its parent's memory: `in_child` is called, once.
 * Needs Linux 4.14. Until then, what such a child counts goes to its parent.
 */
void hf_report_on_fork(void (*in_child)(void));
void hf_report_notice_fork(void);

/* For the child of fork(2): gives the records up that belong to the parent, and detaches from the
 * parent's file. */
void hf_report_in_child(void);

/* For a handler of SIGBUS: whether the address lies in the records, because another process cut the
 * file short. If so, the records are memory again, and nothing more is recorded. */
bool hf_report_recover(const void *address);

/* Cuts the file to what it holds. Called when the process ends; recording may go on. */
void hf_report_finish(void);

#endif
