/*
 * getline() and getdelim() read what libc reads. The buffer may be NULL, too small, the heap's or
 * libc's; its owner resizes it.
 */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static FILE *stream_of(const char *bytes, size_t size)
{
    FILE *stream = tmpfile();
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(bytes, 1, size, stream), size);
    rewind(stream);
    return stream;
}

START_TEST(lines_of_every_kind)
{
    static const char text[] = "first\n\nwith\0zero\nlast";
    static const struct {
        const char *bytes;
        ssize_t length;
    } lines[] = {{"first\n", 6}, {"\n", 1}, {"with\0zero\n", 10}, {"last", 4}};
    for (int i = 0; i < MAKERS; i++) {
        FILE *stream = stream_of(text, sizeof text - 1);
        char *line = NULL;
        size_t size = 0;
        for (size_t at = 0; at < sizeof lines / sizeof lines[0]; at++) {
            ck_assert_int_eq(makers[i]->f_getline(&line, &size, stream), lines[at].length);
            assert_home(makers[i], line);
            ck_assert_uint_gt(size, (size_t)lines[at].length);
            ck_assert_mem_eq(line, lines[at].bytes, (size_t)lines[at].length + 1);
        }
        errno = EDOM;
        ck_assert_int_eq(makers[i]->f_getline(&line, &size, stream), -1);
        ck_assert_int_eq(errno, EDOM); /* the end of the file is no error */
        ck_assert_int_ne(feof(stream), 0);
        makers[i]->f_free(line);
        fclose(stream);
    }
}
END_TEST

/* Reads the text as one line into a buffer of the function's own; all of the stated size may be
 * used. */
static void check_first_buffer(const struct functions *maker, const char *text, size_t *size)
{
    FILE *stream = stream_of(text, strlen(text));
    char *line = NULL;
    ck_assert_int_eq(maker->f_getline(&line, size, stream), (ssize_t)strlen(text));
    assert_home(maker, line);
    ck_assert_uint_ge(maker->f_malloc_usable_size(line), *size);
    maker->f_free(line);
    fclose(stream);
}

START_TEST(the_first_buffer_has_libcs_size)
{
    for (int i = 0; i < MAKERS; i++) {
        size_t size = 0;
        check_first_buffer(makers[i], "a\n", &size);
        ck_assert_uint_eq(size, 120);
    }
}
END_TEST

START_TEST(a_size_without_a_buffer_means_nothing)
{
    for (int i = 0; i < MAKERS; i++) {
        size_t size = 99999;
        check_first_buffer(makers[i], "some text\n", &size);
    }
}
END_TEST

START_TEST(a_buffer_that_is_too_small_grows_at_its_owner)
{
    for (int maker = 0; maker < MAKERS; maker++)
        for (int reader = 0; reader < MAKERS; reader++) {
            FILE *stream = stream_of("longer than the buffer\nx\n", 25);
            size_t size = 5;
            char *line = makers[maker]->f_malloc(size);
            ck_assert_int_eq(makers[reader]->f_getline(&line, &size, stream), 23);
            assert_home(makers[maker], line);
            ck_assert_str_eq(line, "longer than the buffer\n");
            ck_assert_uint_ge(makers[maker]->f_malloc_usable_size(line), size);
            const char *before = line;
            ck_assert_int_eq(makers[reader]->f_getline(&line, &size, stream), 2);
            ck_assert_ptr_eq(line, before); /* it fits, so it stays where it is */
            makers[reader]->f_free(line);
            fclose(stream);
        }
}
END_TEST

START_TEST(long_lines)
{
    enum { LENGTH = 3000000 };
    char *text = malloc(LENGTH);
    memset(text, 'x', LENGTH);
    text[LENGTH - 1] = '\n';
    for (int i = 0; i < MAKERS; i++) {
        FILE *stream = stream_of(text, LENGTH);
        char *line = NULL;
        size_t size = 0;
        ck_assert_int_eq(makers[i]->f_getline(&line, &size, stream), LENGTH);
        assert_home(makers[i], line);
        ck_assert_int_eq(memcmp(line, text, LENGTH), 0);
        ck_assert_int_eq(line[LENGTH], '\0');
        makers[i]->f_free(line);
        fclose(stream);
    }
    free(text);
}
END_TEST

START_TEST(delimiters)
{
    for (int i = 0; i < MAKERS; i++)
        for (int other_name = 0; other_name < 2; other_name++) {
            ssize_t (*function)(char **, size_t *, int, FILE *) =
                other_name ? makers[i]->f___getdelim : makers[i]->f_getdelim;
            FILE *stream = stream_of("a:bc:\0:\xff", 8);
            char *line = NULL;
            size_t size = 0;
            ck_assert_int_eq(function(&line, &size, ':', stream), 2);
            ck_assert_str_eq(line, "a:");
            ck_assert_int_eq(function(&line, &size, '\0', stream), 4);
            ck_assert_str_eq(line, "bc:");
            ck_assert_int_eq(function(&line, &size, 0xff, stream), 2);
            ck_assert_str_eq(line, ":\xff");
            assert_home(makers[i], line);
            makers[i]->f_free(line);
            fclose(stream);
        }
}
END_TEST

START_TEST(errors)
{
    for (int i = 0; i < MAKERS; i++) {
        FILE *stream = stream_of("text\n", 5);
        char *line = NULL;
        size_t size = 0;
        /* Only the module: from 2.41 on, libc's function reads from the stream all the same. */
        if (makers[i] == &module) {
            errno = 0;
            ck_assert_int_eq(module.f_getline(NULL, &size, stream), -1);
            ck_assert_int_eq(errno, EINVAL);
            errno = 0;
            ck_assert_int_eq(module.f_getdelim(&line, NULL, '\n', stream), -1);
            ck_assert_int_eq(errno, EINVAL);
        }
        /* Nothing was read from the stream before. */
        ck_assert_int_eq(makers[i]->f_getline(&line, &size, stream), 5);
        makers[i]->f_free(line);
        fclose(stream);

        stream = fopen("/dev/null", "w");
        line = NULL;
        size = 0;
        errno = 0;
        ck_assert_int_eq(makers[i]->f_getline(&line, &size, stream), -1);
        ck_assert_int_eq(errno, EBADF);
        ck_assert_int_ne(ferror(stream), 0);
        makers[i]->f_free(line);
        fclose(stream);
    }
}
END_TEST

START_TEST(as_written)
{
    FILE *stream = stream_of("one\ntwo\n", 8);
    char *line = idioms.first_line(stream);
    assert_home(&module, line);
    ck_assert_str_eq(line, "one\n");
    module.f_free(line);
    fclose(stream);
}
END_TEST

int main(int count, char **arguments)
{
    load_module(count, arguments);
    return RUN_TESTS("lines", lines_of_every_kind, the_first_buffer_has_libcs_size,
                     a_size_without_a_buffer_means_nothing,
                     a_buffer_that_is_too_small_grows_at_its_owner, long_lines, delimiters, errors,
                     as_written);
}
