/*
 * `homefree doctor --read`: the record of a process, its findings, the document. Files that it
 * names are looked for in a process that has none: the paths would be the fuzzer's.
 */
#include "fuzz.h"
#include "shown_record.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct hf_live_process nothing = {
        .directory = -1, .root = -1, .memory = -1, .deadline = INT64_MAX};
    struct hf_record record;
    (void)fuzz_file(0, data, size);
    const int result = hf_record_read(fuzz_descriptor(0), &record);
    ck_assert(result == 0 || result == -ENOEXEC);
    ck_assert_int_eq(result != 0, record.why != NULL);
    record.process = &nothing;
    if (result == 0)
        fuzz_show_record(&record);
    hf_record_free(&record);
    return 0;
}
