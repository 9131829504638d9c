/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/check.h - assertions about boundaries, for suites of Check, GoogleTest, Catch2, or none.
 *
 * The assertions say who owns a pointer, whether memory crosses a boundary between shared objects
 * while a block of code runs, whether a block of memory is freed exactly once and by whom, whether
 * anything is left, and whether code survives that memory runs out. A test program includes this
 * header and links its test framework and homefree. C11 and C++17.
 *
 *     START_TEST(the_host_frees_what_greet_returns)
 *     {
 *         char *text = greet("you");
 *         hf_ck_assert_owner(text, HF_OWNER_HEAP);
 *         hf_ck_assert_freed_by(text, "test_greet", { free(text); });
 *         hf_ck_assert_crossed("greet", "test_greet", { free(greet("you")); });
 *         hf_ck_assert_no_crossing({ greet_free(greet("you")); });
 *         hf_ck_assert_balanced("greet", { greet_free(greet("you")); });
 *         hf_ck_assert_survives_failures({ greet_free(greet("you")); });
 *     }
 *     END_TEST
 *
 * The framework is chosen by what the program defines before including this header:
 *
 *   HF_CK_FRAMEWORK_CHECK   Check: a failure is that of ck_assert_msg()
 *   HF_CK_FRAMEWORK_GTEST   GoogleTest: FAIL(), so the function must return void
 *   HF_CK_FRAMEWORK_CATCH2  Catch2, versions 2 and 3: FAIL()
 *   HF_CK_FRAMEWORK_NONE    no framework: prints the message on stderr and calls abort()
 *   HF_CK_FAIL(message)     the program's own: called with the message, a string; may return
 *
 * If it defines none of these, the framework is GoogleTest or Catch2 if its header is included
 * before, and otherwise Check, whose header this one includes.
 *
 * homefree/watch.h defines what a crossing is, and to which object a call belongs; homefree/fail.h,
 * what counts as a call for memory. A block of code is run once, unless its assertion says
 * otherwise. It may contain commas. If it is left by return or an exception, nothing is asserted;
 * it must not be left by break or goto. What other threads do in the meantime is recorded too.
 *
 * The assertions are the framework's, and must run in the test's own process. If one of Check's
 * assertions fails inside the block, in a process that does not fork for each test, the watch stays
 * open until the process ends, which costs time and one of HF_WATCHES_MAX. Names that begin with
 * hf_ck_ or HF_CK_ are internal, except for those described here.
 */
#ifndef HOMEFREE_CHECK_H
#define HOMEFREE_CHECK_H

#include <homefree/check/support.h>

/* ---- assertions ---- */

/*
 * Asserts that an address belongs to a kind of owner.
 *
 * Parameters:
 *   p     in: any address; it is not accessed
 *   kind  in: HF_OWNER_HEAP, HF_OWNER_LIBC or another enum hf_owner_kind
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_owner(p, kind)                                          \
    do {                                                                     \
        struct hf_ck hf_ck_;                                                 \
        HF_CK_EXPECT(hf_ck_is_owner(&hf_ck_, (p), #p, (kind)), hf_ck_.text); \
    } while (0)

/*
 * Asserts that no memory crosses a boundary while a block of code runs.
 *
 * Parameters:
 *   ...  in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_no_crossing(...) \
    HF_CK_AROUND(hf_ck_begin(&hf_ck_), hf_ck_end_no_crossing(&hf_ck_), __VA_ARGS__)

/*
 * Asserts that at least one block of memory crosses from one object to another while a block of
 * code runs.
 *
 * Parameters:
 *   allocated_by  in: a part of the object's file name, without the directory; NULL for any object
 *   freed_by      in: the same
 *   ...           in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_crossed(allocated_by, freed_by, ...)                                      \
    HF_CK_AROUND(hf_ck_begin(&hf_ck_), hf_ck_end_crossed(&hf_ck_, (allocated_by), (freed_by)), \
                 __VA_ARGS__)

/*
 * Asserts that a block of memory is freed exactly once while a block of code runs, by any object.
 *
 * Blocks that are allocated at the same address afterwards do not count. For a foreign block, only
 * frees through the heap are seen.
 *
 * Parameters:
 *   p    in: the first byte of the block of memory
 *   ...  in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_freed_once(p, ...)                                                   \
    HF_CK_AROUND(hf_ck_begin_freed_once(&hf_ck_, (p), #p), hf_ck_end_freed_once(&hf_ck_), \
                 __VA_ARGS__)

/*
 * Asserts that a block of memory is freed exactly once while a block of code runs, by a certain
 * object.
 *
 * Blocks that are allocated at the same address afterwards must be freed by that object, too. For a
 * foreign block, only frees through the heap are seen.
 *
 * Parameters:
 *   p         in: the first byte of the block of memory
 *   freed_by  in: a part of the object's file name, without the directory; NULL for any object
 *   ...       in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_freed_by(p, freed_by, ...)            \
    HF_CK_AROUND(hf_ck_begin_freed_once(&hf_ck_, (p), #p), \
                 hf_ck_end_freed_by(&hf_ck_, (freed_by)), __VA_ARGS__)

/*
 * Asserts that every block of the heap that an object allocates while a block of code runs is freed
 * before the block of code ends, by whichever object: what it handed out was given back or freed,
 * and what it allocated for itself, too.
 *
 * A block that another object resizes is that object's from then on. What an object keeps on
 * purpose, such as a cache, counts as left: run the code once before the assertion.
 *
 * Parameters:
 *   allocated_by  in: a part of the object's file name, without the directory; NULL for any object
 *   ...           in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_balanced(allocated_by, ...) \
    HF_CK_AROUND(hf_ck_begin(&hf_ck_), hf_ck_end_balanced(&hf_ck_, (allocated_by)), __VA_ARGS__)

/*
 * Makes a call for memory fail: the calling thread's Nth from now on. Counting starts at zero, also
 * if it was on already.
 *
 * If the program itself is on the heap, what the test framework allocates counts, too: Check's
 * assertions call malloc even where they hold. Keep them out of the code that is counted.
 *
 * Parameters:
 *   n  in: which call; 1 is the next one, and 0 only counts
 * Result: none.
 * Errors: if calls cannot be counted, a failed assertion ends the test, as the framework's do.
 * Frees: nothing; end it with hf_ck_fail_reset().
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_fail_at(n)                                   \
    do {                                                   \
        struct hf_ck hf_ck_;                               \
        if (!hf_ck_can_fail(&hf_ck_, hf_fail_at((n), 0)))  \
            HF_CK_EXPECT(hf_ck_.length == 0, hf_ck_.text); \
    } while (0)

/*
 * Ends what hf_ck_fail_at() began on this thread; otherwise does nothing.
 *
 * Result: none.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline void hf_ck_fail_reset(void)
{
    (void)hf_fail_end(0, NULL);
}

/*
 * Returns how many calls for memory this thread has made since hf_ck_fail_at(), the failed one
 * included.
 *
 * Result: the number; 0 if hf_ck_fail_at() is not in force.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline uint64_t hf_ck_calls(void)
{
    return hf_ck_counts().calls;
}

/*
 * Asserts that a block of code survives the failure of each single call for memory that it makes on
 * its thread: runs it with the first one failing, with the second one failing, and so on, until a
 * run makes no call fail.
 *
 * Each run has a child process of its own. It must end by itself within HF_CK_SECONDS (30 unless
 * defined before), reach the end of the block of code, and not die. To also assert that nothing is
 * lost, put hf_ck_assert_balanced() inside. In C++, an exception such as std::bad_alloc must be
 * caught inside. The block of code should contain none of the framework's assertions: those of
 * Check call malloc (see hf_ck_fail_at()), and with CK_FORK=no a failed one continues the suite in
 * the child.
 *
 * Parameters:
 *   ...  in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions, if a forked child of the process
 *   may run the block of code.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_survives_failures(...) HF_CK_WALK(hf_ck_next_child, __VA_ARGS__)

/*
 * The same, with all runs in the calling process, one after the other: for code that cannot run in
 * a child. A run that dies ends the test program; what a run changes, later ones find changed.
 *
 * Parameters:
 *   ...  in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as the framework's do.
 * Frees: nothing.
 * Threads: any thread from which the framework allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_survives_failures_here(...) HF_CK_WALK(hf_ck_next_here, __VA_ARGS__)

#endif
