/*
 * See exported.h.
 */
#include "exported.h"

#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The text without its comments: nothing that comes from outside may be in one. */
static char *without_comments(const char *text)
{
    char *kept = calloc(strlen(text) + 1, 1);
    ck_assert_ptr_nonnull(kept);
    for (size_t length = 0; *text != '\0';) {
        if (strncmp(text, "/*", 2) == 0) {
            text = strstr(text, "*/");
            ck_assert_ptr_nonnull(text);
            text += 2;
        } else if (*text == '#') {
            text += strcspn(text, "\n");
        } else {
            kept[length++] = *text++;
        }
    }
    return kept;
}

static const char *skip(const char *at, const char *word)
{
    at += strspn(at, " \t\n");
    ck_assert_msg(strncmp(at, word, strlen(word)) == 0, "'%s' is not at: %s", word, at);
    return at + strlen(word);
}

void fuzz_check_script(const struct hf_exports *list, const char *node)
{
    char *text;
    size_t length;
    const int result = hf_exports_script(list, node, &text, &length);
    if (hf_exports_count(list) == 0 || (node != NULL && hf_exports_node_fault(node) != NULL)) {
        ck_assert_int_eq(result, -EINVAL);
        ck_assert_ptr_null(text);
        return;
    }
    ck_assert_int_eq(result, 0);
    ck_assert_uint_eq(strlen(text), length);
    char *script = without_comments(text);
    const char *at = skip(skip(script, node != NULL ? node : ""), "{");
    at = skip(at, "global:");
    for (size_t i = 0; i < hf_exports_count(list); i++) {
        const char *symbol = hf_exports_symbol(list, i);
        ck_assert_ptr_null(hf_exports_symbol_fault(symbol));
        at += strspn(at, " \t\n");
        if (hf_exports_is_optional(list, i)) {
            const size_t before = strcspn(symbol, "_");
            ck_assert_int_eq(strncmp(at, symbol, before), 0);
            at = skip(skip(skip(at + before, "[_]"), symbol + before + 1), ";");
            continue;
        }
        const bool quoted = *at == '"';
        at = skip(skip(at, quoted ? "\"" : ""), symbol);
        at = skip(skip(at, quoted ? "\"" : ""), ";");
    }
    at = skip(skip(skip(at, "local:"), "*;"), "}");
    at = skip(at, ";");
    at += strspn(at, " \t\n");
    ck_assert_str_eq(at, "");
    free(script);
    free(text);
}
