/*
 * The reader of JSON documents, which come from users: what RFC 8259 allows is read, and nothing
 * else.
 */
#include "loader/command/report/json_reader.h"

#include "suite.h"

#include <stdlib.h>
#include <string.h>

static struct hf_keep keep;

/* Reads from memory that ends with the text. */
static const struct hf_json_value *read_text(const char *text)
{
    const size_t length = strlen(text);
    char *copy = malloc(length + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, length + 1);
    const struct hf_json_value *value = hf_json_read(&keep, copy, length);
    free(copy);
    return value;
}

START_TEST(documents)
{
    const struct hf_json_value *document = read_text(
        " {\"a\" : [1, 2 ,-3, 4.5e+6, 0], "
        "\"b\":{\"c\":\"text\"},\"t\":true,\"f\":false,\n\"n\":null, "
        "\"big\": 18446744073709551615, \"bigger\": 18446744073709551616, \"e\":[], \"o\":{}}\r\t");
    ck_assert_ptr_nonnull(document);
    ck_assert_str_eq(hf_json_text(hf_json_member(document, "b"), "c"), "text");
    const struct hf_json_value *item = hf_json_member(document, "a")->first;
    const uint64_t expected[] = {1, 2, 0, 0, 0};
    for (size_t i = 0; i < 5; i++, item = item->next) {
        ck_assert_int_eq(item->type, HF_JSON_NUMBER);
        ck_assert_uint_eq(item->number, expected[i]);
    }
    ck_assert_ptr_null(item);
    ck_assert_uint_eq(hf_json_member(document, "t")->number, 1);
    ck_assert_int_eq(hf_json_member(document, "n")->type, HF_JSON_NULL);
    ck_assert_uint_eq(hf_json_number(document, "big"), UINT64_MAX);
    ck_assert_uint_eq(hf_json_number(document, "bigger"), 0);
    ck_assert_ptr_null(hf_json_member(document, "e")->first);
    ck_assert_ptr_null(hf_json_member(document, "missing"));
    ck_assert_ptr_null(hf_json_text(document, "a"));
    ck_assert_uint_eq(hf_json_number(NULL, "a"), 0);
    hf_keep_release(&keep);
}
END_TEST

START_TEST(strings)
{
    static const char *const pairs[][2] = {
        {"\"\"", ""},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"\\ud83d\"", "\xef\xbf\xbd"},
        {"\"\\ud83dx\"", "\xef\xbf\xbdx"},
        {"\"\\ud83d\\u0041\"", "\xef\xbf\xbd\x41"},
        {"\"\\ude00\"", "\xef\xbf\xbd"},
        {"\"\\u0000end\"", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct hf_json_value *value = read_text(pairs[i][0]);
        ck_assert_msg(value != NULL, "%s", pairs[i][0]);
        ck_assert_str_eq(value->text, pairs[i][1]);
    }
    hf_keep_release(&keep);
}
END_TEST

START_TEST(no_documents)
{
    static const char *const texts[] = {
        "",          " ",           "{",          "}",      "[1,]",    "[1 2]",     "{\"a\"}",
        "{a:1}",     "{\"a\":}",    "{\"a\":1,}", "1 2",    "nul",     "True",      "-",
        "1.",        ".5",          "1e",         "+1",     "\"",      "\"\\\"",    "\"\\x\"",
        "\"\\u12\"", "\"\\u12g4\"", "\"\n\"",     "[\"a\"", "\"a\" x", "{\"a\":[}", "'a'",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ck_assert_msg(read_text(texts[i]) == NULL, "%s", texts[i]);
    hf_keep_release(&keep);
}
END_TEST

/* Nesting needs stack, so it is limited. */
START_TEST(deep)
{
    char text[1000];
    for (size_t depth = 1; depth < sizeof text / 2; depth += 7) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        text[2 * depth] = '\0';
        ck_assert_int_eq(read_text(text) != NULL, depth <= 64);
    }
    hf_keep_release(&keep);
}
END_TEST

int main(void)
{
    return RUN_SUITE(documents, strings, no_documents, deep);
}
