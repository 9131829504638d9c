/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decodes UTF-8 (RFC 3629), for names from outside. No state; any thread at any time.
 */
#ifndef HOMEFREE_LOADER_COMMAND_UTF8_H
#define HOMEFREE_LOADER_COMMAND_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decodes one code point of at most `length` bytes, where `length` is above 0. A zero byte also
 * ends the text: no byte after it is read. Returns the number of bytes decoded, or 0 if they are
 * not UTF-8, such as overlong forms and surrogates.
 */
size_t hf_utf8_decode(const unsigned char *text, size_t length, uint32_t *code_point);

#endif
