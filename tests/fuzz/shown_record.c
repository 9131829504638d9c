/*
 * See shown_record.h.
 */
#include "shown_record.h"

#include "fuzz.h"
#include "loader/command/doctor/doctor_document.h"
#include "valid_json.h"

#include <signal.h>
#include <stdlib.h>

void fuzz_show_record(struct hf_record *record)
{
    struct hf_json json;
    struct hf_rule_totals totals = {.failed = 0};
    char *text = NULL;
    size_t length = 0;
    hf_record_find(record, (struct hf_record_end){.signal = SIGSEGV});
    FILE *out = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(out);
    hf_json_begin_plain(&json, out, true);
    hf_json_array(&json, "processes");
    hf_doctor_write_json(&json, record, &totals);
    hf_json_close(&json);
    hf_json_finish(&json);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert(valid_json(text, length));
    free(text);
}
