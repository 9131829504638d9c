/* A private copy whose making meets an error of the system is not made, and the error is told; a
 * copy that is made is private. A read that failed once made a copy that kept its DT_SONAME, so
 * that dlopen() returned the original. A file that cannot be removed is told, and removed later. */
#include "suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *library;

/* libhomefree's calls reach these: the call number `fails_at` fails, if it is not 0. */
static unsigned calls, fails_at;
static bool refuses_to_unlink;

__attribute__((visibility("default"))) ssize_t pread64(int file, void *buffer, size_t size,
                                                       off64_t offset)
{
    if (fails_at != 0 && ++calls == fails_at) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, file, buffer, size, offset);
}

__attribute__((visibility("default"))) int unlink(const char *path)
{
    if (refuses_to_unlink) {
        errno = EBUSY;
        return -1;
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

START_TEST(each_read_that_fails)
{
    char copy[PATH_MAX];
    unsigned failures = 0;
    void *original = dlopen(library, RTLD_NOW);
    ck_assert_ptr_nonnull(original);
    const int descriptors = count_descriptors();
    for (fails_at = 1;; fails_at++) {
        calls = 0;
        const int error = hf_private_copy(library, copy, sizeof copy);
        if (calls < fails_at) { /* none failed */
            ck_assert_int_eq(error, 0);
            break;
        }
        failures++;
        ck_assert_int_eq(count_descriptors(), descriptors);
        ck_assert_msg(error == -EIO || error == 0, "read %u: %s", fails_at, strerror(-error));
        if (error != 0)
            continue;
        void *handle = dlopen(copy, RTLD_NOW);
        ck_assert_ptr_nonnull(handle);
        ck_assert_msg(dlsym(handle, "copied_state") != dlsym(original, "copied_state"),
                      "read %u: the copy is the original", fails_at);
        dlclose(handle);
        ck_assert_int_eq(hf_private_remove(copy), 0);
    }
    fails_at = 0;
    ck_assert_uint_ge(failures, 5);
    ck_assert_int_eq(hf_private_remove(copy), 0);
    dlclose(original);
}
END_TEST

START_TEST(a_file_that_cannot_be_removed)
{
    char copy[PATH_MAX];
    ck_assert_int_eq(hf_private_copy(library, copy, sizeof copy), 0);
    refuses_to_unlink = true;
    ck_assert_int_eq(hf_private_remove(copy), -EBUSY);
    ck_assert_int_eq(access(copy, F_OK), 0);
    ck_assert_int_eq(hf_private_remove(copy), -EBUSY);
    refuses_to_unlink = false;
    ck_assert_int_eq(hf_private_remove(copy), 0);
    ck_assert_int_ne(access(copy, F_OK), 0);
    ck_assert_int_eq(hf_private_remove(copy), 0);
    /* A file that somebody else has removed is removed. */
    ck_assert_int_eq(hf_private_copy(library, copy, sizeof copy), 0);
    ck_assert_int_eq(unlink(copy), 0);
    ck_assert_int_eq(hf_private_remove(copy), 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    return RUN_SUITE(each_read_that_fails, a_file_that_cannot_be_removed);
}
