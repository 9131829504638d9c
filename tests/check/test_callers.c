/* Functions of libhomefree that allocate inside for their caller: what they hand out is the
 * caller's, also where the caller is known by its return address alone. They are called through
 * dlsym() here, so that no slot of the program's is involved. */
#include "suite.h"
#include "watching.h"

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FIND(name)                                      \
    __typeof__(&hf_##name) name = NULL;                 \
    *(void **)&name = dlsym(RTLD_DEFAULT, "hf_" #name); \
    ck_assert(name != NULL)

/* Asserts that every event since the watch began is the program's own. */
static void assert_own(struct hf_watch *watch, uint64_t blocks)
{
    struct hf_watch_report report = report_of(watch);
    ck_assert_uint_eq(report.crossings, 0);
    ck_assert_uint_ge(report.allocations, blocks);
    ck_assert_uint_eq(report.frees, report.allocations);
    hf_watch_drop(watch);
}

START_TEST(the_malloc_family)
{
    FIND(malloc);
    FIND(calloc);
    FIND(realloc);
    FIND(reallocarray);
    FIND(aligned_alloc);
    FIND(posix_memalign);
    FIND(free);
    FIND(free_sized);
    FIND(free_aligned);
    FIND(free_aligned_sized);
    void *aligned = NULL;
    struct hf_watch *watch = begin(0);
    free(malloc(10));
    free(calloc(1, 10));
    free(calloc(1, 1 << 20));
    free(realloc(malloc(10), 100000));
    free(reallocarray(NULL, 10, 10));
    free(aligned_alloc(64, 10));
    ck_assert_int_eq(posix_memalign(&aligned, 64, 10), 0);
    free_sized(aligned, 10);
    free_aligned(aligned_alloc(64, 10), 64);
    free_aligned_sized(aligned_alloc(64, 10), 64, 10);
    assert_own(watch, 9);
}
END_TEST

START_TEST(strings)
{
    FIND(strdup);
    FIND(strndup);
    FIND(wcsdup);
    FIND(asprintf);
    FIND(realpath);
    FIND(getcwd);
    FIND(get_current_dir_name);
    FIND(backtrace_symbols);
    FIND(free);
    char *text = NULL;
    void *here = (void *)(uintptr_t)text;
    struct hf_watch *watch = begin(0);
    free(strdup("text"));
    free(strndup("text", 2));
    free(wcsdup(L"text"));
    ck_assert_int_gt(asprintf(&text, "%d", 1), 0);
    free(text);
    free(realpath("/", NULL));
    free(getcwd(NULL, 0));
    free(get_current_dir_name());
    free(backtrace_symbols(&here, 1));
    assert_own(watch, 8);
}
END_TEST

START_TEST(lines)
{
    FIND(getline);
    FIND(free);
    char text[] = "a\nb\n", long_line[1000];
    memset(long_line, 'x', sizeof long_line);
    long_line[sizeof long_line - 1] = '\0';
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fputs(long_line, file);
    rewind(file);
    char *line = NULL;
    size_t size = 0;
    struct hf_watch *watch = begin(0);
    while (getline(&line, &size, file) > 0)
        continue;
    free(line);
    assert_own(watch, 2);
    fclose(file);
}
END_TEST

START_TEST(streams)
{
    FIND(open_memstream);
    FIND(free);
    char *buffer = NULL;
    size_t size = 0;
    struct hf_watch *watch = begin(0);
    FILE *file = open_memstream(&buffer, &size);
    for (int i = 0; i < 10000; i++)
        fputs("0123456789", file);
    fclose(file);
    free(buffer);
    assert_own(watch, 2);
}
END_TEST

START_TEST(directories)
{
    FIND(scandir);
    FIND(free);
    struct dirent **names = NULL;
    struct hf_watch *watch = begin(0);
    int count = scandir("/", &names, NULL, NULL);
    ck_assert_int_gt(count, 0);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    assert_own(watch, (uint64_t)count + 1);
}
END_TEST

int main(void)
{
    return RUN_SUITE(the_malloc_family, strings, lines, streams, directories);
}
