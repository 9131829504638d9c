/* Whether bytes are one JSON document in UTF-8, as RFC 8259 has it. Owns nothing. */
#ifndef HOMEFREE_TESTS_SUPPORT_VALID_JSON_H
#define HOMEFREE_TESTS_SUPPORT_VALID_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* `text[length]` must be 0. */
bool valid_json(const char *text, size_t length);

#endif
