/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encodes Unicode text as ASCII, by RFC 3492.
 *
 * Owns: the encoder, without the "xn--" prefix and the case folding of domain names, because PEP
 * 489 requires the output of Python's own 'punycode' codec. Used by: version_script.c and the Check
 * suites. Pure: no state, no memory, any thread at any time.
 */
#ifndef HOMEFREE_LOADER_COMMAND_EXPORTS_PUNYCODE_H
#define HOMEFREE_LOADER_COMMAND_EXPORTS_PUNYCODE_H

#include <stddef.h>
#include <stdint.h>

/* A delta of a text of at most HF_PUNYCODE_LONGEST code points takes 6 digits at most. */
#define HF_PUNYCODE_LONGEST     1000
#define HF_PUNYCODE_SIZE(count) ((count)*7 + 2)

/*
 * Encodes `count` code points (in: each at most 0x10ffff, at most HF_PUNYCODE_LONGEST of them).
 *
 *   out  out: the NUL-terminated result; has room for HF_PUNYCODE_SIZE(count) bytes
 */
void hf_punycode_encode(const uint32_t *points, size_t count, char *out);

#endif
