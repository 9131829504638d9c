/*
 * How a process without HOMEFREE_DIAGNOSE finds the report of an ancestor: the ancestor's stat and
 * maps, in which names of programs and files may hold anything. An input is both.
 */
#include <fcntl.h>

#include "fuzz.h"

static int open_input(const char *path, int flags);
#define open open_input
#include "alloc/diagnose/ancestors.c"
#undef open

static const char *input;
static int opened;

static int open_input(const char *path, int flags)
{
    ck_assert_int_eq(strncmp(path, "/proc/", 6), 0);
    opened++;
    return open(input, flags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char directory[1024];
    input = fuzz_file(0, data, size);
    opened = 0;
    memset(directory, 'x', sizeof directory);
    if (hf_ancestors_directory(directory, sizeof directory))
        ck_assert_int_eq(directory[0], '/');
    ck_assert_uint_lt(strnlen(directory, sizeof directory), sizeof directory);
    ck_assert_int_le(opened, 2 * ANCESTORS_MAX);
    return 0;
}
