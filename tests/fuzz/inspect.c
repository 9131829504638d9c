/*
 * `homefree inspect` of a file: facts, findings, the libraries that it needs, the document.
 */
#include "fuzz.h"
#include "loader/command/command.h"

#include "../loader/inspect/walk.h"

#include <stdlib.h>
#include <string.h>

static void inspect(const char *path)
{
    char *arguments[] = {strdup("inspect"), strdup("--json"), strdup(path), NULL};
    const int status = hf_command_inspect(3, arguments);
    ck_assert(status == HF_EXIT_CLEAN || status == HF_EXIT_FINDINGS || status == HF_EXIT_FAILED);
    for (size_t i = 0; i < 3; i++)
        free(arguments[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image image = {malloc(size > 0 ? size : 1), size};
    ck_assert_ptr_nonnull(image.data);
    if (size > 0)
        memcpy(image.data, data, size);
    const int result = inspect_image(&image, "/nowhere/module.so");
    free(image.data);
    if (result == 0)
        inspect(fuzz_file(0, data, size));
    return 0;
}
