/*
 * text.c - see text.h.
 */
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t hf_text_sequence(const unsigned char *at)
{
    const unsigned char first = at[0];
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) ||
        (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
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

bool hf_text_coloured(void)
{
    const char *no = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return (no == NULL || no[0] == '\0') && isatty(STDOUT_FILENO) &&
           (terminal == NULL || strcmp(terminal, "dumb") != 0);
}
