/*
 * Reads JSON documents (RFC 8259) into a tree.
 *
 * Constraint: a document is hostile. Nesting is limited, and nothing outside the text is read.
 * Reading takes linear time. Numbers are read as unsigned integers; others are 0.
 *
 * Owns: nothing; the tree is in the caller's keep.
 */
#ifndef HF_LOADER_COMMAND_REPORT_JSON_READER_H
#define HF_LOADER_COMMAND_REPORT_JSON_READER_H

#include "loader/command/report/keep.h"

enum hf_json_type {
    HF_JSON_NULL,
    HF_JSON_BOOLEAN,
    HF_JSON_NUMBER,
    HF_JSON_STRING,
    HF_JSON_ARRAY,
    HF_JSON_OBJECT,
};

struct hf_json_value {
    enum hf_json_type type;
    uint64_t number;            /* HF_JSON_NUMBER; HF_JSON_BOOLEAN: 0 or 1 */
    const char *text;           /* HF_JSON_STRING; a zero byte in it ends it */
    const char *key;            /* as a member of an object */
    struct hf_json_value *next; /* in its array or object */
    struct hf_json_value *first;
};

/* Returns NULL where the text is not one JSON document. It must end with a zero byte, which
 * `length` does not count. */
const struct hf_json_value *hf_json_read(struct hf_keep *keep, const char *text, size_t length);

/* The member of an object; NULL where there is none, or `object` is NULL or no object. */
const struct hf_json_value *hf_json_member(const struct hf_json_value *object, const char *key);

/* The member's string or number; NULL and 0 where it is none. */
const char *hf_json_text(const struct hf_json_value *object, const char *key);
uint64_t hf_json_number(const struct hf_json_value *object, const char *key);

#endif
