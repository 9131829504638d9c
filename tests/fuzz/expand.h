/*
 * Reports in few bytes. A report consists of chunks of 16 KiB (alloc/diagnose/report_format.h), of
 * which most is empty. An input is the header up to its command, the command's length and bytes,
 * and for each chunk a struct fuzz_chunk and the bytes in use.
 */
#ifndef HOMEFREE_TESTS_FUZZ_EXPAND_H
#define HOMEFREE_TESTS_FUZZ_EXPAND_H

#include "alloc/diagnose/report_format.h"
#include "fuzz.h"

struct fuzz_chunk {
    uint8_t type;
    uint8_t flags; /* 1: `used` counts, and not `length`; 2: the file ends behind the bytes */
    uint16_t length;
    uint32_t first, used;
};

/* Makes the file. `size`: out, its bytes. The caller frees it. */
unsigned char *fuzz_expand(const uint8_t *data, size_t length, size_t *size);

#endif
