/*
 * See show.h.
 */
#include "show.h"

#include "loader/command/report/place_names.h"
#include "loader/command/report/report_document.h"
#include "loader/command/report/report_folded.h"

#include "valid_json.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void check_document(const struct hf_merged *merged, const struct hf_document_form *form)
{
    struct shown shown;
    FILE *out = begin(&shown);
    hf_report_document_write(out, merged, form);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert(valid_json(shown.text, shown.length));
    ck_assert_ptr_nonnull(strstr(shown.text, "\"homefree_report\": 1"));
    free(shown.text);
}

static void check_folded(const struct hf_merged *merged)
{
    struct shown shown;
    FILE *out = begin(&shown);
    hf_report_folded_write(out, merged);
    ck_assert_int_eq(fclose(out), 0);
    for (size_t i = 0; i < shown.length; i++)
        ck_assert((unsigned char)shown.text[i] >= 0x20 || shown.text[i] == '\n');
    free(shown.text);
}

bool show_report(const char *name, int (*open_object)(const void *files, const char *path),
                 const void *files)
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
    check_document(&merged, &hf_document_whole);
    check_document(&merged,
                   &(struct hf_document_form){.compact = true, .brief = true, .findings = 2});
    check_folded(&merged);
    hf_keep_release(&keep);
    return true;
}
