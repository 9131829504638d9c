/*
 * The first line of a script, and what env(1) would make of its argument (`homefree run SCRIPT`).
 */
#include "loader/command/program/script.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_script script;
    char command[HF_SCRIPT_LINE];
    const size_t length = size < HF_SCRIPT_LINE ? size : HF_SCRIPT_LINE;
    memset(&script, 'x', sizeof script);
    memset(command, 'x', sizeof command);
    if (!hf_script_read((const char *)data, length, &script))
        return 0;
    ck_assert_uint_lt(strnlen(script.interpreter, HF_SCRIPT_LINE), HF_SCRIPT_LINE);
    ck_assert_uint_lt(strnlen(script.argument, HF_SCRIPT_LINE), HF_SCRIPT_LINE);
    ck_assert_uint_gt(strlen(script.interpreter), 0);
    if (hf_script_env(script.argument, command) == HF_SCRIPT_ENV_RUNS) {
        ck_assert_uint_lt(strnlen(command, HF_SCRIPT_LINE), HF_SCRIPT_LINE);
        ck_assert_uint_gt(strlen(command), 0);
    }
    return 0;
}
