/* Assertions of homefree/check.h, for each test framework: some that hold, and one that fails for
 * each kind. The test's source has included the framework. C and C++ build it. */
#ifndef HOMEFREE_TESTS_CHECK_FRAMEWORKS_BODIES_H
#define HOMEFREE_TESTS_CHECK_FRAMEWORKS_BODIES_H

#include <homefree/check.h>
#include <stdlib.h>
#include <string.h>

#define BODIES(V)                 \
    V(everything_holds)           \
    V(owner_fails)                \
    V(no_crossing_fails)          \
    V(crossed_fails)              \
    V(freed_once_fails)           \
    V(freed_by_fails)             \
    V(balanced_fails)             \
    V(survives_fails_by_a_signal) \
    V(survives_fails_by_a_return) \
    V(the_end_holds)

#define SELF "framework"

/* Two blocks, or none. */
static void *pair[2];

static void *make_pair(void)
{
    pair[0] = hf_malloc(10);
    pair[1] = pair[0] != NULL ? hf_malloc(20) : NULL;
    if (pair[1] != NULL)
        return pair;
    hf_free(pair[0]);
    return NULL;
}

static void drop_pair(void)
{
    hf_free(pair[0]);
    hf_free(pair[1]);
}

/* Does not expect the second call to fail. */
static void *make_pair_badly(void)
{
    pair[0] = hf_malloc(10);
    if (pair[0] == NULL)
        return NULL;
    pair[1] = hf_malloc(20);
    memset(pair[1], 0, 20);
    return pair;
}

static void everything_holds(void)
{
    int runs = 0;
    void *block = hf_malloc(10), *other = hf_malloc(10);
    hf_ck_assert_owner(block, HF_OWNER_HEAP);
    hf_ck_assert_freed_once(block, { hf_free(block); });
    hf_ck_assert_freed_by(other, SELF, { hf_free(other); });
    hf_ck_assert_no_crossing({
        int a = 1, b = 2;
        hf_free(hf_malloc((size_t)(a + b)));
    });
    hf_ck_assert_crossed("libc", SELF, { hf_free(strdup("text")); });
    hf_ck_assert_balanced(SELF, {
        if (make_pair() != NULL)
            drop_pair();
    });
    hf_ck_fail_at(2);
    void *first = hf_malloc(1), *second = hf_malloc(1);
    uint64_t calls = hf_ck_calls();
    hf_ck_fail_reset();
    if (first == NULL || second != NULL || calls != 2 || hf_ck_calls() != 0)
        abort();
    hf_free(first);
    hf_ck_assert_survives_failures({
        hf_ck_assert_balanced(SELF, {
            if (make_pair() != NULL)
                drop_pair();
        });
        runs++;
    });
    if (runs != 0) /* all were in children */
        abort();
    hf_ck_assert_survives_failures_here({
        if (make_pair() != NULL)
            drop_pair();
        runs++;
    });
    if (runs != 3 || hf_ck_calls() != 0)
        abort();
}

static void owner_fails(void)
{
    int here = 0;
    hf_ck_assert_owner(&here, HF_OWNER_HEAP);
}

static void no_crossing_fails(void)
{
    hf_ck_assert_no_crossing({ hf_free(strdup("text")); });
}

static void crossed_fails(void)
{
    hf_ck_assert_crossed("nobody", NULL, { hf_free(hf_malloc(1)); });
}

static void freed_once_fails(void)
{
    void *block = hf_malloc(10);
    hf_ck_assert_freed_once(block, {});
}

static void freed_by_fails(void)
{
    void *block = hf_malloc(10);
    hf_ck_assert_freed_by(block, "nobody", { hf_free(block); });
}

static void balanced_fails(void)
{
    hf_ck_assert_balanced(NULL, { (void)make_pair(); });
}

static void survives_fails_by_a_signal(void)
{
    hf_ck_assert_survives_failures({
        if (make_pair_badly() != NULL)
            drop_pair();
    });
}

static void survives_fails_by_a_return(void)
{
    hf_ck_assert_survives_failures({
        if (make_pair() == NULL)
            return;
        drop_pair();
    });
}

/* Whatever ended the tests before, no watch is open and nothing is counted. */
static void the_end_holds(void)
{
    struct hf_watch *watches[HF_WATCHES_MAX];
    for (int i = 0; i < HF_WATCHES_MAX; i++)
        if (hf_watch_begin(&watches[i], 1) != 0)
            abort();
    for (int i = 0; i < HF_WATCHES_MAX; i++)
        hf_watch_drop(watches[i]);
    if (hf_fail_end(0, NULL) == 0)
        abort();
}

#endif
