/*
 * open_memstream() gives the block and size that POSIX specifies after each fflush() and fclose(),
 * and the block is the heap's.
 */
#include "fixture.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The stream of the current test. */
static struct stream {
    FILE *file;
    char *bytes;
    size_t size;
} stream;

static void begin(const struct functions *maker, const char *text)
{
    stream.file = maker->f_open_memstream(&stream.bytes, &stream.size);
    ck_assert_ptr_nonnull(stream.file);
    if (text[0] != '\0')
        ck_assert_int_ge(fputs(text, stream.file), 0);
}

static void assert_content(const struct functions *maker, const char *bytes, size_t size)
{
    assert_home(maker, stream.bytes);
    ck_assert_uint_eq(stream.size, size);
    ck_assert_mem_eq(stream.bytes, bytes, size);
}

static void end(const struct functions *maker)
{
    ck_assert_int_eq(fclose(stream.file), 0);
    maker->f_free(stream.bytes);
}

/* Also asserts that the content is this, with a NUL behind it. */
static void end_with(const struct functions *maker, const char *bytes, size_t size)
{
    ck_assert_int_eq(fclose(stream.file), 0);
    assert_content(maker, bytes, size);
    ck_assert_int_eq(stream.bytes[size], '\0');
    maker->f_free(stream.bytes);
}

START_TEST(nothing_written)
{
    for (int i = 0; i < MAKERS; i++) {
        begin(makers[i], "");
        end_with(makers[i], "", 0);
    }
}
END_TEST

START_TEST(a_flush_shows_what_was_written)
{
    for (int i = 0; i < MAKERS; i++) {
        begin(makers[i], "hello");
        ck_assert_int_eq(fflush(stream.file), 0);
        assert_content(makers[i], "hello", 6 - 1);
        ck_assert_int_eq(stream.bytes[5], '\0');
        ck_assert_int_eq(fwrite("\0, ", 1, 3, stream.file), 3);
        fprintf(stream.file, "world %d", 1);
        ck_assert_int_eq(fflush(stream.file), 0);
        assert_content(makers[i], "hello\0, world 1", 15);
        end(makers[i]);
    }
}
END_TEST

START_TEST(seeking_back_and_overwriting)
{
    /* As POSIX requires; glibc 2.36 forgets the end if it flushes at an earlier position. */
    const struct functions *maker = &module;
    begin(maker, "hello, world");
    ck_assert_int_eq(fseek(stream.file, 0, SEEK_SET), 0);
    ck_assert_int_eq(ftell(stream.file), 0);
    fputs("JELLO", stream.file);
    ck_assert_int_eq(fflush(stream.file), 0);
    /* The size is the position if that is before the end. */
    assert_content(maker, "JELLO", 5);
    ck_assert_int_eq(fseek(stream.file, 0, SEEK_END), 0);
    ck_assert_int_eq(ftell(stream.file), 12);
    ck_assert_int_eq(fflush(stream.file), 0);
    assert_content(maker, "JELLO, world", 12);
    ck_assert_int_eq(fseek(stream.file, -5, SEEK_CUR), 0);
    fputs("W", stream.file);
    ck_assert_int_eq(fseek(stream.file, 0, SEEK_END), 0);
    fputs("!", stream.file);
    end_with(maker, "JELLO, World!", 13);
}
END_TEST

START_TEST(a_gap_is_filled_with_zeroes)
{
    for (int i = 0; i < MAKERS; i++) {
        begin(makers[i], "a");
        ck_assert_int_eq(fseek(stream.file, 20000, SEEK_SET), 0);
        fputs("z", stream.file);
        ck_assert_int_eq(fclose(stream.file), 0);
        assert_home(makers[i], stream.bytes);
        ck_assert_uint_eq(stream.size, 20001);
        ck_assert_int_eq(stream.bytes[0], 'a');
        for (int at = 1; at < 20000; at++)
            ck_assert_int_eq(stream.bytes[at], '\0');
        ck_assert_int_eq(stream.bytes[20000], 'z');
        makers[i]->f_free(stream.bytes);
    }
}
END_TEST

START_TEST(positions_that_do_not_exist)
{
    for (int i = 0; i < MAKERS; i++) {
        begin(makers[i], "text");
        ck_assert_int_eq(fflush(stream.file), 0);
        errno = 0;
        ck_assert_int_eq(fseek(stream.file, -1, SEEK_SET), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_int_eq(fseek(stream.file, -100, SEEK_END), -1);
        ck_assert_int_eq(ftell(stream.file), 4);
        end(makers[i]);
    }
}
END_TEST

START_TEST(grows_to_a_megabyte)
{
    for (int i = 0; i < MAKERS; i++) {
        begin(makers[i], "");
        /* One assertion for all lines, because an assertion takes longer than a line. */
        bool written = true;
        for (int at = 0; at < 1 << 18; at++)
            written &= fprintf(stream.file, "%04x", at & 0xffff) == 4;
        ck_assert(written);
        ck_assert_int_eq(fclose(stream.file), 0);
        assert_home(makers[i], stream.bytes);
        ck_assert_uint_eq(stream.size, 1 << 20);
        ck_assert_uint_eq(strlen(stream.bytes), 1 << 20);
        ck_assert_mem_eq(stream.bytes + (1 << 20) - 8, "fffeffff", 8);
        makers[i]->f_free(stream.bytes);
    }
}
END_TEST

START_TEST(no_place_for_the_result)
{
    /* libc follows the pointers; the heap's function reports the error. */
    char *bytes;
    size_t size;
    errno = 0;
    ck_assert_ptr_null(module.f_open_memstream(NULL, &size));
    ck_assert_int_eq(errno, EINVAL);
    errno = 0;
    ck_assert_ptr_null(module.f_open_memstream(&bytes, NULL));
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

int main(int count, char **arguments)
{
    load_module(count, arguments);
    return RUN_TESTS("memory stream", nothing_written, a_flush_shows_what_was_written,
                     seeking_back_and_overwriting, a_gap_is_filled_with_zeroes,
                     positions_that_do_not_exist, grows_to_a_megabyte, no_place_for_the_result);
}
