/*
 * libc's allocating functions when the heap is full: each fails with ENOMEM, keeps what the caller
 * had, and closes and frees what it opened on the way. libc's own memory is not full here, so each
 * gets as far as the copy into the heap. Run with HOMEFREE_CONF=region:64M.
 */
#include "suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { LONG = 4 << 20 };

struct link {
    struct link *next;
};

/* The blocks of one size, the latest first. No memory is left for another block of that size. */
static struct link *exhaust(size_t size)
{
    struct link *first = NULL, *link;
    while ((link = hf_malloc(size)) != NULL) {
        link->next = first;
        first = link;
    }
    return first;
}

static void fill(void)
{
    static const size_t sizes[] = {1 << 20, 1 << 16, 1 << 14, 4096, 1024, 512, 256, 128};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        ck_assert(exhaust(sizes[i]) != NULL || i > 0);
    /* Every class of small blocks that the functions below may request. */
    for (size_t size = 512; size >= 16; size -= 16)
        (void)exhaust(size);
    ck_assert_ptr_null(hf_malloc(16));
}

static int next_descriptor(void)
{
    int descriptor = open("/", O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(descriptor, 0);
    close(descriptor);
    return descriptor;
}

#define ASSERT_NO_MEMORY(condition)      \
    do {                                 \
        errno = 0;                       \
        ck_assert(condition);            \
        ck_assert_int_eq(errno, ENOMEM); \
    } while (0)

START_TEST(strings)
{
    static wchar_t wide[LONG / sizeof(wchar_t)];
    wmemset(wide, L'w', sizeof wide / sizeof wide[0] - 1);
    char here[PATH_MAX];
    ck_assert_ptr_nonnull(hf_getcwd(here, sizeof here));
    fill();
    char *out = NULL;
    ASSERT_NO_MEMORY(hf_asprintf(&out, "%*d", LONG, 1) == -1);
    ck_assert_ptr_null(out);
    ASSERT_NO_MEMORY(hf_wcsdup(wide) == NULL);
    ASSERT_NO_MEMORY(hf_realpath("/", NULL) == NULL);
    ASSERT_NO_MEMORY(hf_canonicalize_file_name("/") == NULL);
    ASSERT_NO_MEMORY(hf_getcwd(NULL, 0) == NULL);
    ASSERT_NO_MEMORY(hf_getcwd(NULL, PATH_MAX) == NULL);
    ASSERT_NO_MEMORY(hf_get_current_dir_name() == NULL);
    void *address = (void *)(uintptr_t)fill;
    ASSERT_NO_MEMORY(hf_backtrace_symbols(&address, 1) == NULL);
}
END_TEST

START_TEST(line_that_cannot_grow)
{
    FILE *stream = tmpfile();
    ck_assert_ptr_nonnull(stream);
    for (int i = 0; i < LONG; i++)
        putc('l', stream);
    rewind(stream);
    char *line = hf_malloc(16);
    ck_assert_ptr_nonnull(line);
    strcpy(line, "kept");
    char *kept = line;
    size_t size = 16;
    fill();
    ASSERT_NO_MEMORY(hf_getline(&line, &size, stream) == -1);
    ck_assert(line == kept && size == 16);
    ck_assert_str_eq(line, "kept");
    fclose(stream);
}
END_TEST

/* The text that was written before stays, and belongs to the caller. */
START_TEST(stream_that_cannot_grow)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *stream = hf_open_memstream(&bytes, &size);
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_ge(fputs("kept", stream), 0);
    ck_assert_int_eq(fflush(stream), 0);
    fill();
    static char more[LONG];
    ASSERT_NO_MEMORY(fwrite(more, 1, sizeof more, stream) < sizeof more || fflush(stream) != 0);
    ck_assert_int_ne(ferror(stream), 0);
    fclose(stream);
    ck_assert_uint_ge(size, 4);
    ck_assert_int_eq(memcmp(bytes, "kept", 4), 0);
    hf_free(bytes);
}
END_TEST

START_TEST(stream_that_cannot_open)
{
    char *bytes = NULL;
    size_t size = 7;
    fill();
    ASSERT_NO_MEMORY(hf_open_memstream(&bytes, &size) == NULL);
    ck_assert(bytes == NULL && size == 7);
}
END_TEST

/* If there is no room for the stream's buffer, its record is freed. */
START_TEST(stream_without_buffer)
{
    char *bytes = NULL;
    size_t size = 7;
    struct link *records[16];
    for (size_t i = 0; i < 16; i++) {
        records[i] = hf_malloc(64);
        ck_assert_ptr_nonnull(records[i]);
    }
    fill();
    for (size_t i = 0; i < 16; i++)
        hf_free(records[i]);
    for (int i = 0; i < 64; i++)
        ASSERT_NO_MEMORY(hf_open_memstream(&bytes, &size) == NULL);
    ck_assert(bytes == NULL && size == 7);
    for (size_t i = 0; i < 16; i++)
        ck_assert_ptr_nonnull(hf_malloc(64));
}
END_TEST

/* The list and some names fit; all are freed when the next name does not fit. */
START_TEST(directory)
{
    struct dirent **names = NULL;
    void *list = hf_malloc(32 * sizeof(void *)), *entries[3];
    ck_assert_ptr_nonnull(list);
    for (size_t i = 0; i < 3; i++) {
        entries[i] = hf_malloc(24);
        ck_assert_ptr_nonnull(entries[i]);
    }
    fill();
    int descriptor = next_descriptor();
    ASSERT_NO_MEMORY(hf_scandir("/proc/self", &names, NULL, NULL) == -1);
    hf_free(list);
    for (size_t i = 0; i < 3; i++)
        hf_free(entries[i]);
    for (int i = 0; i < 64; i++)
        ASSERT_NO_MEMORY(hf_scandir("/proc/self", &names, NULL, NULL) == -1);
    ck_assert_ptr_null(names);
    ck_assert_int_eq(next_descriptor(), descriptor);
    ck_assert_ptr_nonnull(hf_malloc(32 * sizeof(void *)));
    for (size_t i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(hf_malloc(24));
}
END_TEST

int main(void)
{
    return RUN_SUITE(strings, line_that_cannot_grow, stream_that_cannot_grow,
                     stream_that_cannot_open, stream_without_buffer, directory);
}
