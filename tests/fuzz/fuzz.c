/*
 * See fuzz.h. Owns the files in memory and the directory, until the process ends. One thread.
 */
#include "fuzz.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    int descriptor; /* 0: not made yet */
    char path[64];
} files[FUZZ_FILES];

static char directory[] = "/tmp/homefree-fuzz.XXXXXX";
static const struct fuzz_link *linked;
static size_t linked_count;

const char *fuzz_file(int number, const void *data, size_t size)
{
    if (files[number].descriptor == 0) {
        files[number].descriptor = memfd_create("fuzz", MFD_CLOEXEC);
        ck_assert_int_gt(files[number].descriptor, 0);
        snprintf(files[number].path, sizeof files[number].path, "/proc/self/fd/%d",
                 files[number].descriptor);
    }
    const int descriptor = files[number].descriptor;
    ck_assert_int_eq(ftruncate(descriptor, 0), 0);
    for (size_t done = 0; done < size;) {
        const ssize_t written =
            pwrite(descriptor, (const char *)data + done, size - done, (off_t)done);
        ck_assert_int_gt(written, 0);
        done += (size_t)written;
    }
    ck_assert_int_eq(lseek(descriptor, 0, SEEK_SET), 0);
    return files[number].path;
}

int fuzz_descriptor(int number)
{
    return files[number].descriptor;
}

static void remove_directory(void)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < linked_count; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, linked[i].name);
        (void)unlink(path);
    }
    (void)rmdir(directory);
}

const char *fuzz_directory(const struct fuzz_link *links, size_t count)
{
    char path[PATH_MAX];
    if (linked != NULL)
        return directory;
    ck_assert_ptr_nonnull(mkdtemp(directory));
    linked = links;
    linked_count = count;
    (void)atexit(remove_directory);
    for (size_t i = 0; i < count; i++) {
        (void)fuzz_file(links[i].file, "", 0);
        snprintf(path, sizeof path, "%s/%s", directory, links[i].name);
        ck_assert_int_eq(symlink(files[links[i].file].path, path), 0);
    }
    return directory;
}

struct fuzz_part fuzz_take(struct fuzz_part *rest, const char *mark)
{
    const size_t length = strlen(mark);
    const uint8_t *found =
        rest->size >= length ? memmem(rest->data, rest->size, mark, length) : NULL;
    struct fuzz_part part = *rest;
    if (found != NULL)
        part.size = (size_t)(found - rest->data);
    const size_t used = part.size + (found != NULL ? length : 0);
    rest->data += used;
    rest->size -= used;
    return part;
}

char *fuzz_text(struct fuzz_part part)
{
    char *text = malloc(part.size + 1);
    ck_assert_ptr_nonnull(text);
    if (part.size > 0)
        memcpy(text, part.data, part.size);
    text[part.size] = '\0';
    return text;
}
