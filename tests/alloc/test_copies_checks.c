/* An instance of libhomefree that forwards compares what its callers say of a block, its size and
 * its alignment, as the heap does: the module that links that copy is checked too. By default all
 * sizes of the block's class are right.
 *
 *   test_copies_checks FIRST SECOND */
#include "copies.h"
#include "suite.h"

static const char *paths[2];

/* Each function frees the heap's blocks through the forwarding copy. */
static void wrong_size(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    second.free_sized(first.malloc(100), 99);
}

static void wrong_alignment(void *unused)
{
    (void)unused;
    (void)copy_open(paths[0]);
    struct copy second = copy_open(paths[1]);
    second.free_aligned(second.memalign(64, 100), 48);
}

static void wrong_aligned_size(void *unused)
{
    (void)unused;
    (void)copy_open(paths[0]);
    struct copy second = copy_open(paths[1]);
    second.free_aligned_sized(second.memalign(64, 100), 64, 128);
}

static void correct(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    const struct copy *copies[] = {&first, &second};
    for (size_t i = 0; i < 4; i++) {
        const struct copy *from = copies[i % 2], *to = copies[i / 2];
        to->free_sized(from->malloc(100), 100);
        to->free_aligned(from->memalign(64, 100), 64);
        to->free_aligned_sized(from->memalign(64, 100), 64, 100);
        to->free_sized(strdup("libc's"), 7);
        to->free_sized(NULL, 7);
        to->free_aligned(NULL, 7);
    }
}

static void dies(void (*body)(void *), const char *text)
{
    struct outcome outcome;
    outcome_of_function(&outcome, body, NULL);
    assert_killed(&outcome, 6, "homefree: fatal: free(0x", text, "; called from ",
                  "test_copies_checks+0x");
}

START_TEST(a_forwarding_copy_checks)
{
    ck_assert_int_eq(setenv("HOMEFREE_CONF", "checks:full", 1), 0);
    must_succeed(correct);
    dies(wrong_size, "allocated with 100 bytes and is freed as one of 99");
    dies(wrong_alignment, "freed with the alignment 48, which is not a power of two");
    dies(wrong_aligned_size, "allocated with 100 bytes and is freed as one of 128");
}
END_TEST

static void of_another_class(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    second.free_sized(first.malloc(100), 200);
}

static void nearly_right(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    second.free_sized(first.malloc(100), 99);
    second.free_aligned_sized(first.memalign(64, 100), 64, 128);
    second.free_sized(first.memalign(4096, 100), 100);
    second.free_aligned(first.malloc(100), 4096);
    /* libstdc++'s operator new rounds up what it asks for. */
    second.free_aligned_sized(first.memalign(4096, 303104), 4096, 300000);
}

START_TEST(a_forwarding_copy_checks_by_default)
{
    ck_assert_int_eq(setenv("HOMEFREE_CONF", "checks:default", 1), 0);
    must_succeed(correct);
    must_succeed(nearly_right);
    dies(of_another_class, "allocated with at most 112 bytes and is freed as one of 200");
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&paths[0], &paths[1]);
    return RUN_SUITE(a_forwarding_copy_checks, a_forwarding_copy_checks_by_default);
}
