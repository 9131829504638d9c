/* What is caught of the heap errors that programs make (errors.c): all of them with checks:full, in
 * one line that says what it was; without, what the fast paths leave room for. heap_errors.py in
 * tests/bench prints the numbers, other allocators' too. */
#include "counts.h"

#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <string.h>

static size_t hf_measure(void *ptr)
{
    return hf_usable_size(ptr);
}

static const struct family ours = {
    hf_malloc, hf_calloc, hf_realloc, hf_memalign, hf_free, hf_free_sized, hf_free_aligned_sized,
    hf_measure};
static int part(const char *what)
{
    const bool full = strcmp(what, "full") == 0;
    struct counts counts = count_errors(&ours, full);
    must(counts.all >= 100);
    if (full)
        must(counts.caught == counts.all);
    else /* found late or never, but homefree's own code must not crash */
        must(counts.crashed == 0 && counts.hung == 0);
    return 0;
}

static void run(const char *what, const char *configuration)
{
    const char *const arguments[] = {own_path(), what, NULL};
    const char *const environment[] = {configuration, NULL};
    const struct program program = {.arguments = arguments, .environment = environment};
    struct outcome outcome;
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 0, "");
}

START_TEST(all_are_caught)
{
    run("full", "HOMEFREE_CONF=checks:full");
}
END_TEST

START_TEST(none_crashes_in_our_code)
{
    run("default", "HOMEFREE_CONF=checks:default");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return part(argv[1]);
    return RUN_SUITE(all_are_caught, none_crashes_in_our_code);
}
