/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See json.h. Owns nothing; one thread for each document.
 */
#include "loader/command/json.h"

#include "loader/command/text.h"

#include <homefree/homefree.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- strings -------------------------------------------------------------------------------- */

static void print_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        uint32_t code_point;
        const size_t length = hf_text_decode(at, HF_TEXT_LONGEST, &code_point);
        if (length == 0) {
            fputs("\\ufffd", out);
            at++;
        } else if (length > 1) {
            fwrite(at, 1, length, out);
            at += length;
        } else {
            if (*at == '"' || *at == '\\')
                fprintf(out, "\\%c", *at);
            else if (*at == '\n')
                fputs("\\n", out);
            else if (*at == '\t')
                fputs("\\t", out);
            else if (*at < 0x20 || *at == 0x7f)
                fprintf(out, "\\u%04x", *at);
            else
                fputc(*at, out);
            at++;
        }
    }
    fputc('"', out);
}

/* ---- structure ------------------------------------------------------------------------------ */

static void new_line(struct hf_json *json)
{
    if (json->compact)
        return;
    fputc('\n', json->out);
    for (unsigned i = 0; i < json->depth; i++)
        fputs("  ", json->out);
}

/* Prints everything that precedes a value: a comma, a new line, its key. */
static void begin_value(struct hf_json *json, const char *key)
{
    if (json->depth > 0) {
        if (!json->empty[json->depth - 1])
            fputc(',', json->out);
        json->empty[json->depth - 1] = false;
        new_line(json);
    }
    if (key != NULL)
        fprintf(json->out, "\"%s\": ", key);
}

static void open_group(struct hf_json *json, const char *key, char opening, char closing)
{
    assert(json->depth < HF_JSON_DEPTH_MAX);
    begin_value(json, key);
    fputc(opening, json->out);
    json->closing[json->depth] = closing;
    json->empty[json->depth] = true;
    json->depth++;
}

void hf_json_object(struct hf_json *json, const char *key)
{
    open_group(json, key, '{', '}');
}

void hf_json_array(struct hf_json *json, const char *key)
{
    open_group(json, key, '[', ']');
}

void hf_json_close(struct hf_json *json)
{
    assert(json->depth > 0);
    json->depth--;
    if (!json->empty[json->depth])
        new_line(json);
    fputc(json->closing[json->depth], json->out);
}

void hf_json_begin_plain(struct hf_json *json, FILE *out, bool compact)
{
    memset(json, 0, sizeof *json);
    json->out = out;
    json->compact = compact;
    hf_json_object(json, NULL);
}

void hf_json_begin(struct hf_json *json, FILE *out, const char *document, unsigned format)
{
    hf_json_begin_plain(json, out, false);
    hf_json_object(json, "homefree");
    hf_json_string(json, "version", HF_VERSION);
    hf_json_string(json, "document", document);
    hf_json_unsigned(json, "format", format);
    hf_json_close(json);
}

void hf_json_finish(struct hf_json *json)
{
    while (json->depth > 0)
        hf_json_close(json);
    fputc('\n', json->out);
}

/* ---- values --------------------------------------------------------------------------------- */

void hf_json_string(struct hf_json *json, const char *key, const char *value)
{
    begin_value(json, key);
    if (value == NULL)
        fputs("null", json->out);
    else
        print_string(json->out, value);
}

void hf_json_unsigned(struct hf_json *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void hf_json_seconds(struct hf_json *json, const char *key, uint64_t nanoseconds)
{
    enum { DIGITS = 9, SECOND = 1000000000 };
    begin_value(json, key);
    fprintf(json->out, "%" PRIu64, nanoseconds / SECOND);
    char fraction[DIGITS + 1];
    snprintf(fraction, sizeof fraction, "%09u", (unsigned)(nanoseconds % SECOND));
    size_t length = DIGITS;
    while (length > 0 && fraction[length - 1] == '0')
        length--;
    if (length > 0)
        fprintf(json->out, ".%.*s", (int)length, fraction);
}

void hf_json_boolean(struct hf_json *json, const char *key, bool value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", json->out);
}
