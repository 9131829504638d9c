/*
 * The index of homefree.extension's cache, which every load() reads. An input is the request, a
 * newline, and the index. A byte 1 stands for the identity of the one module that the cache has,
 * so that an index can be right. What is found must be that module.
 */
#include "fuzz.h"

#include "python/native/warm.c"

#include <stdio.h>

void *hf_malloc(size_t size)
{
    return malloc(size);
}

void hf_free(void *block)
{
    free(block);
}

static void write_identity(const char *file, char out[128])
{
    struct stat status;
    char text[128], *end = text + sizeof text - 1, *start = end;
    *end = '\0';
    ck_assert_int_eq(stat(file, &status), 0);
    start = put_time(start, &status.st_ctim);
    *--start = ' ';
    start = put_time(start, &status.st_mtim);
    *--start = ' ';
    start = put(start, (uint64_t)status.st_size, 1);
    *--start = ' ';
    start = put(start, (uint64_t)status.st_ino, 1);
    memcpy(out, start, (size_t)(end - start) + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The entry "." holds the module. */
    static const struct fuzz_link links[] = {{"index", 0}, {"module", 1}};
    char identity[128], module[PATH_MAX];
    struct fuzz_part rest = {data, size};
    char *request = fuzz_text(fuzz_take(&rest, "\n"));
    char *text = malloc(rest.size * sizeof identity + 1);
    size_t length = 0;
    ck_assert_ptr_nonnull(text);
    const char *where = fuzz_folder(links, sizeof links / sizeof links[0]);
    snprintf(module, sizeof module, "%s/module", where);
    write_identity(module, identity);
    for (size_t i = 0; i < rest.size; i++) {
        const size_t more = rest.data[i] == 1 ? strlen(identity) : 1;
        memcpy(text + length, rest.data[i] == 1 ? identity : (const char *)&rest.data[i], more);
        length += more;
    }
    (void)fuzz_file(0, text, length);
    if (homefree_find_warm(where, where, request, "/usr/bin:/bin", module)) {
        char found[128];
        ck_assert_int_eq(strncmp(module, where, strlen(where)), 0);
        write_identity(module, found);
        ck_assert_str_eq(found, identity);
    }
    free(text);
    free(request);
    return 0;
}
