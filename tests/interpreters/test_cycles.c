/*
 * Interpreters are made, used and ended over and over: what the heap, the process's mappings and
 * its descriptors have grown by is what CPython itself leaves behind for each, and no more.
 *
 * usage: test_cycles CYCLES LIBPYTHON
 */
#include "groups.h"
#include "heap.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const char *cycles_text;

enum { BARE_MAX = 50 };

/* The process's mappings. */
struct maps {
    int own;    /* in the region */
    int others; /* of stacks, files, and other allocators */
};

static struct maps maps_now(void)
{
    struct maps maps = {0};
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(file);
    while (getline(&line, &size, file) > 0)
        ++*(hf_owns((const void *)(uintptr_t)strtoull(line, NULL, 16)) ? &maps.own : &maps.others);
    free(line);
    fclose(file);
    return maps;
}

static int files_in(const char *path)
{
    int files = 0;
    DIR *directory = opendir(path);
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL)
        files++;
    closedir(directory);
    return files;
}

static void cycle(void)
{
    struct hf_value text = {.kind = HF_VALUE_TEXT, .as.text = "[1, 2, {\"a\": null}]"}, result;
    struct hf_interpreters *group = group_of(1, "import json");
    ck_assert_int_eq(hf_interpreters_call(group, "json:loads", &text, 1, &result), 0);
    ck_assert_uint_eq(result.count, 3);
    hf_value_clear(&result);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}

/* The same with CPython's functions alone. */
static void bare_cycle(void)
{
    struct config {
        int use_main_obmalloc, allow_fork, allow_exec, allow_threads, allow_daemon_threads;
        int check_multi_interp_extensions, gil;
    } config = {.allow_threads = 1, .check_multi_interp_extensions = 1, .gil = 2};
    struct status {
        int kind;
        const char *function, *message;
        int exit_code;
    };
    void *made = NULL, *before = PYTHON(void *, PyThreadState_Get, (void))();
    struct status status = PYTHON(struct status, Py_NewInterpreterFromConfig,
                                  (void **, const struct config *))(&made, &config);
    ck_assert_int_eq(status.kind, 0);
    ck_assert_int_eq(
        PYTHON(int, PyRun_SimpleString, (const char *))("import importlib.util, threading, json\n"
                                                        "json.loads('[1, 2, {\"a\": null}]')"),
        0);
    PYTHON(void, Py_EndInterpreter, (void *))(made);
    PYTHON(void, PyEval_RestoreThread, (void *))(before);
}

/* What a number of cycles leaves behind. */
struct left {
    double allocated, region; /* bytes for each cycle */
    struct maps maps;
    int files;
};

static struct left repeat(void (*function)(void), int cycles)
{
    for (int i = 0; i < 5 + cycles / 20; i++)
        function();
    const struct hf_stats before = stats_now();
    const struct maps maps = maps_now();
    const int files = files_in("/proc/self/fd");
    for (int i = 1; i <= cycles; i++) {
        function();
        if (i % 100 == 0)
            printf("%d: %.0f KiB of blocks, %.0f KiB of address space\n", i,
                   ((double)stats_now().allocated - (double)before.allocated) / 1024,
                   ((double)stats_now().region_used - (double)before.region_used) / 1024);
    }
    const struct hf_stats after = stats_now();
    const struct maps maps_after = maps_now();
    return (struct left){
        .allocated = ((double)after.allocated - (double)before.allocated) / cycles,
        .region = ((double)after.region_used - (double)before.region_used) / cycles,
        .maps = {maps_after.own - maps.own, maps_after.others - maps.others},
        .files = files_in("/proc/self/fd") - files,
    };
}

static void show(const char *what, const struct left *left)
{
    printf("%s: %.0f KiB of blocks and %.0f KiB of address space a cycle, %d mappings in the "
           "region, %d others, %d descriptors\n",
           what, left->allocated / 1024, left->region / 1024, left->maps.own, left->maps.others,
           left->files);
}

START_TEST(cpython_alone_grows)
{
    const int cycles = (int)strtol(cycles_text, NULL, 10);
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    ck_assert_int_eq(hf_python_install(NULL, NULL), 0);
    struct left bare = {0}; /* what one interpreter leaves that does not end */
    if (!is_one_interpreter())
        bare = repeat(bare_cycle, cycles < BARE_MAX ? cycles : BARE_MAX);
    const struct left ours = repeat(cycle, cycles);
    show("CPython", &bare);
    show("groups", &ours);
    /* Threads' caches come and go: a megabyte or two, whatever the number of cycles. */
    ck_assert(ours.allocated <= bare.allocated + 16384 + 2e6 / cycles);
    ck_assert(ours.region <= bare.region * 1.2 + 65536 + 8e6 / cycles);
    ck_assert_int_le(ours.maps.others, bare.maps.others + 8);
    ck_assert_int_le(ours.files, 0);
    /* Two threads take pages of the region in turn. Where a piece is used before the gap to the
     * next is closed, the kernel leaves them apart; how often that happens is chance. */
    const int pieces = (int)(ours.region * cycles / (16 << 20));
    ck_assert_int_le(ours.maps.own, bare.maps.own + 16 + pieces);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&cycles_text, &libpython);
    setvbuf(stdout, NULL, _IOLBF, 0);
    TCase *cycles = NEW_CASE("cycles", cpython_alone_grows);
    tcase_set_timeout(cycles, 100 + 10 * strtod(cycles_text, NULL));
    return RUN_CASES("cycles", cycles);
}
