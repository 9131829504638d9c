/*
 * Runs a target once with each file in the given directories, where there is no libFuzzer, and with
 * no bytes at all.
 *
 *   fuzz-TARGET DIRECTORY...
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the target prints is not of interest; `told` is the standard error before that. */
static FILE *told;

static size_t replay(const char *directory)
{
    DIR *entries = opendir(directory);
    size_t count = 0;
    if (entries == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[4096];
        long size;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        FILE *file = fopen(path, "rbe");
        ck_assert_ptr_nonnull(file);
        ck_assert(fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0);
        rewind(file);
        /* Exactly as long, so that a sanitizer sees what is read behind the end. */
        uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
        ck_assert_ptr_nonnull(data);
        ck_assert_uint_eq(fread(data, 1, (size_t)size, file), (size_t)size);
        fclose(file);
        fprintf(told, "%s\n", path);
        LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
        count++;
    }
    closedir(entries);
    return count;
}

int main(int count, char **directories)
{
    size_t inputs = 0;
    told = fdopen(dup(STDERR_FILENO), "w");
    if (told == NULL || freopen("/dev/null", "w", stdout) == NULL)
        return EXIT_FAILURE;
    setvbuf(told, NULL, _IONBF, 0);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < count; i++)
        inputs += replay(directories[i]);
    fprintf(told, "%zu inputs\n", inputs);
    return inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
