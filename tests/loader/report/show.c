/*
 * See show.h.
 */
#include "show.h"

#include "loader/command/report/place_names.h"
#include "loader/command/report/report_document.h"
#include "loader/command/report/report_exports.h"
#include "loader/command/report/report_text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* What is shown, in memory. */
struct shown {
    char *text;
    size_t length;
};

static FILE *begin(struct shown *shown)
{
    FILE *out = open_memstream(&shown->text, &shown->length);
    ck_assert_ptr_nonnull(out);
    return out;
}

static void check_document(struct hf_keep *keep, const struct hf_merged *merged,
                           show_document *document)
{
    struct shown shown;
    FILE *out = begin(&shown);
    hf_report_document_write(out, merged, NULL);
    ck_assert_int_eq(fclose(out), 0);
    const struct hf_json_value *read = hf_json_read(keep, shown.text, shown.length);
    ck_assert_ptr_nonnull(read);
    ck_assert_uint_eq(hf_json_number(read, "homefree_report"), HF_REPORT_DOCUMENT);
    if (document != NULL)
        document(keep, shown.text, shown.length);
    free(shown.text);
}

static void check_text(const struct hf_merged *merged)
{
    struct shown shown;
    FILE *out = begin(&shown);
    hf_report_text_print(out, merged, NULL);
    hf_report_folded_write(out, merged);
    ck_assert_int_eq(fclose(out), 0);
    for (size_t i = 0; i < shown.length; i++)
        ck_assert((unsigned char)shown.text[i] >= 0x20 || shown.text[i] == '\n');
    free(shown.text);
}

bool show_report(const char *name, int (*open_object)(const void *files, const char *path),
                 const void *files, show_document *document)
{
    struct hf_recorded file;
    const char *why = NULL;
    if (hf_recorded_open(&file, name, &why) != 0) {
        ck_assert_ptr_nonnull(why);
        return false;
    }
    struct hf_keep keep = {.last = NULL};
    struct hf_merged merged;
    hf_merged_begin(&merged, &keep);
    merged.open_object = open_object;
    merged.files = files;
    hf_merged_add(&merged, &file, name);
    hf_merged_add(&merged, &file, name);
    hf_recorded_close(&file);
    hf_merged_finish(&merged);
    hf_place_names_find(&merged);
    check_document(&keep, &merged, document);
    check_text(&merged);
    hf_keep_release(&keep);
    return true;
}
