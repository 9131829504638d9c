/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text from outside, such as names in files, on its way to a terminal or a document. No state; any
 * thread at any time.
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEXT_H
#define HOMEFREE_LOADER_COMMAND_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { HF_TEXT_LONGEST = 4 }; /* bytes of a code point */

/*
 * Decodes one code point of at most `length` bytes, where `length` is above 0. A zero byte also
 * ends the text: no byte after it is read. Returns the number of bytes decoded, or 0 if they are
 * not UTF-8 (RFC 3629): cut short, overlong, a surrogate, or beyond U+10FFFF.
 */
size_t hf_text_decode(const unsigned char *text, size_t length, uint32_t *code_point);

/* Prints text so that it stays on one line and cannot control a terminal: '?' replaces control
 * characters, including C1, and bytes that are not UTF-8. */
void hf_text_print(FILE *out, const char *text);

/* The text that printf(3) would print, for the caller to free; NULL without memory, where
 * vasprintf(3) leaves its result undefined. */
__attribute__((format(printf, 1, 0))) char *hf_text_format(const char *format, va_list arguments);

#endif
