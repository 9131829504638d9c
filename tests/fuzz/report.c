/*
 * `homefree report` of a diagnosed process's file: reading, merging, documents, folded
 * stacks. The document must be JSON. Names come from a small object, the second part of the input;
 * libdw, which is not ours, is not asked.
 */
#include "expand.h"
#include "fuzz.h"
#include "loader/command/report/libdw.h"

#include "../loader/report/show.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

bool hf_libdw_open(struct hf_libdw_file *file, const char *path, int descriptor,
                   const uint8_t *build, size_t build_size)
{
    (void)file, (void)path, (void)descriptor, (void)build, (void)build_size;
    return false;
}

void hf_libdw_close(struct hf_libdw_file *file)
{
    (void)file;
}

struct hf_libdw_names hf_libdw_look_up(const struct hf_libdw_file *file, uint64_t address)
{
    (void)file, (void)address;
    return (struct hf_libdw_names){.symbol = NULL};
}

static int open_object(const void *files, const char *path)
{
    (void)path;
    return open(files, O_RDONLY | O_CLOEXEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part rest = {data, size};
    const struct fuzz_part report = fuzz_take(&rest, "\n--\n");
    size_t expanded;
    unsigned char *file = fuzz_expand(report.data, report.size, &expanded);
    const char *path = fuzz_file(0, file, expanded);
    free(file);
    show_report(path, open_object, fuzz_file(1, rest.data, rest.size));
    return 0;
}
