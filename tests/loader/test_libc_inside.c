/*
 * libc frees and grows what its callers own: getline's buffer, argz vectors, what globfree and
 * wordfree are given. Its own calls of free and realloc go through slots that are routed, so the
 * heap's blocks come home from there too, with errno as it was.
 */
#include "process.h"
#include "suite.h"

#include <argz.h>
#include <dlfcn.h>
#include <envz.h>
#include <errno.h>
#include <glob.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wordexp.h>

/* libc's own function, whatever this program calls under that name. */
#define LIBC(name) ((__typeof__(&name))symbol_of(RTLD_DEFAULT, #name))

enum { LARGE = 1 << 20 };

static void assert_gone(const void *block)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(block, &owner), 0);
    ck_assert_ptr_null(owner.block);
}

static FILE *stream_of(char byte, size_t size)
{
    FILE *stream = tmpfile();
    ck_assert_ptr_nonnull(stream);
    for (size_t i = 1; i < size; i++)
        fputc(byte, stream);
    fputc('\n', stream);
    rewind(stream);
    return stream;
}

START_TEST(getline_grows_a_heap_block)
{
    FILE *stream = stream_of('x', 3 * LARGE);
    size_t size = LARGE;
    char *line = hf_malloc(size), *before = line;
    ck_assert_int_eq(LIBC(getline)(&line, &size, stream), 3 * LARGE);
    ck_assert(hf_owns(line));
    ck_assert_ptr_ne(line, before);
    assert_gone(before);
    ck_assert_uint_ge(hf_usable_size(line), size);
    ck_assert_int_eq(line[3 * LARGE - 2], 'x');
    hf_free(line);
    fclose(stream);

    stream = stream_of('y', 500);
    size = 1;
    line = hf_malloc(size);
    ck_assert_int_eq(LIBC(getdelim)(&line, &size, '\n', stream), 500);
    ck_assert(hf_owns(line));
    free(line);
    fclose(stream);
}
END_TEST

START_TEST(argz_and_envz_grow_and_free_heap_blocks)
{
    size_t size = 8;
    char *vector = hf_malloc(size);
    memcpy(vector, "A=1\0B=2", size);
    ck_assert_int_eq(LIBC(argz_add)(&vector, &size, "C=3"), 0);
    ck_assert(hf_owns(vector));
    char *large = malloc(LARGE);
    memset(large, 'x', LARGE - 1);
    large[LARGE - 1] = '\0';
    ck_assert_int_eq(LIBC(argz_insert)(&vector, &size, vector, large), 0);
    ck_assert(hf_owns(vector));
    ck_assert_int_eq(LIBC(envz_add)(&vector, &size, "D", "4"), 0);
    ck_assert(hf_owns(vector));
    ck_assert_str_eq(LIBC(envz_get)(vector, size, "C"), "3");
    ck_assert_str_eq(LIBC(envz_get)(vector, size, "D"), "4");
    const void *before = vector;
    while (size > 0)
        LIBC(argz_delete)(&vector, &size, vector);
    ck_assert_ptr_null(vector);
    assert_gone(before);
    free(large);
}
END_TEST

START_TEST(globfree_and_wordfree_take_heap_blocks)
{
    glob_t paths = {.gl_pathc = 1, .gl_pathv = hf_calloc(LARGE, sizeof(char *))};
    const void *vector = paths.gl_pathv, *path = paths.gl_pathv[0] = hf_malloc(LARGE);
    LIBC(globfree)(&paths);
    assert_gone(vector);
    assert_gone(path);

    wordexp_t words = {.we_wordc = 1, .we_wordv = hf_calloc(LARGE, sizeof(char *))};
    vector = words.we_wordv;
    const void *word = words.we_wordv[0] = hf_malloc(LARGE);
    LIBC(wordfree)(&words);
    assert_gone(vector);
    assert_gone(word);
}
END_TEST

START_TEST(patterns_grow_in_heap_blocks)
{
    /* GNU's interface grows and frees the caller's buffer. */
    struct re_pattern_buffer pattern = {.buffer = hf_malloc(16), .allocated = 16};
    pattern.fastmap = hf_malloc(LARGE);
    const void *fastmap = pattern.fastmap;
    re_set_syntax(RE_SYNTAX_POSIX_EXTENDED);
    ck_assert_ptr_null(LIBC(re_compile_pattern)("(a|b)+c", 7, &pattern));
    ck_assert(hf_owns(pattern.buffer));
    ck_assert_int_eq(re_match(&pattern, "ababc", 5, 0, NULL), 5);
    LIBC(regfree)(&pattern);
    assert_gone(fastmap);
}
END_TEST

START_TEST(realloc_and_its_kind_by_libcs_own_address)
{
    char *block = hf_malloc(10);
    strcpy(block, "content");
    block = LIBC(reallocarray)(block, LARGE, 2);
    ck_assert(hf_owns(block));
    ck_assert_str_eq(block, "content");
    ck_assert_uint_ge(LIBC(malloc_usable_size)(block), 2 * LARGE);
    LIBC(free)(block);
    assert_gone(block);
    /* Older names of libc's, to which programs can still be linked. */
    void (*libc_free)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "__libc_free");
    if (libc_free != NULL) {
        block = hf_malloc(LARGE);
        libc_free(block);
        assert_gone(block);
    }
}
END_TEST

START_TEST(what_libc_allocates_is_freed_by_the_heap)
{
    char *bytes;
    size_t size;
    FILE *stream = LIBC(open_memstream)(&bytes, &size);
    for (int i = 0; i < 10000; i++)
        fputs("text that grows ", stream);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert(!hf_owns(bytes));
    ck_assert_uint_eq(size, 160000);
    bytes = hf_realloc(bytes, 1000);
    ck_assert(!hf_owns(bytes));
    hf_free(bytes);
    hf_free(LIBC(strdup)("text"));
    hf_free(LIBC(realpath)("/", NULL));
}
END_TEST

START_TEST(errno_is_kept)
{
    const size_t sizes[] = {1, 48, 5000, 100000, LARGE, 64 * LARGE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = hf_malloc(sizes[i]);
        errno = EDOM;
        free(block);
        ck_assert_int_eq(errno, EDOM);
        block = hf_malloc(sizes[i]);
        errno = ERANGE;
        LIBC(free)(block);
        ck_assert_int_eq(errno, ERANGE);
        block = malloc(sizes[i]);
        errno = EILSEQ;
        hf_free(block);
        ck_assert_int_eq(errno, EILSEQ);
    }
    glob_t paths = {.gl_pathc = 1, .gl_pathv = hf_calloc(LARGE, sizeof(char *))};
    errno = EDOM;
    LIBC(globfree)(&paths);
    ck_assert_int_eq(errno, EDOM);
}
END_TEST

int main(void)
{
    return RUN_TESTS("libc inside", getline_grows_a_heap_block,
                     argz_and_envz_grow_and_free_heap_blocks,
                     globfree_and_wordfree_take_heap_blocks, patterns_grow_in_heap_blocks,
                     realloc_and_its_kind_by_libcs_own_address,
                     what_libc_allocates_is_freed_by_the_heap, errno_is_kept);
}
