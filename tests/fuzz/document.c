/*
 * JSON documents that users hand in: `homefree report --compare OLD`. What is written about the
 * comparison must be JSON again.
 */
#include "fuzz.h"
#include "loader/command/report/json_reader.h"
#include "loader/command/report/report_compare.h"
#include "loader/command/report/report_document.h"
#include "loader/command/report/report_text.h"

#include <stdlib.h>
#include <string.h>

static void visit(const struct hf_json_value *value)
{
    /* Nesting is limited, so the stack suffices. */
    for (; value != NULL; value = value->next) {
        if (value->type == HF_JSON_STRING)
            ck_assert_uint_lt(strlen(value->text), SIZE_MAX);
        (void)hf_json_member(value, "findings");
        visit(value->first);
    }
}

static void compare(struct hf_keep *keep, const char *path)
{
    struct hf_merged merged;
    struct hf_comparison comparison;
    char *text = NULL;
    size_t length = 0;
    hf_merged_begin(&merged, keep);
    hf_merged_finish(&merged);
    if (!hf_comparison_make(&comparison, &merged, path))
        return;
    FILE *out = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(out);
    hf_report_document_write(out, &merged, &comparison);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_ptr_nonnull(hf_json_read(keep, text, length));
    free(text);
    out = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(out);
    hf_report_text_print(out, &merged, &comparison);
    ck_assert_int_eq(fclose(out), 0);
    fuzz_check_shown(text, length);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_keep keep = {.last = NULL};
    char *text = fuzz_text((struct fuzz_part){data, size});
    visit(hf_json_read(&keep, text, size));
    free(text);
    compare(&keep, fuzz_file(0, data, size));
    hf_keep_release(&keep);
    return 0;
}
