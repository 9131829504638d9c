/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See text.h. Owns nothing.
 */
#include "loader/command/text.h"

#include "loader/command/utf8.h"

#include <stdbool.h>
#include <stdio.h>

size_t hf_text_sequence(const unsigned char *at)
{
    enum { LONGEST = 4 };
    uint32_t code_point;
    return hf_utf8_decode(at, LONGEST, &code_point);
}

void hf_text_print(FILE *out, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        const size_t length = hf_text_sequence(at);
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
