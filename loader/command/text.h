/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text from outside, such as names in files, on its way to a terminal or a document. No state; any
 * thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEXT_H
#define HOMEFREE_LOADER_COMMAND_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The length of the UTF-8 sequence at `at`, or 0 if there is none: cut short, overlong, a
 * surrogate, or beyond U+10FFFF (RFC 3629). Does not read beyond a terminating zero. */
size_t hf_text_sequence(const unsigned char *at);

/* Prints text so that it stays on one line and cannot control a terminal: '?' replaces control
 * characters, including C1, and bytes that are not UTF-8. */
void hf_text_print(FILE *out, const char *text);

/* The text that printf(3) would print, for the caller to free; NULL without memory, where
 * vasprintf(3) leaves its result undefined. */
__attribute__((format(printf, 1, 0))) char *hf_text_format(const char *format, va_list arguments);

#endif
