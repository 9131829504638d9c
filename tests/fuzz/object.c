/*
 * The modules that an object file, an archive or a shared object of any machine defines, and the
 * version script that `homefree exports` makes of them.
 */
#include "exported.h"
#include "fuzz.h"
#include "loader/command/exports/object_names.h"
#include "loader/command/exports/version_script.h"
#include "loader/inspect/module_functions.h"

#include <errno.h>
#include <string.h>

static int add(const char *symbol, void *list)
{
    ck_assert_int_ne(hf_module_function_of(symbol, NULL), HF_MODULE_FUNCTION_NONE);
    return hf_exports_add_symbol(list, symbol);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[160];
    struct hf_objects_seen seen = {0};
    struct hf_exports *list = hf_exports_new();
    ck_assert_ptr_nonnull(list);
    const char *path = fuzz_file(0, data, size);
    const int result = hf_objects_read(path, add, list, &seen, why, sizeof why);
    ck_assert(result == 0 || result == -ENOEXEC || result == -EFBIG || result == -ENOTSUP);
    ck_assert_int_eq(result == 0, why[0] == '\0');
    ck_assert_uint_lt(strlen(why), sizeof why);
    ck_assert_uint_le(hf_exports_count(list), seen.defined);
    fuzz_check_script(list, "NODE_1.0");
    hf_exports_free(list);
    return 0;
}
