/*
 * Once the file of a loaded private copy is removed, its pages of code and constants are those of
 * the original's file, which all copies share in memory; but not a page that was changed, in the
 * file or in memory, nor one that can be written. Where that cannot be, the copy keeps its own. A
 * thread that runs the copy's code meanwhile notices nothing.
 *
 * usage: test-shared-pages LIBRARY
 */
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUMBERS = 65536 };
static const char *library;

struct copy {
    char path[PATH_MAX];
    void *handle;
    const uint32_t *table;
    void (*run)(void);
    int (*call)(int (*function)(void));
    int *count;
};

static void *symbol(const struct copy *copy, const char *name)
{
    void *found = dlsym(copy->handle, name);
    ck_assert_msg(found != NULL, "%s", name);
    return found;
}

static struct copy loaded(const char *original)
{
    struct copy copy;
    ck_assert_int_eq(hf_private_copy(original, copy.path, sizeof copy.path), 0);
    copy.handle = dlopen(copy.path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(copy.handle != NULL, "%s", dlerror());
    copy.table = symbol(&copy, "wide_table");
    copy.run = (void (*)(void))symbol(&copy, "wide_run");
    copy.call = (int (*)(int (*)(void)))symbol(&copy, "wide_call");
    copy.count = (int *)symbol(&copy, "wide_counts") + 4096;
    return copy;
}

static int one(void)
{
    return 1;
}

static void assert_works(const struct copy *copy)
{
    for (uint32_t i = 0; i < NUMBERS; i++)
        ck_assert_uint_eq(copy->table[i], i);
    copy->run();
    ck_assert_int_eq(copy->call(one), 1 + *copy->count);
}

/* Whether the file behind an address is the one of that name. */
static bool is_of(const void *address, const char *file)
{
    struct stat status;
    char line[PATH_MAX + 128];
    ck_assert_int_eq(stat(file, &status), 0);
    FILE *maps = fopen("/proc/self/maps", "r");
    bool found = false;
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        char *at; /* start-end rights offset device inode */
        const uintptr_t start = strtoul(line, &at, 16), end = strtoul(at + 1, &at, 16);
        for (int field = 0; field < 3; field++)
            at = strchr(at + 1, ' ');
        if ((uintptr_t)address >= start && (uintptr_t)address < end)
            found = strtoul(at, NULL, 10) == status.st_ino;
    }
    fclose(maps);
    return found;
}

/* In the middle of the code, and of the table. */
static const char *inside_code(const struct copy *copy)
{
    return (const char *)copy->run + NUMBERS / 2;
}

static const uint32_t *inside_table(const struct copy *copy)
{
    return copy->table + NUMBERS / 2;
}

/* A copy of the library's file, so that the test may change it. */
static void own_library(char path[PATH_MAX])
{
    char command[3 * PATH_MAX];
    snprintf(path, PATH_MAX, "/tmp/homefree-test-shared-XXXXXX");
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    snprintf(command, sizeof command, "cp '%s' '%s'", library, path);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(copies_share_code_and_constants)
{
    struct copy first = loaded(library), second = loaded(library);
    ck_assert(!is_of(inside_code(&first), library));
    ck_assert_int_eq(hf_private_remove(first.path), 0);
    ck_assert_int_eq(hf_private_remove(second.path), 0);
    for (const struct copy *copy = &first; copy != NULL; copy = copy == &first ? &second : NULL) {
        ck_assert(is_of(inside_code(copy), library));
        ck_assert(is_of(inside_table(copy), library));
        ck_assert(!is_of(copy->count, library));
        ck_assert_str_eq(permissions_at(inside_code(copy)), "r-xp");
        ck_assert_str_eq(permissions_at(inside_table(copy)), "r--p");
    }
    *first.count = 5;
    ck_assert_int_eq(*second.count, 0);
    assert_works(&first);
    assert_works(&second);
}
END_TEST

START_TEST(a_changed_page_stays)
{
    struct copy copy = loaded(library);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const code = (char *)((uintptr_t)inside_code(&copy) & -page);
    ck_assert_int_eq(mprotect(code, page, PROT_READ | PROT_WRITE), 0);
    const char before = code[7];
    code[7] = (char)~before;
    ck_assert_int_eq(mprotect(code, page, PROT_READ | PROT_EXEC), 0);
    ck_assert_int_eq(hf_private_remove(copy.path), 0);
    ck_assert_int_eq(code[7], (char)~before);
    ck_assert(!is_of(code, library));
    ck_assert(is_of(inside_table(&copy), library));
}
END_TEST

START_TEST(another_original)
{
    char path[PATH_MAX], other[PATH_MAX];
    /* In its place. */
    own_library(path);
    own_library(other);
    struct copy copy = loaded(path);
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert_int_eq(hf_private_remove(copy.path), 0);
    ck_assert(!is_of(inside_code(&copy), path));
    assert_works(&copy);
    /* Written to, its times as they were. */
    struct stat status;
    copy = loaded(path);
    ck_assert_int_eq(stat(path, &status), 0);
    const int file = open(path, O_RDWR);
    char *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert(bytes != MAP_FAILED);
    char *const table = memmem(bytes, (size_t)status.st_size, inside_table(&copy), 4096);
    ck_assert_ptr_nonnull(table);
    *table = (char)~*table;
    munmap(bytes, (size_t)status.st_size);
    ck_assert_int_eq(futimens(file, (struct timespec[]){status.st_atim, status.st_mtim}), 0);
    close(file);
    ck_assert_int_eq(hf_private_remove(copy.path), 0);
    ck_assert(!is_of(inside_table(&copy), path));
    assert_works(&copy);
    /* Not there. */
    copy = loaded(path);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(hf_private_remove(copy.path), 0);
    copy.run();
}
END_TEST

START_TEST(no_room_for_a_mapping)
{
    struct copy copy = loaded(library);
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    const struct rlimit least = {.rlim_cur = 1, .rlim_max = before.rlim_max};
    hf_free(hf_malloc((size_t)1 << 18)); /* what is read into */
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &least), 0);
    ck_assert_int_eq(hf_private_remove(copy.path), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert(!is_of(inside_code(&copy), library));
    assert_works(&copy);
}
END_TEST

static atomic_bool stops;
static atomic_uint turns;

static void *run_code(void *copy)
{
    while (!stops) {
        ((const struct copy *)copy)->run();
        turns++;
    }
    return NULL;
}

START_TEST(a_thread_runs_the_code_meanwhile)
{
    for (int i = 0; i < times(50); i++) {
        struct copy copy = loaded(library);
        pthread_t thread;
        stops = false;
        turns = 0;
        ck_assert_int_eq(pthread_create(&thread, NULL, run_code, &copy), 0);
        while (turns == 0)
            ;
        ck_assert_int_eq(hf_private_remove(copy.path), 0);
        const unsigned before = turns;
        while (turns == before)
            ;
        stops = true;
        pthread_join(thread, NULL);
        ck_assert(is_of(inside_code(&copy), library));
        dlclose(copy.handle);
    }
}
END_TEST

static int frames_of_copy;
static const struct copy *walked;

static int walk(void)
{
    void *frames[64];
    const int count = backtrace(frames, 64);
    for (int i = 0; i < count; i++)
        frames_of_copy += strcmp(object_of(frames[i]), walked->path) == 0;
    return 0;
}

START_TEST(stacks_are_walked_through_it)
{
    struct copy copy = loaded(library);
    walked = &copy;
    ck_assert_int_eq(hf_private_remove(copy.path), 0);
    copy.call(walk);
    ck_assert_int_eq(frames_of_copy, 1);
}
END_TEST

START_TEST(not_loaded)
{
    struct copy copy = loaded(library);
    ck_assert_int_eq(dlclose(copy.handle), 0);
    ck_assert_int_eq(hf_private_remove(copy.path), 0);
    ck_assert_int_ne(access(copy.path, F_OK), 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    return RUN_SUITE(copies_share_code_and_constants, a_changed_page_stays, another_original,
                     no_room_for_a_mapping, a_thread_runs_the_code_meanwhile,
                     stacks_are_walked_through_it, not_loaded);
}
