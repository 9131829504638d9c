/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line on stderr, built on the stack: a warning, or the last line of the process.
 *
 * Owns no state but hf_fatal_speaker; takes no lock. Everything here uses write(2) alone, without
 * allocation or stdio, and so may be called by any thread, at any stage, in a signal handler and
 * with a corrupt heap. One exception: before glibc 2.35 hf_text_add_code() takes the loader's lock.
 */
#ifndef HOMEFREE_ALLOC_BASE_FATAL_H
#define HOMEFREE_ALLOC_BASE_FATAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line under construction. Text that does not fit is cut off; the line always ends in a
 * newline. */
struct hf_text {
    size_t length;
    char bytes[1536];
};

/* Starts a line with "homefree: ". */
void hf_text_begin(struct hf_text *text);
/* Appends a string; NULL appends "?". Control characters become '?', because names may come from
 * hostile files. */
void hf_text_add(struct hf_text *text, const char *s);
/* Appends at most n bytes of s. */
void hf_text_add_n(struct hf_text *text, const char *s, size_t n);
void hf_text_add_hex(struct hf_text *text, uintptr_t value);
void hf_text_add_decimal(struct hf_text *text, intmax_t value);
/* Appends what printf(3) would, with %s (as hf_text_add()), %.*s, %d, %zu and %p alone. */
void hf_text_say(struct hf_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends "object+0xoffset" for a code address, or the bare address if no object holds it. */
void hf_text_add_code(struct hf_text *text, const void *address);

/* Writes the line and a newline to stderr. Preserves errno. */
void hf_text_write(struct hf_text *text);

/* Who called hf_fatal() first: the process in the upper half, its thread in the lower; or 0. */
extern _Atomic uint64_t hf_fatal_speaker;

/* Writes the line and raises SIGABRT. Every fatal error of homefree ends here. If another thread is
 * here already, waits for it to end the process, for 5 seconds at most. */
void hf_fatal(struct hf_text *text) __attribute__((noreturn, cold));

/* Begins a fatal line about a call: "fatal: CALL(0xPTR): ". */
void hf_text_begin_fatal(struct hf_text *text, const char *call, const void *ptr);
void hf_text_begin_warning(struct hf_text *text, const char *call, const void *ptr);
/* Adds "; called from " and the code; nothing if it is NULL. */
void hf_text_add_caller(struct hf_text *text, const void *caller);

#endif
