/*
 * See json_reader.h.
 */
#include "loader/command/report/json_reader.h"

#include <string.h>

enum { DEPTH_MAX = 64 };

struct reader {
    struct hf_keep *keep;
    const char *at, *end;
    unsigned depth;
};

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) != NULL &&
           *reader->at != '\0')
        reader->at++;
}

static bool take(struct reader *reader, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* ---- strings and numbers -------------------------------------------------------------------- */

static bool read_hex(struct reader *reader, uint32_t *unit)
{
    enum { HEX_DIGITS = 4 };
    *unit = 0;
    for (int i = 0; i < HEX_DIGITS; i++) {
        static const char digits[] = "0123456789abcdef";
        if (reader->at == reader->end || *reader->at == '\0')
            return false;
        const char letter = *reader->at++;
        const char *digit =
            strchr(digits, letter >= 'A' && letter <= 'F' ? letter - 'A' + 'a' : letter);
        if (digit == NULL)
            return false;
        *unit = *unit << 4 | (uint32_t)(digit - digits);
    }
    return true;
}

static char *put_utf8(char *out, uint32_t code_point)
{
    if (code_point < 0x80) {
        *out++ = (char)code_point;
    } else if (code_point < 0x800) {
        *out++ = (char)(0xc0 | code_point >> 6);
        *out++ = (char)(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x10000) {
        *out++ = (char)(0xe0 | code_point >> 12);
        *out++ = (char)(0x80 | (code_point >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code_point & 0x3f));
    } else {
        *out++ = (char)(0xf0 | code_point >> 18);
        *out++ = (char)(0x80 | (code_point >> 12 & 0x3f));
        *out++ = (char)(0x80 | (code_point >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code_point & 0x3f));
    }
    return out;
}

/* After a backslash. */
static bool read_escape(struct reader *reader, char **out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    uint32_t unit, low;
    if (reader->at == reader->end || *reader->at == '\0')
        return false;
    const char letter = *reader->at++;
    if (letter != 'u') {
        const char *known = strchr(letters, letter);
        if (known != NULL)
            *(*out)++ = meanings[known - letters];
        return known != NULL;
    }
    if (!read_hex(reader, &unit))
        return false;
    if (unit >= 0xd800 && unit < 0xdc00) {
        const char *before = reader->at;
        if (take(reader, "\\u") && read_hex(reader, &low) && low >= 0xdc00 && low < 0xe000) {
            *out = put_utf8(*out, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            return true;
        }
        reader->at = before;
    }
    if (unit >= 0xd800 && unit < 0xe000)
        unit = 0xfffd; /* half of a pair */
    *out = put_utf8(*out, unit);
    return true;
}

/* Reads a string behind its first quote; NULL if it has no end. */
static const char *read_string(struct reader *reader)
{
    const char *end = reader->at;
    while (end < reader->end && *end != '"')
        end += *end == '\\' && reader->end - end > 1 ? 2 : 1;
    if (end >= reader->end)
        return NULL;
    /* No escape is shorter than what it stands for. */
    char *text = hf_keep_bytes(reader->keep, (size_t)(end - reader->at) + 1);
    char *out = text;
    while (reader->at < end) {
        const char letter = *reader->at++;
        if ((unsigned char)letter < 0x20)
            return NULL;
        if (letter != '\\')
            *out++ = letter;
        else if (!read_escape(reader, &out))
            return NULL;
    }
    reader->at = end + 1;
    return text;
}

static bool read_digits(struct reader *reader, uint64_t *number, bool *whole)
{
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        const uint64_t digit = (uint64_t)(*reader->at++ - '0');
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, digit, number))
            *whole = false;
    }
    return reader->at > start;
}

static bool read_number(struct reader *reader, uint64_t *number)
{
    uint64_t ignored = 0;
    bool whole = !take(reader, "-"), fine = true;
    *number = 0;
    if (!read_digits(reader, number, &whole))
        return false;
    if (take(reader, ".")) {
        whole = false;
        fine = read_digits(reader, &ignored, &fine);
    }
    if (take(reader, "e") || take(reader, "E")) {
        whole = false;
        if (!take(reader, "+"))
            take(reader, "-");
        bool small = true;
        fine = read_digits(reader, &ignored, &small) && fine;
    }
    if (!whole)
        *number = 0;
    return fine;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool read_value(struct reader *reader, struct hf_json_value *value);

/* Reads the values of an array or an object behind its bracket. */
static bool read_group(struct reader *reader, struct hf_json_value *group, const char *closing)
{
    struct hf_json_value **end = &group->first;
    if (++reader->depth > DEPTH_MAX)
        return false;
    skip_space(reader);
    bool more = !take(reader, closing);
    while (more) {
        struct hf_json_value *value = hf_keep_bytes(reader->keep, sizeof *value);
        if (group->type == HF_JSON_OBJECT) {
            skip_space(reader);
            if (!take(reader, "\""))
                return false;
            value->key = read_string(reader);
            skip_space(reader);
            if (value->key == NULL || !take(reader, ":"))
                return false;
        }
        if (!read_value(reader, value))
            return false;
        *end = value;
        end = &value->next;
        skip_space(reader);
        more = take(reader, ",");
        if (!more && !take(reader, closing))
            return false;
    }
    reader->depth--;
    return true;
}

static bool read_value(struct reader *reader, struct hf_json_value *value)
{
    skip_space(reader);
    if (take(reader, "{")) {
        value->type = HF_JSON_OBJECT;
        return read_group(reader, value, "}");
    }
    if (take(reader, "[")) {
        value->type = HF_JSON_ARRAY;
        return read_group(reader, value, "]");
    }
    if (take(reader, "\"")) {
        value->type = HF_JSON_STRING;
        value->text = read_string(reader);
        return value->text != NULL;
    }
    if (take(reader, "null"))
        return true;
    value->type = HF_JSON_BOOLEAN;
    if (take(reader, "false"))
        return true;
    value->number = 1;
    if (take(reader, "true"))
        return true;
    value->type = HF_JSON_NUMBER;
    return read_number(reader, &value->number);
}

const struct hf_json_value *hf_json_read(struct hf_keep *keep, const char *text, size_t length)
{
    struct reader reader = {.keep = keep, .at = text, .end = text + length};
    struct hf_json_value *value = hf_keep_bytes(keep, sizeof *value);
    if (!read_value(&reader, value))
        return NULL;
    skip_space(&reader);
    return reader.at == reader.end ? value : NULL;
}

const struct hf_json_value *hf_json_member(const struct hf_json_value *object, const char *key)
{
    if (object == NULL || object->type != HF_JSON_OBJECT)
        return NULL;
    const struct hf_json_value *member = object->first;
    while (member != NULL && strcmp(member->key, key) != 0)
        member = member->next;
    return member;
}

const char *hf_json_text(const struct hf_json_value *object, const char *key)
{
    const struct hf_json_value *member = hf_json_member(object, key);
    return member != NULL && member->type == HF_JSON_STRING ? member->text : NULL;
}

uint64_t hf_json_number(const struct hf_json_value *object, const char *key)
{
    const struct hf_json_value *member = hf_json_member(object, key);
    return member != NULL && member->type == HF_JSON_NUMBER ? member->number : 0;
}
