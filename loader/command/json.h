/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes JSON documents, for every subcommand that has --json.
 *
 * Owns: nothing; the state of a document is the caller's struct, which one thread uses at a time.
 * The document goes to a stdio stream, whose owner checks for errors (hf_command_compose()). Keys
 * must be ASCII without quotes and backslashes. Values may be any bytes: U+FFFD replaces those that
 * are not UTF-8, and control characters are escaped.
 *
 * Inside an object every value has a key, inside an array none (NULL).
 */
#ifndef HOMEFREE_LOADER_COMMAND_JSON_H
#define HOMEFREE_LOADER_COMMAND_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { HF_JSON_DEPTH_MAX = 32 };

struct hf_json {
    FILE *out;
    bool compact; /* on one line */
    unsigned depth;
    char closing[HF_JSON_DEPTH_MAX]; /* for each open object and array */
    bool empty[HF_JSON_DEPTH_MAX];
};

/* Begins a document: {"homefree": {"version": …, "document": document, "format": format}, … and
 * leaves its object open. `format` is the version of the document's structure. It is incremented if
 * a reader of the old structure would be misled, not if a key is added. */
void hf_json_begin(struct hf_json *json, FILE *out, const char *document, unsigned format);

/* Begins a document without that member, for one that has a format of its own. */
void hf_json_begin_plain(struct hf_json *json, FILE *out, bool compact);

/* Closes every open object and array and ends the line. */
void hf_json_finish(struct hf_json *json);

void hf_json_object(struct hf_json *json, const char *key);
void hf_json_array(struct hf_json *json, const char *key);
void hf_json_close(struct hf_json *json); /* closes the innermost object or array */

void hf_json_string(struct hf_json *json, const char *key, const char *value); /* NULL: null */
void hf_json_unsigned(struct hf_json *json, const char *key, uint64_t value);
/* A time, printed in seconds. */
void hf_json_seconds(struct hf_json *json, const char *key, uint64_t nanoseconds);
void hf_json_boolean(struct hf_json *json, const char *key, bool value);

#endif
