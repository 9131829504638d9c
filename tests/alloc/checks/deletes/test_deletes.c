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

static void each_way(const char *name, const char *text, const char *more)
{
    struct outcome outcome;
    for (int way = SHIM; way <= LATE; way++) {
        run(&outcome, way, name, "full");
        assert_killed(&outcome, SIGABRT, "homefree: fatal: free(0x", text, more, "; called from ");
    }
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

START_TEST(wrong_sizes_are_found)
{
    each_way("through base", "allocated with 64 bytes and is freed as one of 40",
             "without a virtual destructor");
    each_way("array sized", "allocated with 100 bytes and is freed as one of 99", "length");
    each_way("aligned sized", "allocated with 100 bytes and is freed as one of 164", "length");
}
END_TEST

START_TEST(wrong_alignments_are_found)
{
    each_way("over aligned", "freed with the alignment 64", "address is not a multiple of that");
    each_way("aligned only", "freed with the alignment 32", "address is not a multiple of that");
    each_way("aligned nothrow", "freed with the alignment 4096", "is not a multiple of that");
    each_way("no power", "freed with the alignment 48", "not a power of two");
    each_way("no alignment", "freed with the alignment 0", "not a power of two");
}
END_TEST

START_TEST(deleting_twice_is_found)
{
    each_way("twice", "is free already", "double free");
    each_way("twice aligned", "is free already", "double free");
}
END_TEST

START_TEST(interior_pointers_are_found)
{
    each_way("interior", "inside a block", "not at its first byte");
    each_way("interior aligned", "inside a block", "not at its first byte");
    each_way("array as object", "inside a block", "not at its first byte");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    with_shim = argv[1];
    plain = argv[2];
    library = argv[3];
    return RUN_SUITE(correct_deletes_pass, wrong_sizes_are_found, wrong_alignments_are_found,
                     deleting_twice_is_found, interior_pointers_are_found);
}
