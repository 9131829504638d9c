/*
 * The file of suppressions (`homefree run --suppress`): reading it, and matching its patterns. The
 * last line of an input is what is matched: RULE, ALLOCATED and FREED, each ending with a blank.
 */
#include "fuzz.h"

#include "alloc/diagnose/suppressions.c"

#include <stdlib.h>

/* ---- what it uses of the report ---- */

static const char *freed_path;
static struct hf_report_suppressed record;

bool hf_report_lock(void)
{
    return true;
}

void hf_report_unlock(void)
{
}

void *hf_report_add(enum hf_report_type type, size_t size, uint32_t *number)
{
    (void)number;
    ck_assert_int_eq(type, HF_REPORT_SUPPRESSED);
    ck_assert_uint_eq(size, sizeof record);
    return &record;
}

void hf_report_publish(enum hf_report_type type, size_t size)
{
    (void)type, (void)size;
}

uint32_t hf_report_string(const char *text, size_t length, const char **copy)
{
    (void)copy;
    ck_assert_uint_le(length, strlen(text));
    return 1;
}

const char *hf_site_object_path(uint32_t number)
{
    (void)number;
    return freed_path;
}

/* ---- the target ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t start = size;
    while (start > 0 && data[start - 1] != '\n')
        start--;
    struct fuzz_part rest = {data + start, size - start};
    char *rule = fuzz_text(fuzz_take(&rest, " "));
    char *allocated = fuzz_text(fuzz_take(&rest, " "));
    char *freed = fuzz_text(fuzz_take(&rest, " "));
    const struct hf_event event = {.allocator_object = allocated};
    unsigned line = 0;
    suppression_count = 0;
    freed_path = freed;
    const int result = hf_suppressions_read(fuzz_file(0, data, start), &line);
    ck_assert(result == 0 || result == -EINVAL);
    ck_assert_uint_ge(line, 1);
    ck_assert_uint_le(suppression_count, SUPPRESSIONS_MAX);
    (void)hf_suppressed(rule, &event);
    hf_suppressions_in_child();
    free(rule);
    free(allocated);
    free(freed);
    return 0;
}
