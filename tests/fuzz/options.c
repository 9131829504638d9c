/*
 * HOMEFREE_CONF: whatever it says, each option keeps to its limits, and reading the same again
 * gives the same.
 */
#include "alloc/base/options_parse.h"
#include "fuzz.h"

#include <stdlib.h>

static void check(const struct hf_options *options)
{
    const uint64_t values[] = {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) options->name,
#include "alloc/base/options.def"
#undef HF_OPTION
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const struct hf_option_row *row = hf_option_row(i);
        const struct hf_option_choice *choice = hf_option_choice_of(row);
        ck_assert_uint_ge(values[i], row->minimum);
        ck_assert_uint_le(values[i], row->maximum);
        ck_assert(choice == NULL || values[i] < choice->count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_options once = hf_options, twice;
    char *text = fuzz_text((struct fuzz_part){data, size});
    hf_options_parse(text, &once);
    check(&once);
    twice = once;
    hf_options_parse(text, &twice);
    ck_assert_mem_eq(&once, &twice, sizeof once);
    free(text);
    return 0;
}
