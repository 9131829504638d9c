/*
 * One line on stderr, built on the stack: warnings, and the end of the process.
 *
 * Everything here uses write(2) alone: no allocation, no locks, no stdio. It may be called at any
 * stage, from a signal handler, and with the heap in pieces.
 */
#ifndef HOMEFREE_FATAL_H
#define HOMEFREE_FATAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line under construction. What does not fit is cut; the line stays one line. */
struct hf_text {
    size_t length;
    char bytes[1536];
};

/* Begins with "homefree: ". */
void hf_text_begin(struct hf_text *text);
/* Appends; s may be NULL ("?"). Control characters become '?': names come from hostile files. */
void hf_text_add(struct hf_text *text, const char *s);
/* At most n bytes of s. */
void hf_text_add_n(struct hf_text *text, const char *s, size_t n);
void hf_text_add_hex(struct hf_text *text, uintptr_t value);
void hf_text_add_decimal(struct hf_text *text, intmax_t value);
/* Appends "object+0xoffset" for an address in code, or the bare address. */
void hf_text_add_code(struct hf_text *text, const void *address);

/* Writes the line, with a newline, to stderr. errno is left as it was. */
void hf_text_write(struct hf_text *text);

/* Whether hf_fatal() has written its line. */
extern bool hf_fatal_spoken;

/* Writes the line and ends the process with SIGABRT. The one end that homefree has. */
void hf_fatal(struct hf_text *text) __attribute__((noreturn, cold));

#endif
