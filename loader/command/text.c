/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See text.h. Owns nothing.
 */
#include "loader/command/text.h"

#include <stdbool.h>
#include <stdio.h>

size_t hf_text_decode(const unsigned char *text, size_t length, uint32_t *code_point)
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

void hf_text_print(FILE *out, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        uint32_t code_point;
        const size_t length = hf_text_decode(at, HF_TEXT_LONGEST, &code_point);
        const bool control = *at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);
        if (length == 0 || control)
            fputc('?', out);
        else
            fwrite(at, 1, length, out);
        at += length == 0 ? 1 : length;
    }
}

char *hf_text_format(const char *format, va_list arguments)
{
    char *text = NULL;
    return vasprintf(&text, format, arguments) >= 0 ? text : NULL;
}
