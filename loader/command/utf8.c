/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See utf8.h. Owns nothing.
 */
#include "loader/command/utf8.h"

size_t hf_utf8_decode(const unsigned char *text, size_t length, uint32_t *code_point)
{
    if (text[0] < 0x80) {
        *code_point = text[0];
        return 1;
    }
    const size_t size = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || length < size)
        return 0;
    uint32_t value = text[0] & (0x7fU >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (text[i] & 0x3fU);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < smallest[size] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code_point = value;
    return size;
}
