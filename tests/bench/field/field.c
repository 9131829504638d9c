/*
 * Runs one program of the field benchmark in a process of its own, and prints what it took.
 *
 *   field --module FILE [--scale X] [--threads N] [--what WORD] [--nothing FILE]
 *         [--allocator FILE | --home yes] [--settle SECONDS]
 *   field --who yes [--module FILE]
 *   field --start FILE
 *
 * --allocator: the process's malloc must be that of this file. --home: the module's blocks must be
 * homefree's. Without both, malloc must be libc's. A wrong allocator ends the process with 1.
 *
 * Prints "name value" lines: real and cpu (seconds, of all threads), faults, switches, peak_kib
 * (resident memory), after_rss_kib and after_pss_kib. With --settle the process then goes on for so
 * long with next to no work, and prints settled_rss_kib and settled_pss_kib. --who prints which
 * allocator the process has, as that says itself, and nothing else. --start calls the module and
 * measures nothing.
 */
#include "field.h"

#include "../bench.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Reads a file of /proc without allocating: the host's own blocks would be the preloaded
 * allocator's. */
static const char *read_file(const char *path)
{
    static char text[16384];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 0;
    if (file < 0)
        bench_fail("cannot open %s", path);
    while (length < sizeof text - 1 &&
           (got = read(file, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    text[length] = '\0';
    return text;
}

static long kib_of(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    if (line == NULL)
        bench_fail("no %s in /proc", name);
    return strtol(line + strlen(name), NULL, 10);
}

static void print_memory(const char *when)
{
    const char *text = read_file("/proc/self/smaps_rollup");
    printf("%s_rss_kib %ld\n", when, kib_of(text, "\nRss:"));
    printf("%s_pss_kib %ld\n", when, kib_of(text, "\nPss:"));
}

static const char *file_of(void *address)
{
    static char path[PATH_MAX];
    Dl_info info;
    if (dladdr(address, &info) == 0 || realpath(info.dli_fname, path) == NULL)
        bench_fail("malloc is in no file");
    return path;
}

typedef bool owns_function(const void *ptr);

static void check_allocator(void *module, const char *wanted, bool home)
{
    field_take_function *take = (field_take_function *)bench_symbol(module, "field_take");
    field_give_function *give = (field_give_function *)bench_symbol(module, "field_give");
    if (home) {
        void *owns = dlsym(module, "hf_owns"); /* of the library that the module is linked with, */
        if (owns == NULL)
            owns = bench_symbol(RTLD_DEFAULT, "hf_owns"); /* or of the preloaded one */
        void *block = take(100);
        if (!((owns_function *)owns)(block))
            bench_fail("the module's blocks are not the heap's");
        give(block);
        return;
    }
    const char *found = file_of(bench_symbol(RTLD_DEFAULT, "malloc"));
    char path[PATH_MAX];
    if (wanted == NULL) {
        if (strstr(found, "/libc.so") == NULL && strstr(found, "/libc-") == NULL)
            bench_fail("malloc is in %s and not in libc", found);
    } else if (realpath(wanted, path) == NULL || strcmp(found, path) != 0) {
        bench_fail("malloc is in %s and not in %s", found, wanted);
    }
}

typedef int mallctl_function(const char *name, void *old, size_t *old_size, void *new,
                             size_t new_size);
typedef int version_function(void);
typedef const char *tcmalloc_version_function(int *major, int *minor, const char **patch);
typedef const char *name_function(void);

/* What the allocator says of itself: "NAME VERSION". */
static void print_who(void)
{
    void *found = NULL;
    if ((found = dlsym(RTLD_DEFAULT, "hf_version")) != NULL) {
        printf("homefree %s\n", ((name_function *)found)());
    } else if ((found = dlsym(RTLD_DEFAULT, "mallctl")) != NULL) {
        const char *version = NULL;
        size_t size = sizeof version;
        if (((mallctl_function *)found)("version", &version, &size, NULL, 0) != 0)
            bench_fail("jemalloc does not tell its version");
        printf("jemalloc %.*s\n", (int)strcspn(version, "-"), version);
    } else if ((found = dlsym(RTLD_DEFAULT, "mi_version")) != NULL) {
        int version = ((version_function *)found)();
        /* One digit for the minor version, two for the patch; from 2.2 and 3.1 on two for both. */
        if (version >= 10000)
            printf("mimalloc %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
        else
            printf("mimalloc %d.%d.%d\n", version / 100, version / 10 % 10, version % 10);
    } else if ((found = dlsym(RTLD_DEFAULT, "tc_version")) != NULL) {
        int major, minor;
        const char *patch = "";
        (void)((tcmalloc_version_function *)found)(&major, &minor, &patch);
        /* The patch is ".1", or nothing behind its dot. */
        printf("tcmalloc %d.%d%s\n", major, minor, strlen(patch) > 1 ? patch : "");
    } else {
        printf("glibc %s\n", gnu_get_libc_version());
    }
}

static void settle(void *module, long seconds)
{
    field_idle_function *idle = (field_idle_function *)bench_symbol(module, "field_idle");
    double end = bench_nanoseconds(CLOCK_MONOTONIC) + (double)seconds * 1e9;
    while (bench_nanoseconds(CLOCK_MONOTONIC) < end) {
        idle();
        usleep(20000);
    }
    print_memory("settled");
}

int main(int argc, char **argv)
{
    const char *path = bench_argument(argc, argv, "--module", NULL);
    if (bench_argument(argc, argv, "--who", NULL) != NULL) {
        if (path != NULL)
            bench_open(path, RTLD_NOW | RTLD_GLOBAL);
        print_who();
        return 0;
    }
    const char *nothing = bench_argument(argc, argv, "--start", NULL);
    if (nothing != NULL) {
        struct field_call call = {.scale = 1};
        ((field_work_function *)bench_symbol(bench_open(nothing, RTLD_NOW), "field_work"))(&call);
        return 0;
    }
    if (path == NULL)
        bench_fail("usage: see the head of field.c");
    void *module = bench_open(path, RTLD_NOW | RTLD_LOCAL);
    check_allocator(module, bench_argument(argc, argv, "--allocator", NULL),
                    bench_argument(argc, argv, "--home", NULL) != NULL);
    struct field_call call = {
        .scale = strtod(bench_argument(argc, argv, "--scale", "1"), NULL),
        .threads = (size_t)bench_number(argc, argv, "--threads", 0),
        .what = bench_argument(argc, argv, "--what", ""),
        .program = argv[0],
        .nothing = bench_argument(argc, argv, "--nothing", path),
    };
    field_work_function *work = (field_work_function *)bench_symbol(module, "field_work");

    double real = bench_nanoseconds(CLOCK_MONOTONIC);
    double cpu = bench_nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    work(&call);
    cpu = bench_nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    real = bench_nanoseconds(CLOCK_MONOTONIC) - real;

    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    double of_children = (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
                         (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6;
    printf("real %.6f\ncpu %.6f\n", real / 1e9, cpu / 1e9 + of_children);
    printf("faults %ld\n", self.ru_minflt + children.ru_minflt);
    printf("switches %ld\n", self.ru_nvcsw + self.ru_nivcsw);
    printf("peak_kib %ld\n", kib_of(read_file("/proc/self/status"), "\nVmHWM:"));
    print_memory("after");
    fflush(stdout);
    long seconds = bench_number(argc, argv, "--settle", 0);
    if (seconds > 0)
        settle(module, seconds);
    return 0;
}
