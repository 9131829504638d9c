/*
 * What `homefree exports` gets as text: the version node, the modules' names, and the file of
 * symbols. An input is NODE, newline, MODULE, newline, and the file.
 */
#include "fuzz.h"
#include "loader/command/command.h"
#include "loader/command/exports/version_script.h"
#include "loader/inspect/module_functions.h"

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

static void check_script(const struct hf_exports *list, const char *node)
{
    char *text = NULL;
    size_t length = 0;
    if (list->count == 0 || (node != NULL && hf_exports_node_fault(node) != NULL))
        return;
    FILE *out = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(out);
    hf_exports_script(list, node, out);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_uint_eq(strlen(text), length);
    char *script = without_comments(text);
    const char *at = skip(skip(script, node != NULL ? node : ""), "{");
    at = skip(at, "global:");
    for (size_t i = 0; i < list->count; i++) {
        const char *symbol = list->entries[i].symbol;
        ck_assert_ptr_null(hf_exports_symbol_fault(symbol));
        at += strspn(at, " \t\n");
        if (list->entries[i].optional) {
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

/* The symbols that the generator itself accepts. */
static void generate(const char *node, const char *module, struct fuzz_part rest)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_exports list;
    hf_exports_begin(&list, &keep);
    if (hf_exports_module_fault(module) == NULL) {
        hf_exports_add_module(&list, module);
        ck_assert_uint_eq(list.count, HF_MODULE_FUNCTION_COUNT);
        for (int i = 0; i < HF_MODULE_FUNCTION_COUNT; i++)
            ck_assert_int_eq(hf_module_function_of(list.entries[i].symbol, NULL), i);
    }
    while (rest.size > 0) {
        char *symbol = fuzz_text(fuzz_take(&rest, "\n"));
        if (hf_exports_symbol_fault(symbol) == NULL)
            hf_exports_add_symbol(&list, symbol);
        free(symbol);
    }
    check_script(&list, node[0] != '\0' ? node : NULL);
    hf_keep_release(&keep);
}

static void run(char *node, char *module, const char *path)
{
    char *arguments[] = {strdup("exports"),   strdup("--module"), module, strdup("--version"), node,
                         strdup("--symbols"), strdup(path),       NULL};
    const int status = hf_command_exports(7, arguments);
    ck_assert(status == HF_EXIT_CLEAN || status == HF_EXIT_USAGE || status == HF_EXIT_FINDINGS);
    const size_t own[] = {0, 1, 3, 5, 6};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        free(arguments[own[i]]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part rest = {data, size};
    char *node = fuzz_text(fuzz_take(&rest, "\n"));
    char *module = fuzz_text(fuzz_take(&rest, "\n"));
    generate(node, module, rest);
    run(node, module, fuzz_file(0, rest.data, rest.size));
    free(node);
    free(module);
    return 0;
}
