/* A watch reports every crossing exactly, in both directions, even when a function ends in a
 * tail call, and reports nothing else. */
#include "module.h"
#include "suite.h"
#include "watching.h"

#include <stdlib.h>

#define SELF "test_check_crossings"

static const char *second_path;
static struct module first, second;

START_TEST(module_to_program)
{
    struct hf_watch *watch = begin(0);
    for (size_t i = 0; i < 10; i++)
        hf_free(first.make(100));
    assert_crossed(watch, "first", SELF, 10, 1000);
    ck_assert_uint_eq(report_of(watch).crossings, 10);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(program_to_module)
{
    struct hf_watch *watch = begin(0);
    first.drop(hf_malloc(7));
    first.drop(hf_calloc(3, 7));
    first.drop(hf_calloc(1, 1 << 20));
    first.drop(hf_aligned_alloc(256, 8));
    assert_crossed(watch, SELF, "first", 4, 7 + 21 + (1 << 20) + 8);
    ck_assert_uint_eq(report_of(watch).crossings, 4);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(module_to_module)
{
    struct hf_watch *watch = begin(0);
    second.drop(first.copy("text"));
    first.drop(second.make(100000));
    ck_assert_uint_eq(crossed(watch, "first", "second").count, 1);
    ck_assert_uint_eq(crossed(watch, "second", "first").count, 1);
    ck_assert_uint_eq(report_of(watch).crossings, 2);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(a_module_and_itself)
{
    struct hf_watch *watch = begin(0);
    first.drop(first.make(10));
    first.drop(first.copy("text"));
    first.drop(first.resize(first.make(10), 100000));
    first.drop(first.resize(NULL, 10));
    hf_free(hf_strdup("text"));
    struct hf_watch_report report = report_of(watch);
    ck_assert_uint_eq(report.crossings, 0);
    ck_assert_uint_eq(report.allocations, 6);
    ck_assert_uint_eq(report.frees, 6);
    ck_assert_uint_eq(report.before, 0);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(a_record_is_the_library_s_own)
{
    struct hf_watch *watch = begin(0);
    struct hf_release *record;
    ck_assert_int_eq(hf_release_new(&record, first.make(10), first.drop, "block"), 0);
    hf_release_drop(record);
    ck_assert_uint_eq(report_of(watch).frees, 2);
    ck_assert_uint_eq(report_of(watch).crossings, 0);
    hf_watch_drop(watch);
}
END_TEST

/* Resizing is one crossing, whether or not the block moves; the block is then the resizer's. */
START_TEST(resizing)
{
    const size_t sizes[] = {11, 100000};
    for (size_t i = 0; i < 2; i++) {
        struct hf_watch *watch = begin(0);
        void *block = first.make(10);
        block = second.resize(block, sizes[i]);
        ck_assert_uint_eq(crossed(watch, "first", "second").count, 1);
        second.drop(block);
        ck_assert_uint_eq(report_of(watch).crossings, 1);
        hf_watch_drop(watch);
    }
}
END_TEST

/* A failed realloc changes nothing. */
START_TEST(resizing_that_fails)
{
    struct hf_watch *watch = begin(0);
    void *block = first.make(10);
    ck_assert_ptr_null(second.resize(block, (size_t)1 << 60));
    ck_assert_uint_eq(report_of(watch).crossings, 0);
    ck_assert_uint_eq(report_of(watch).frees, 0);
    ck_assert_uint_eq(block_at(watch, block).freed, 0);
    second.drop(block);
    ck_assert_uint_eq(crossed(watch, "first", "second").count, 1);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(from_before_is_no_crossing)
{
    void *block = first.make(10);
    struct hf_watch *watch = begin(0);
    second.drop(block);
    struct hf_watch_report report = report_of(watch);
    ck_assert_uint_eq(report.crossings, 0);
    ck_assert_uint_eq(report.frees, 1);
    ck_assert_uint_eq(report.before, 1);
    struct hf_watch_block seen = block_at(watch, block);
    ck_assert_uint_eq(seen.freed_unmatched, 1);
    ck_assert_str_eq(seen.allocated_by, "");
    ck_assert_ptr_nonnull(strstr(seen.freed_by, "second"));
    hf_watch_drop(watch);
}
END_TEST

START_TEST(foreign_memory_that_a_module_frees)
{
    struct hf_watch *watch = begin(0);
    first.drop(malloc(100));
    first.drop(NULL);
    struct wanted_crossing seen = crossed(watch, "libc.so", "first");
    ck_assert_uint_eq(seen.count, 1);
    ck_assert_uint_ge(seen.bytes, 100);
    ck_assert_uint_eq(report_of(watch).foreign, 1);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(a_module_that_comes_meanwhile)
{
    struct hf_watch *watch = begin(0);
    struct module late = load_module(second_path);
    late.drop(late.make(10));
    ck_assert_uint_eq(crossed(watch, "second", "").count, 0);
    hf_free(late.make(10));
    ck_assert_uint_eq(crossed(watch, "second", SELF).count, 1);
    hf_watch_drop(watch);
}
END_TEST

int main(int count, char **arguments)
{
    const char *first_path;
    TAKE_ARGUMENTS(&first_path, &second_path);
    int late = RUN_TESTS("loaded meanwhile", a_module_that_comes_meanwhile);
    first = load_module(first_path);
    second = load_module(second_path);
    int result =
        RUN_SUITE(module_to_program, program_to_module, module_to_module, a_module_and_itself,
                  a_record_is_the_library_s_own, resizing, resizing_that_fails,
                  from_before_is_no_crossing, foreign_memory_that_a_module_frees);
    return late != EXIT_SUCCESS ? late : result;
}
