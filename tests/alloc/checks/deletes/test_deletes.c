/* With checks:full a C++ program that deletes with a wrong size, a wrong alignment, twice, or in
 * the middle of a block ends with a line that says so: linked with the shim, and where its deletes
 * are routed by a libhomefree that was preloaded or came late.
 *
 *   test_deletes SHIM PLAIN LIBRARY: the program with the shim and without, and libhomefree */
#include "death.h"
#include "suite.h"

#include <signal.h>
#include <stdio.h>

static const char *with_shim, *plain, *library;

enum { SHIM, PRELOADED, LATE };

static void run(struct outcome *outcome, int way, const char *name, const char *checks)
{
    char preloading[5000], heap[5000], configuration[100];
    (void)snprintf(preloading, sizeof preloading, "LD_PRELOAD=%s", library);
    (void)snprintf(heap, sizeof heap, "HEAP=%s", library);
    (void)snprintf(configuration, sizeof configuration, "HOMEFREE_CONF=checks:%s", checks);
    const char *const arguments[] = {way == SHIM ? with_shim : plain, name, NULL};
    const char *environment[] = {configuration, NULL, NULL, NULL};
    if (way != SHIM)
        environment[1] = heap;
    if (way == PRELOADED)
        environment[2] = preloading;
    const struct program program = {.arguments = arguments, .environment = environment};
    outcome_of_program(outcome, &program);
}

START_TEST(correct_deletes_pass)
{
    struct outcome outcome;
    for (int way = SHIM; way <= LATE; way++) {
        run(&outcome, way, "correct", "full");
        assert_exited(&outcome, 0, 0, "");
        run(&outcome, way, "correct", "default");
        assert_exited(&outcome, 0, 0, "");
    }
}
END_TEST

/* The name of each error in deletes.cc, and two parts of the line that must report it. */
static const struct {
    const char *name, *text, *more;
} wrong[] = {
    {"through base", "allocated with 64 bytes and is freed as one of 40",
     "without a virtual destructor"},
    {"array sized", "allocated with 100 bytes and is freed as one of 99", "length"},
    {"aligned sized", "allocated with 100 bytes and is freed as one of 164", "length"},

    {"over aligned", "freed with the alignment 64", "address is not a multiple of that"},
    {"aligned only", "freed with the alignment 32", "address is not a multiple of that"},
    {"aligned nothrow", "freed with the alignment 4096", "is not a multiple of that"},
    {"no power", "freed with the alignment 48", "not a power of two"},
    {"no alignment", "freed with the alignment 0", "not a power of two"},

    {"twice", "is free already", "double free"},
    {"twice aligned", "is free already", "double free"},

    {"interior", "inside a block", "not at its first byte"},
    {"interior aligned", "inside a block", "not at its first byte"},
    {"array as object", "inside a block", "not at its first byte"},
};

START_TEST(wrong_deletes_are_found)
{
    struct outcome outcome;
    for (int way = SHIM; way <= LATE; way++) {
        run(&outcome, way, wrong[_i].name, "full");
        assert_killed(&outcome, SIGABRT, "homefree: fatal: free(0x", wrong[_i].text, wrong[_i].more,
                      "; called from ");
    }
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&with_shim, &plain, &library);
    TCase *deletes = NEW_CASE("deletes", correct_deletes_pass);
    tcase_add_loop_test(deletes, wrong_deletes_are_found, 0, sizeof wrong / sizeof wrong[0]);
    return RUN_CASES("deletes", deletes);
}
