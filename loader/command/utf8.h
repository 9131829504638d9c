/*
 * utf8.h - decodes UTF-8 (RFC 3629), for names from outside. No state; any thread, any time.
 */
#ifndef HF_SHIM_UTF8_H
#define HF_SHIM_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decodes one code point of at most `length` bytes, `length` above 0. A zero byte ends the text as
 * well: nothing behind it is read. Result: the bytes that it took; 0 for what is not UTF-8, such as
 * overlong forms and surrogates.
 */
size_t hf_utf8_decode(const unsigned char *text, size_t length, uint32_t *code_point);

#endif
