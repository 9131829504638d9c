/*
 * Functions that return new strings (copies, formatted text, symbol names) allocate them from the
 * heap, with libc's results.
 */
#include "fixture.h"

#include <errno.h>
#include <execinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

START_TEST(copied_text)
{
    const char *const texts[] = {"", "a", "a text that is longer than the smallest size class"};
    for (int i = 0; i < MAKERS; i++)
        for (size_t at = 0; at < sizeof texts / sizeof texts[0]; at++) {
            char *copies[] = {makers[i]->f_strdup(texts[at]), makers[i]->f___strdup(texts[at]),
                              makers[i]->f_strndup(texts[at], SIZE_MAX),
                              makers[i]->f___strndup(texts[at], strlen(texts[at]))};
            for (size_t copy = 0; copy < sizeof copies / sizeof copies[0]; copy++) {
                assert_home(makers[i], copies[copy]);
                ck_assert_str_eq(copies[copy], texts[at]);
                makers[i]->f_free(copies[copy]);
            }
        }
}
END_TEST

START_TEST(strndup_reads_no_further_than_it_may)
{
    /* A text without a NUL at the very end of its block. */
    for (int i = 0; i < MAKERS; i++) {
        char *text = makers[i]->f_malloc(16);
        memset(text, 'x', 16);
        char *copy = makers[i]->f_strndup(text, 16);
        assert_home(makers[i], copy);
        ck_assert_uint_eq(strlen(copy), 16);
        makers[i]->f_free(copy);
        copy = makers[i]->f___strndup(text, 3);
        ck_assert_str_eq(copy, "xxx");
        makers[i]->f_free(copy);
        copy = makers[i]->f_strndup(text, 0);
        ck_assert_str_eq(copy, "");
        makers[i]->f_free(copy);
        makers[i]->f_free(text);
    }
}
END_TEST

START_TEST(wide_copies)
{
    for (int i = 0; i < MAKERS; i++) {
        wchar_t *copy = makers[i]->f_wcsdup(L"wide \x20ac text");
        assert_home(makers[i], copy);
        ck_assert_int_eq(wcscmp(copy, L"wide \x20ac text"), 0);
        makers[i]->f_free(copy);
    }
}
END_TEST

static int format_list(int (*function)(char **, const char *, va_list), char **out,
                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = function(out, format, arguments);
    va_end(arguments);
    return length;
}

static int format_list_checked(int (*function)(char **, int, const char *, va_list), char **out,
                               const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = function(out, 1, format, arguments);
    va_end(arguments);
    return length;
}

START_TEST(formats)
{
    for (int i = 0; i < MAKERS; i++) {
        char *texts[4];
        const int lengths[] = {
            makers[i]->f_asprintf(&texts[0], "%s %d", "text", 42),
            makers[i]->f___asprintf_chk(&texts[1], 1, "%s %d", "text", 42),
            format_list(makers[i]->f_vasprintf, &texts[2], "%s %d", "text", 42),
            format_list_checked(makers[i]->f___vasprintf_chk, &texts[3], "%s %d", "text", 42),
        };
        for (int at = 0; at < 4; at++) {
            ck_assert_int_eq(lengths[at], 7);
            assert_home(makers[i], texts[at]);
            ck_assert_str_eq(texts[at], "text 42");
            makers[i]->f_free(texts[at]);
        }
        char *text;
        ck_assert_int_eq(makers[i]->f_asprintf(&text, "%*d", 100000, 1), 100000);
        assert_home(makers[i], text);
        makers[i]->f_free(text);
        ck_assert_int_eq(makers[i]->f_asprintf(&text, "%s", ""), 0);
        ck_assert_str_eq(text, "");
        makers[i]->f_free(text);
    }
}
END_TEST

START_TEST(formats_that_fail)
{
    /* In the C locale, wide characters above 127 have no multibyte form. */
    setlocale(LC_ALL, "C");
    for (int i = 0; i < MAKERS; i++) {
        char *text = NULL;
        errno = 0;
        ck_assert_int_eq(makers[i]->f_asprintf(&text, "%ls", L"\x20ac"), -1);
        ck_assert_int_eq(errno, EILSEQ);
        ck_assert_int_eq(format_list(makers[i]->f_vasprintf, &text, "%ls", L"\x20ac"), -1);
    }
}
END_TEST

START_TEST(formats_as_written)
{
    char *text = idioms.format("name", 7);
    assert_home(&module, text);
    ck_assert_str_eq(text, "name-7");
    module.f_free(text);
    text = idioms.format_list("%d+%d", 1, 2);
    assert_home(&module, text);
    ck_assert_str_eq(text, "1+2");
    module.f_free(text);
}
END_TEST

START_TEST(symbol_names_are_one_block)
{
    void *addresses[16];
    int count = backtrace(addresses, 16);
    ck_assert_int_gt(count, 1);
    char **ours = module.f_backtrace_symbols(addresses, count);
    char **theirs = libc.f_backtrace_symbols(addresses, count);
    assert_home(&module, ours);
    assert_home(&libc, theirs);
    size_t size = module.f_malloc_usable_size(ours);
    for (int i = 0; i < count; i++) {
        ck_assert_str_eq(ours[i], theirs[i]);
        ck_assert_uint_lt((size_t)(ours[i] - (char *)ours), size);
    }
    module.f_free(ours);
    libc.f_free(theirs);
    /* No symbols are asked for: the result is a block that must be freed or NULL, as with libc. */
    module.f_free(module.f_backtrace_symbols(addresses, 0));
}
END_TEST

int main(int count, char **arguments)
{
    load_module(count, arguments);
    return RUN_TESTS("strings", copied_text, strndup_reads_no_further_than_it_may, wide_copies,
                     formats, formats_that_fail, formats_as_written, symbol_names_are_one_block);
}
