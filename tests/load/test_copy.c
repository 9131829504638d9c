/*
 * A private copy has every variable of its module to itself: exported, static, inline
 * (STB_GNU_UNIQUE) and thread-local ones, also where the original was loaded with RTLD_GLOBAL
 * first. What a library that it needs, or libstdc++, defines is everybody's. $ORIGIN means the
 * original's directory, at link time and at run time, wherever the copy lies: beside the original,
 * or (its directory cannot be written) elsewhere.
 *
 * usage: test-copy FRIEND MODULE…
 */
#include "modules/state.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODULES_MAX = 8, NOBODY = 65534 };
static const char *paths[MODULES_MAX];
static int module_count;

/* A directory as an installation has it: the modules, and their library in a directory below. */
static char directory[] = "/tmp/homefree-test-copy-XXXXXX";

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    ssize_t length;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0755);
    while (in >= 0 && out >= 0 && (length = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)length) != length)
            exit(EXIT_FAILURE);
    if (in < 0 || out < 0 || close(in) != 0 || close(out) != 0) {
        perror(to);
        exit(EXIT_FAILURE);
    }
}

static void install(const char *library, char **modules, int count)
{
    char path[PATH_MAX];
    if (mkdtemp(directory) == NULL || chmod(directory, 0755) != 0)
        exit(EXIT_FAILURE);
    snprintf(path, sizeof path, "%s/friends", directory);
    if (mkdir(path, 0755) != 0)
        exit(EXIT_FAILURE);
    snprintf(path, sizeof path, "%s/friends/%s", directory, strrchr(library, '/') + 1);
    copy_file(library, path);
    snprintf(path, sizeof path, "%s/friends/late.so", directory);
    copy_file(library, path);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, strrchr(modules[i], '/') + 1);
        copy_file(modules[i], path);
        paths[module_count++] = strdup(path);
    }
}

static void uninstall(void)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -r %s", directory);
    if (system(command) != 0)
        fprintf(stderr, "%s: not removed\n", directory);
}

static int find_dynamic(struct dl_phdr_info *info, size_t size, void *context)
{
    const ElfW(Dyn) *dynamic = *(const ElfW(Dyn) **)context;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_DYNAMIC || info->dlpi_addr + header->p_vaddr != (uintptr_t)dynamic)
            continue;
        *(const ElfW(Dyn) **)context = dynamic + header->p_memsz / sizeof *dynamic;
        return 1;
    }
    return 0;
}

/* The slots that usually follow would be read as entries once they are filled in. */
static void assert_dynamic_section_ends(void *handle, const char *path)
{
    struct link_map *map;
    ck_assert_int_eq(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    const ElfW(Dyn) *end = map->l_ld, *at = map->l_ld;
    ck_assert_int_eq(dl_iterate_phdr(find_dynamic, &end), 1);
    while (at < end && at->d_tag != DT_NULL)
        at++;
    ck_assert_msg(at < end, "%s: the dynamic section has no end", path);
}

static const struct state *open_copy(const char *path, char copy[PATH_MAX])
{
    int error = hf_private_copy(path, copy, PATH_MAX);
    ck_assert_msg(error == 0, "%s: %s", path, strerror(-error));
    void *handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    assert_dynamic_section_ends(handle, path);
    return ((state_function *)symbol_of(handle, "state"))();
}

static void assert_differ(const struct state *a, const struct state *b, const char *path)
{
    ck_assert_msg(a->global() != b->global(), "%s: global", path);
    ck_assert_msg(a->internal() != b->internal(), "%s: internal", path);
    ck_assert_msg(a->unique() != b->unique(), "%s: unique", path);
    ck_assert_msg(a->inside() != b->inside(), "%s: inside", path);
    ck_assert_msg(a->thread() != b->thread(), "%s: thread", path);
    if (a->makes_unique) {
        ck_assert_msg(a->of_library() == b->of_library(), "%s: of_library", path);
        ck_assert_msg(a->of_runtime() == b->of_runtime(), "%s: of_runtime", path);
    }
    ck_assert_msg(a->library() == b->library(), "%s: library", path);
    int before = b->count();
    a->count();
    a->count();
    ck_assert_int_eq(b->count(), before + 1);
}

static void check_copies(const char *path, int mode)
{
    char first[PATH_MAX], second[PATH_MAX];
    const struct state *original = NULL;
    if (mode >= 0)
        original = ((state_function *)symbol_of(load(path, RTLD_NOW | mode), "state"))();
    const struct state *a = open_copy(path, first), *b = open_copy(path, second);
    ck_assert_str_ne(first, second);
    if (original == NULL)
        original = ((state_function *)symbol_of(load(path, RTLD_NOW), "state"))();
    assert_differ(a, b, path);
    assert_differ(a, original, path);
    assert_differ(b, original, path);
    if (a->makes_unique)
        ck_assert_msg(a->of_library() == a->library(), "%s: the library's own", path);

    /* The path is relative to the module's file at run time. */
    void *late = a->open("$ORIGIN/friends/late.so");
    ck_assert_msg(late != NULL, "%s: %s", path, dlerror());
    ck_assert_ptr_eq(a->open("${ORIGIN}/friends/late.so"), late);
    ck_assert_ptr_eq(original->open("$ORIGIN/friends/late.so"), late);
    void *found = a->open("late.so");
    ck_assert_msg(found == late, "%s: %s", path, dlerror());

    /* The file stays for debuggers until the copy is removed. */
    ck_assert_int_eq(access(first, R_OK), 0);
    ck_assert_int_eq(hf_private_remove(first), 0);
    ck_assert_int_eq(hf_private_remove(first), 0);
    ck_assert_int_ne(access(first, R_OK), 0);
    ck_assert_int_eq(a->count() > 0, true);
    ck_assert_int_eq(hf_private_remove(path), -ENOENT);
    ck_assert_int_eq(access(path, R_OK), 0);
}

static bool is_beside(const char *copy)
{
    return strncmp(copy, directory, strlen(directory)) == 0;
}

START_TEST(after_the_original)
{
    check_copies(paths[_i], RTLD_LOCAL);
}
END_TEST

START_TEST(after_the_original_for_all)
{
    check_copies(paths[_i], RTLD_GLOBAL);
}
END_TEST

START_TEST(before_the_original)
{
    check_copies(paths[_i], -1);
}
END_TEST

START_TEST(beside_the_original)
{
    char copy[PATH_MAX];
    struct stat status;
    (void)open_copy(paths[_i], copy);
    ck_assert_msg(is_beside(copy), "%s", copy);
    ck_assert_int_eq(stat(copy, &status), 0);
    ck_assert_int_eq(status.st_mode, S_IFREG | 0600);
}
END_TEST

/* As a user who may not write to the modules' directory. */
START_TEST(elsewhere)
{
    char copy[PATH_MAX];
    struct stat status;
    if (geteuid() == 0)
        ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);
    else
        ck_assert_int_eq(chmod(directory, 0555), 0);
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
    (void)open_copy(paths[_i], copy);
    ck_assert_msg(!is_beside(copy) && strncmp(copy, "/tmp/homefree-", 14) == 0, "%s", copy);
    check_copies(paths[_i], RTLD_GLOBAL);
    *strrchr(copy, '/') = '\0';
    ck_assert_int_eq(stat(copy, &status), 0);
    ck_assert_int_eq(status.st_mode, S_IFDIR | 0700);
}
END_TEST

START_TEST(arguments_of_both)
{
    char copy[PATH_MAX], path[PATH_MAX];
    ck_assert_int_eq(hf_private_copy(NULL, copy, sizeof copy), -EINVAL);
    ck_assert_int_eq(hf_private_copy("", copy, sizeof copy), -EINVAL);
    ck_assert_int_eq(hf_private_copy(paths[0], NULL, 0), -EINVAL);
    ck_assert_int_eq(hf_private_copy(paths[0], copy, 10), -ENAMETOOLONG);
    ck_assert_int_eq(hf_private_copy(directory, copy, sizeof copy), -EISDIR);
    ck_assert_int_eq(hf_private_copy("/dev/null", copy, sizeof copy), -EINVAL);
    ck_assert_int_eq(hf_private_copy("/proc/self/maps", copy, sizeof copy), -ENOEXEC);
    snprintf(path, sizeof path, "%s/", directory);
    ck_assert_int_eq(hf_private_copy(path, copy, sizeof copy), -EISDIR);
    snprintf(path, sizeof path, "%s/nothing.so", directory);
    ck_assert_int_eq(hf_private_copy(path, copy, sizeof copy), -ENOENT);
    snprintf(path, sizeof path, "%s/fifo.so", directory);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(hf_private_copy(path, copy, sizeof copy), -EINVAL);
    ck_assert_int_eq(hf_private_remove(NULL), -EINVAL);
    ck_assert_int_eq(hf_private_lend(NULL, directory, 1), -EINVAL);
    ck_assert_int_eq(hf_private_lend(paths[0], NULL, 1), -EINVAL);
    ck_assert_int_eq(hf_private_lend(paths[0], directory, 0), -EINVAL);
    ck_assert_ptr_null(hf_private_reuse(paths[0], 1));
    ck_assert_ptr_null(hf_private_reuse(NULL, 1));
    /* A relative path. */
    ck_assert_int_eq(chdir(directory), 0);
    ck_assert_int_eq(hf_private_copy(strrchr(paths[0], '/') + 1, copy, sizeof copy), 0);
    ck_assert_msg(is_beside(copy), "%s", copy);
}
END_TEST

/* Copies the first module under another name. Returns its size. */
static off_t copy_first(const char *name, char path[static PATH_MAX])
{
    struct stat status;
    ck_assert_int_eq(stat(paths[0], &status), 0);
    snprintf(path, PATH_MAX, "%s/%s", directory, name);
    copy_file(paths[0], path);
    return status.st_size;
}

/* Cuts the file to every length: the result is an error or a copy, never a crash. */
START_TEST(cut_short)
{
    char path[PATH_MAX], copy[PATH_MAX];
    const off_t whole = copy_first("cut.so", path);
    for (off_t length = whole; length >= 0; length -= length > 20000 ? 1777 : 61) {
        ck_assert_int_eq(truncate(path, length), 0);
        int error = hf_private_copy(path, copy, sizeof copy);
        ck_assert_msg(error == 0 || error == -ENOEXEC, "%d bytes: %d", (int)length, error);
        if (error == 0)
            hf_private_remove(copy);
    }
}
END_TEST

/* Changes bytes of the file, mostly those that the reader looks at: the result is an error or a
 * copy. */
START_TEST(changed_bytes)
{
    char path[PATH_MAX], copy[PATH_MAX];
    unsigned random = 1;
    int made = 0;
    for (int i = 0; i < 300; i++) {
        const off_t size = copy_first("changed.so", path);
        int fd = open(path, O_WRONLY);
        for (int j = 0; j < 1 + i % 5; j++) {
            unsigned char byte = (unsigned char)((random = random * 1103515245 + 12345) >> 16);
            off_t where = (off_t)((random = random * 1103515245 + 12345) >> 8);
            where %= i % 3 == 0 ? 0x400 : i % 3 == 1 ? 0x4000 : size;
            ck_assert_int_eq((int)pwrite(fd, &byte, 1, where), 1);
        }
        close(fd);
        int error = hf_private_copy(path, copy, sizeof copy);
        ck_assert_msg(error == 0 || error == -ENOEXEC || error == -ENOTSUP, "%d: %d", i, error);
        made += error == 0;
        if (error == 0)
            ck_assert_int_eq(hf_private_remove(copy), 0);
        ck_assert_int_eq(unlink(path), 0);
    }
    ck_assert_int_gt(made, 0);
    ck_assert_int_lt(made, 300);
}
END_TEST

int main(int count, char **arguments)
{
    if (count < 3 || count - 2 > MODULES_MAX)
        return 2;
    guard_against_hanging(100);
    install(arguments[1], arguments + 2, count - 2);
    TCase *tcase = tcase_create("copy");
    tcase_add_loop_test(tcase, after_the_original, 0, module_count);
    tcase_add_loop_test(tcase, after_the_original_for_all, 0, module_count);
    tcase_add_loop_test(tcase, before_the_original, 0, module_count);
    tcase_add_loop_test(tcase, beside_the_original, 0, module_count);
    tcase_add_loop_test(tcase, elsewhere, 0, module_count);
    ADD_TESTS(tcase, arguments_of_both, cut_short, changed_bytes);
    tcase_set_timeout(tcase, 60);
    int result = RUN_CASES("copy", tcase);
    uninstall();
    return result;
}
