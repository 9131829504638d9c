/* See valid_json.h. The documents under test are nested as deep as their writer allows. */
#include "valid_json.h"

#include "loader/command/text.h"

#include <stdint.h>
#include <string.h>

static bool value(const char **at);

static bool take(const char **at, const char *word)
{
    const bool there = strncmp(*at, word, strlen(word)) == 0;
    *at += there ? strlen(word) : 0;
    return there;
}

static void skip_space(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

static bool escape(const char **at)
{
    if (!take(at, "u"))
        return **at != '\0' && strchr("\"\\/bfnrt", *(*at)++) != NULL;
    const bool whole = strspn(*at, "0123456789abcdefABCDEF") >= 4;
    *at += whole ? 4 : 0;
    return whole;
}

static bool string(const char **at)
{
    if (!take(at, "\""))
        return false;
    while (!take(at, "\"")) {
        uint32_t code_point;
        if (take(at, "\\")) {
            if (!escape(at))
                return false;
            continue;
        }
        const size_t length =
            hf_text_decode((const unsigned char *)*at, strnlen(*at, 4), &code_point);
        if ((unsigned char)**at < 0x20 || length == 0)
            return false;
        *at += length;
    }
    return true;
}

static bool digits(const char **at)
{
    const size_t length = strspn(*at, "0123456789");
    *at += length;
    return length > 0;
}

static bool number(const char **at)
{
    take(at, "-");
    if (!take(at, "0") && !digits(at))
        return false;
    return !take(at, ".") || digits(at);
}

static bool group(const char **at, const char *closing)
{
    skip_space(at);
    if (take(at, closing))
        return true;
    do {
        skip_space(at);
        if (*closing == '}' && !(string(at) && (skip_space(at), take(at, ":"))))
            return false;
        if (!value(at))
            return false;
        skip_space(at);
    } while (take(at, ","));
    return take(at, closing);
}

static bool value(const char **at)
{
    skip_space(at);
    if (take(at, "{"))
        return group(at, "}");
    if (take(at, "["))
        return group(at, "]");
    if (**at == '"')
        return string(at);
    return take(at, "null") || take(at, "true") || take(at, "false") || number(at);
}

bool valid_json(const char *text, size_t length)
{
    const char *at = text;
    if (!value(&at))
        return false;
    skip_space(&at);
    return at == text + length;
}
