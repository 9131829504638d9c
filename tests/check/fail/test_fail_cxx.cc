// operator new of a module on the heap throws std::bad_alloc, or returns nullptr, when its call is
// made to fail, and asks the new handler first.
#include "suite.h"

#include <homefree/homefree.h>
#include <new>
#include <vector>

// Check's assertions call malloc, which is the heap's here: no assertion while calls are counted.

static unsigned handled;

static void give_up()
{
    handled++;
    std::set_new_handler(nullptr);
}

static hf_fail_counts end()
{
    hf_fail_counts counts{};
    counts.size = sizeof counts;
    (void)hf_fail_end(0, &counts);
    return counts;
}

START_TEST(plain_new_throws)
{
    bool thrown = false;
    (void)hf_fail_at(1, 0);
    try {
        std::vector<int> numbers(100);
        hf_free(numbers.data() == nullptr ? &numbers : nullptr);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    const hf_fail_counts counts = end();
    ck_assert(thrown);
    ck_assert_uint_eq(counts.failed, 1);
}
END_TEST

START_TEST(nothrow_new_returns_null)
{
    struct alignas(256) wide {
        char bytes[256];
    };
    (void)hf_fail_at(1, HF_FAIL_ONWARDS);
    void *const volatile blocks[] = {new (std::nothrow) int, new (std::nothrow) wide,
                                     new (std::nothrow) char[100000]};
    const hf_fail_counts counts = end();
    for (void *block : blocks)
        ck_assert_ptr_null(block);
    ck_assert_uint_eq(counts.failed, 3);
}
END_TEST

START_TEST(the_handler_is_asked_and_the_call_repeated)
{
    std::set_new_handler(give_up);
    (void)hf_fail_at(1, 0);
    int *const volatile number = new int;
    const hf_fail_counts counts = end();
    ck_assert_ptr_nonnull(number);
    delete number;
    ck_assert_uint_eq(handled, 1);
    ck_assert_uint_eq(counts.calls, 2);
    ck_assert_uint_eq(counts.failed, 1);
}
END_TEST

int main()
{
    return RUN_SUITE(plain_new_throws, nothrow_new_returns_null,
                     the_handler_is_asked_and_the_call_repeated);
}
