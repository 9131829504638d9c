/*
 * free() of what no allocator gave out (static data, literals, a stack) ends the process with one
 * line that names the object, the symbol and the caller, and both copies where a library is loaded
 * twice; or it is ignored, if the user says so. Two copies of libstdc++ that free each other's
 * std::locale::classic() are the commonest trace of "free(): invalid pointer" in bug reports of
 * pytorch, gluten and TensorRT; pybind11 had one with a literal (issue 5976). What is a block of
 * libc's, or looks like one, is freed as ever.
 *
 * usage: test-static-free LIBHOMEFREE HOLDER-MODULE COPY-OF-LIBSTDC++
 */
#include "death.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *holder_path, *copy_path;
static void (*heap_free)(void *ptr);
static void *(*heap_realloc)(void *ptr, size_t size);
static const char *homefree_path;

/* A static block after words that are no valid size. */
static struct {
    uint64_t before[2];
    char bytes[48];
} static_block = {{0, 0}, "static contents"};

/* Hides from the compiler where the pointer leads and what happens to the memory. */
static void *volatile hidden;

static void *unknown(const void *ptr)
{
    hidden = (void *)(uintptr_t)ptr;
    return hidden;
}

static void *(*volatile resize)(void *ptr, size_t size) = realloc;

/* ---- frees that end the process ---- */

static void free_static(void *unused)
{
    (void)unused;
    free(unknown(static_block.bytes));
}

static void free_literal(void *unused)
{
    (void)unused;
    free(unknown(&"a literal that nobody allocated"[8]));
}

static void resize_static(void *unused)
{
    (void)unused;
    (void)!resize(unknown(static_block.bytes), 100);
}

static void free_by_homefree(void *unused)
{
    (void)unused;
    heap_free(unknown(static_block.bytes));
}

static void resize_by_homefree(void *unused)
{
    (void)unused;
    (void)heap_realloc(unknown(static_block.bytes), 100);
}

static void *libstdcxx(void)
{
    return load("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
}

static void delete_static(void *unused)
{
    (void)unused;
    ((void (*)(void *))symbol_of(libstdcxx(), "_ZdlPv"))(unknown(static_block.bytes));
}

static void free_of_library(void *unused)
{
    (void)unused;
    free(symbol_of(load(holder_path, RTLD_NOW), "held_by_module"));
}

/* One runtime makes locales and the other destroys them, until it takes the last one for its own.
 */
static void destroy_foreign_locales(void *unused)
{
    (void)unused;
    void *first = libstdcxx(), *second = load(copy_path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void (*make)(void *) = (void (*)(void *))symbol_of(first, "_ZNSt6localeC1Ev");
    void (*destroy)(void *) = (void (*)(void *))symbol_of(second, "_ZNSt6localeD1Ev");
    for (int i = 0; i < 1000; i++) {
        void *locale;
        make(&locale);
        destroy(&locale);
    }
}

static void free_stack(void *unused)
{
    char capacity[64] = {0};
    (void)unused;
    free(unknown(capacity + 16));
}

START_TEST(static_data_is_named_with_its_symbol)
{
    assert_killed(outcome_of_call(free_static, NULL), SIGABRT, "homefree: fatal: free(0x",
                  "static data of ", "test-static-free", "'static_block'+0x10", "called from ",
                  "static_free:ignore");
}
END_TEST

START_TEST(a_literal_is_named)
{
    assert_killed(outcome_of_call(free_literal, NULL), SIGABRT, "homefree: fatal: free(0x",
                  "static data of ", "test-static-free");
}
END_TEST

START_TEST(every_way_to_free_it_is_seen)
{
    assert_killed(outcome_of_call(resize_static, NULL), SIGABRT, "homefree: fatal: realloc(0x",
                  "'static_block'+0x10");
    assert_killed(outcome_of_call(free_by_homefree, NULL), SIGABRT, "homefree: fatal: free(0x",
                  "'static_block'+0x10");
    assert_killed(outcome_of_call(resize_by_homefree, NULL), SIGABRT, "homefree: fatal: realloc(0x",
                  "'static_block'+0x10");
    assert_killed(outcome_of_call(delete_static, NULL), SIGABRT, "homefree: fatal: free(0x",
                  "'static_block'+0x10", "called from ", "test-static-free");
}
END_TEST

START_TEST(a_librarys_data_is_named)
{
    assert_killed(outcome_of_call(free_of_library, NULL), SIGABRT, "static data of ", holder_path,
                  "'held_by_module'");
}
END_TEST

START_TEST(two_libstdcxx_are_both_named)
{
    assert_killed(outcome_of_call(destroy_foreign_locales, NULL), SIGABRT,
                  "homefree: fatal: free(0x", "static data of ", "2 copies of libstdc++ are loaded",
                  "libstdc++.so.6", copy_path);
}
END_TEST

START_TEST(a_stack_is_named)
{
    assert_killed(outcome_of_call(free_stack, NULL), SIGABRT, "homefree: fatal: free(0x",
                  "the pointer is on a stack", "called from ");
}
END_TEST

/* ---- frees that are ignored ---- */

static void free_all_kinds(void)
{
    free_static(NULL);
    free_static(NULL);
    free_by_homefree(NULL);
    free_stack(NULL);
    free_of_library(NULL);
    destroy_foreign_locales(NULL);
    char *moved = resize(unknown(static_block.bytes), 16);
    must(moved != NULL && strcmp(moved, "static contents") == 0);
    free(moved);
    moved = resize(unknown(static_block.bytes), 1 << 20);
    must(moved != NULL && strcmp(moved, "static contents") == 0);
    free(moved);
    must(strcmp(static_block.bytes, "static contents") == 0);
}

START_TEST(ignored_with_one_warning_on_request)
{
    struct outcome outcome;
    const char *const arguments[] = {own_path(), "ignore",      holder_path,
                                     copy_path,  homefree_path, NULL};
    const char *const environment[] = {"HOMEFREE_CONF=static_free:ignore", NULL};
    const struct program program = {.arguments = arguments, .environment = environment};
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 1, "homefree: warning: free(0x", "'static_block'+0x10",
                  "static_free:ignore");
}
END_TEST

/* ---- libc's blocks, and static blocks that look like them ---- */

static void *allocate_in_thread(void *unused)
{
    (void)unused;
    return malloc(100);
}

START_TEST(blocks_of_libc_are_freed)
{
    pthread_t thread;
    void *other;
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_in_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &other), 0);
    free(other);
    free(unknown(NULL));
    for (size_t size = 0; size < (size_t)1 << 26; size = size * 2 + 1) {
        char *block = malloc(size);
        ck_assert_ptr_nonnull(block);
        block = resize(block, size / 2 + 1);
        ck_assert_ptr_nonnull(block);
        free(block);
        block = aligned_alloc(4096, 4096);
        ck_assert_ptr_nonnull(block);
        heap_free(block);
    }
}
END_TEST

/* This works without homefree, so it must work with it. */
START_TEST(a_static_block_that_libc_accepts_is_libcs)
{
    static struct {
        size_t before, size;
        char bytes[48];
    } __attribute__((aligned(16))) accepted = {0, 0x41, ""};
    free(unknown(accepted.bytes));
    char *again = unknown(malloc(48));
    ck_assert_ptr_eq(again, accepted.bytes);
}
END_TEST

int main(int count, char **arguments)
{
    bool ignore = count == 5 && strcmp(arguments[1], "ignore") == 0;
    if (count != 4 && !ignore)
        return 2;
    need_found_objects();
    homefree_path = ignore ? arguments[4] : arguments[1];
    void *homefree = load(homefree_path, RTLD_NOW);
    heap_free = (void (*)(void *))symbol_of(homefree, "hf_free");
    heap_realloc = (void *(*)(void *, size_t))symbol_of(homefree, "hf_realloc");
    holder_path = arguments[2];
    copy_path = arguments[3];
    if (ignore) {
        free_all_kinds();
        return 0;
    }
    return RUN_TESTS("static free", static_data_is_named_with_its_symbol, a_literal_is_named,
                     every_way_to_free_it_is_seen, a_librarys_data_is_named,
                     two_libstdcxx_are_both_named, a_stack_is_named,
                     ignored_with_one_warning_on_request, blocks_of_libc_are_freed,
                     a_static_block_that_libc_accepts_is_libcs);
}
