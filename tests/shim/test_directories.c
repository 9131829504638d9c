/*
 * realpath(), getcwd() and their kind, and scandir(), return memory of the heap with libc's results
 * and errors.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/homefree-shim-XXXXXX";
static const char *const files[] = {"alpha", "beta", "gamma.c", "delta.c"};
enum { FILES = 4 };

/* Makes a directory with a few files and a link, for each test anew, and enters it. */
static void set_up(void)
{
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(chdir(directory), 0);
    for (int i = 0; i < FILES; i++)
        ck_assert_int_ge(close(open(files[i], O_CREAT | O_WRONLY, 0600)), 0);
    ck_assert_int_eq(symlink("alpha", "link"), 0);
}

static void tear_down(void)
{
    for (int i = 0; i < FILES; i++)
        unlink(files[i]);
    unlink("link");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(directory), 0);
}

/* Checks and frees a path that `maker` allocated. */
static void check_path(const struct functions *maker, char *path, const char *expected)
{
    assert_home(maker, path);
    ck_assert_str_eq(path, expected);
    maker->f_free(path);
}

START_TEST(absolute_paths)
{
    char expected[PATH_MAX];
    snprintf(expected, sizeof expected, "%s/alpha", directory);
    for (int i = 0; i < MAKERS; i++) {
        char *paths[] = {makers[i]->f_realpath("link", NULL),
                         makers[i]->f___realpath_chk("./link", NULL, SIZE_MAX),
                         makers[i]->f_canonicalize_file_name(".//./link")};
        for (int at = 0; at < 3; at++)
            check_path(makers[i], paths[at], expected);
        char buffer[PATH_MAX];
        ck_assert_ptr_eq(makers[i]->f_realpath("link", buffer), buffer);
        ck_assert_str_eq(buffer, expected);
        ck_assert_ptr_eq(makers[i]->f___realpath_chk("link", buffer, sizeof buffer), buffer);
        ck_assert_str_eq(buffer, expected);
    }
    check_path(&module, idioms.absolute("link"), expected);
}
END_TEST

START_TEST(absolute_paths_that_do_not_exist)
{
    char buffer[PATH_MAX];
    for (int i = 0; i < MAKERS; i++) {
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_realpath("missing", NULL));
        ck_assert_int_eq(errno, ENOENT);
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_realpath("missing/x", buffer));
        ck_assert_int_eq(errno, ENOENT);
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_canonicalize_file_name("alpha/x"));
        ck_assert_int_eq(errno, ENOTDIR);
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_realpath("", NULL));
        ck_assert_int_eq(errno, ENOENT);
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_realpath(NULL, NULL));
        ck_assert_int_eq(errno, EINVAL);
    }
}
END_TEST

START_TEST(the_current_directory)
{
    char buffer[PATH_MAX];
    for (int i = 0; i < MAKERS; i++) {
        char *paths[] = {makers[i]->f_getcwd(NULL, 0), makers[i]->f_getcwd(NULL, PATH_MAX),
                         makers[i]->f___getcwd_chk(NULL, 0, SIZE_MAX),
                         makers[i]->f_get_current_dir_name()};
        for (int at = 0; at < 4; at++) {
            assert_home(makers[i], paths[at]);
            ck_assert_str_eq(paths[at], directory);
        }
        /* Everything that was asked for may be used. */
        ck_assert_uint_ge(makers[i]->f_malloc_usable_size(paths[1]), PATH_MAX);
        memset(paths[1], 1, PATH_MAX);
        for (int at = 0; at < 4; at++)
            makers[i]->f_free(paths[at]);
        ck_assert_ptr_eq(makers[i]->f_getcwd(buffer, sizeof buffer), buffer);
        ck_assert_str_eq(buffer, directory);
        ck_assert_ptr_eq(makers[i]->f___getcwd_chk(buffer, 100, sizeof buffer), buffer);
        ck_assert_str_eq(buffer, directory);
    }
    check_path(&module, idioms.directory(200), directory);
}
END_TEST

START_TEST(the_current_directory_does_not_fit)
{
    char buffer[PATH_MAX];
    for (int i = 0; i < MAKERS; i++) {
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_getcwd(buffer, 3));
        ck_assert_int_eq(errno, ERANGE);
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_getcwd(NULL, 3));
        ck_assert_int_eq(errno, ERANGE);
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_getcwd(buffer, 0));
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_ptr_null(idioms.directory(3));
}
END_TEST

static int c_files(const struct dirent *entry)
{
    return strstr(entry->d_name, ".c") != NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int none(const struct dirent *entry)
{
    (void)entry;
    return 0;
}

static void free_entries(const struct functions *maker, struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        maker->f_free(entries[i]);
    maker->f_free(entries);
}

START_TEST(directory_entries)
{
    int parent = open("/", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < MAKERS; i++) {
        for (int variant = 0; variant < 3; variant++) {
            struct dirent **entries = NULL;
            int count;
            if (variant == 0)
                count = makers[i]->f_scandir(directory, &entries, c_files, by_name);
            else if (variant == 1)
                count = makers[i]->f_scandir64(directory, &entries, c_files, by_name);
            else
                count = makers[i]->f_scandirat(parent, directory + 1, &entries, c_files, by_name);
            ck_assert_int_eq(count, 2);
            assert_home(makers[i], entries);
            assert_home(makers[i], entries[0]);
            ck_assert_str_eq(entries[0]->d_name, "delta.c");
            ck_assert_str_eq(entries[1]->d_name, "gamma.c");
            ck_assert_int_eq(entries[0]->d_type, DT_REG);
            free_entries(makers[i], entries, count);
        }
        struct dirent **all = NULL;
        ck_assert_int_eq(makers[i]->f_scandir(".", &all, NULL, NULL), FILES + 3);
        free_entries(makers[i], all, FILES + 3);
        /* Nothing is found, but the result is still a block that must be freed. */
        ck_assert_int_eq(makers[i]->f_scandir(".", &all, none, alphasort), 0);
        free_entries(makers[i], all, 0);
    }
    close(parent);
}
END_TEST

START_TEST(many_directory_entries)
{
    enum { MANY = 200 };
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many-%03d.c", i);
        ck_assert_int_ge(close(open(name, O_CREAT | O_WRONLY, 0600)), 0);
    }
    for (int i = 0; i < MAKERS; i++) {
        struct dirent **entries = NULL;
        int count = makers[i]->f_scandir(".", &entries, c_files, alphasort);
        ck_assert_int_eq(count, MANY + 2);
        for (int at = 1; at < count; at++)
            ck_assert_int_lt(strcmp(entries[at - 1]->d_name, entries[at]->d_name), 0);
        free_entries(makers[i], entries, count);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many-%03d.c", i);
        unlink(name);
    }
}
END_TEST

START_TEST(no_directory)
{
    for (int i = 0; i < MAKERS; i++) {
        struct dirent *untouched = NULL, **entries = &untouched;
        errno = 0;
        ck_assert_int_eq(makers[i]->f_scandir("missing", &entries, NULL, NULL), -1);
        ck_assert_int_eq(errno, ENOENT);
        errno = 0;
        ck_assert_int_eq(makers[i]->f_scandir("alpha", &entries, NULL, NULL), -1);
        ck_assert_int_eq(errno, ENOTDIR);
        errno = 0;
        ck_assert_int_eq(makers[i]->f_scandirat(-1, "x", &entries, NULL, NULL), -1);
        ck_assert_int_eq(errno, EBADF);
        ck_assert_ptr_eq(entries, &untouched);
    }
}
END_TEST

int main(int count, char **arguments)
{
    load_module(count, arguments);
    TCase *tcase = NEW_CASE("directories", absolute_paths, absolute_paths_that_do_not_exist,
                            the_current_directory, the_current_directory_does_not_fit,
                            directory_entries, many_directory_entries, no_directory);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    return RUN_CASES("directories", tcase);
}
