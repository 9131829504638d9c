/*
 * NumPy's arrays that a C host gets from an interpreter outlive it, whoever lets go first. Needs
 * the package and NumPy.
 *
 * usage: test_arrays LIBPYTHON
 */
#include "groups.h"
#include "heap.h"

#include <homefree/deleter.h>
#include <sched.h>
#include <stdatomic.h>

static struct hf_interpreters *group;

enum { COUNT = 100000 }; /* numbers in an array */

static const char arrays[] =
    "import numpy\n"
    "kept = numpy.arange(100000, dtype='d')\n"
    "def give(): return numpy.arange(100000, dtype='d')\n"
    "def give_kept(): return kept\n"
    "def forget():\n"
    "    global kept\n"
    "    kept = None\n"
    "def views():\n"
    "    return [kept[10:20], kept.reshape(100, -1), memoryview(kept)[7:9],"
    "            {'sent': kept}]\n"
    "def total(memory): return float(numpy.asarray(memory).sum())\n"
    "def same(memory): return memory\n"
    "def half(memory): return numpy.asarray(memory)[5:]\n"
    "def grow():\n"
    "    kept.resize(200000, refcheck=False)\n"
    "    kept[:] = -1\n"
    "def borrow(): return numpy.frombuffer(bytearray(b'01234567'))\n";

static void start(unsigned count)
{
    load_python();
    group = group_of(count, arrays);
}

static const double *numbers_of(const struct hf_value *value)
{
    ck_assert_int_eq(value->kind, HF_VALUE_MEMORY);
    return value->as.memory->pointer;
}

static void end(unsigned ended)
{
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_uint_eq(totals_now().parked, 0);
    ck_assert_uint_eq(totals_now().ended, ended);
}

START_TEST(an_array_outlives_its_interpreter)
{
    start(1);
    struct hf_value array = result_of(group, 0, "__main__:give", NULL);
    struct hf_value kept = result_of(group, 0, "__main__:give_kept", NULL);
    const double *numbers = numbers_of(&array), *others = numbers_of(&kept);
    ck_assert(hf_owns(numbers));
    ck_assert_uint_eq(stats_of(group, 0).held, 0);
    if (is_one_interpreter()) { /* which does not end */
        struct hf_value none = result_of(group, 0, "__main__:forget", NULL);
        hf_value_clear(&none);
    }
    end(1);
    for (int i = 0; i < COUNT; i++)
        ck_assert(numbers[i] == i && others[i] == i);
    hf_value_clear(&array);
    hf_value_clear(&kept);
    assert_gone(numbers);
    assert_gone(others);
}
END_TEST

START_TEST(whoever_lets_go_last_frees_it)
{
    start(2);
    struct hf_value first = result_of(group, 0, "__main__:give_kept", NULL);
    struct hf_value again = result_of(group, 0, "__main__:give_kept", NULL), none;
    const double *numbers = numbers_of(&first);
    ck_assert_ptr_eq(numbers_of(&again), numbers);
    /* The host lets go while the array lives, */
    hf_value_clear(&again);
    ck_assert(numbers[COUNT - 1] == COUNT - 1);
    /* and the array while the host has it, which another interpreter passes on. */
    struct hf_value passed = result_of(group, 1, "__main__:same", &first);
    struct hf_value half = result_of(group, 1, "__main__:half", &first);
    ck_assert_ptr_eq(numbers_of(&passed), numbers);
    ck_assert_ptr_eq(numbers_of(&half), numbers + 5);
    ck_assert_uint_eq(stats_of(group, 1).held, 0);
    none = result_of(group, 0, "__main__:forget", NULL);
    ck_assert_int_eq(none.kind, HF_VALUE_NONE);
    hf_value_clear(&first);
    hf_value_clear(&passed);
    ck_assert(numbers_of(&half)[0] == 5);
    end(2);
    ck_assert(numbers_of(&half)[COUNT - 6] == COUNT - 1);
    hf_value_clear(&half);
    assert_gone(numbers);
}
END_TEST

START_TEST(views_and_pickles_share_the_block)
{
    start(2);
    struct hf_value views = result_of(group, 0, "__main__:views", NULL);
    ck_assert_uint_eq(views.count, 4);
    const struct hf_value *items = views.as.items;
    ck_assert_int_eq(items[3].kind, HF_VALUE_PICKLE);
    const double *numbers = numbers_of(&items[3].as.items[1]);
    ck_assert_ptr_eq(numbers_of(&items[0]), numbers + 10);
    ck_assert_ptr_eq(numbers_of(&items[1]), numbers);
    ck_assert_ptr_eq(numbers_of(&items[2]), numbers + 7);
    ck_assert_int_eq(items[1].as.memory->dimensions, 2);
    ck_assert_uint_eq(stats_of(group, 0).held, 0);
    /* An array that is resized meanwhile moves. */
    struct hf_value none = result_of(group, 0, "__main__:grow", NULL);
    ck_assert_int_eq(none.kind, HF_VALUE_NONE);
    ck_assert(numbers[COUNT - 1] == COUNT - 1);
    struct hf_value total = result_of(group, 1, "__main__:total", &items[0]);
    ck_assert(total.as.real == 145);
    /* What an array does not own is held as before. */
    struct hf_value borrowed = result_of(group, 0, "__main__:borrow", NULL);
    ck_assert_uint_eq(stats_of(group, 0).held, 1);
    hf_value_clear(&borrowed);
    while (stats_of(group, 0).held != 0)
        sched_yield();
    end(2);
    ck_assert(numbers[COUNT - 1] == COUNT - 1);
    hf_value_clear(&views);
    assert_gone(numbers);
}
END_TEST

START_TEST(an_array_outlives_cpython)
{
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    group = group_of(1, arrays);
    struct hf_value array = result_of(group, 0, "__main__:give", NULL);
    const double *numbers = numbers_of(&array);
    ck_assert_int_eq(hf_interpreters_finish(-1), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_int_eq(PYTHON(int, Py_FinalizeEx, (void))(), 0);
    ck_assert(numbers[COUNT - 1] == COUNT - 1);
    const uint64_t leaked = stats_now().releases_leaked;
    hf_value_clear(&array);
    ck_assert_uint_eq(stats_now().releases_leaked, leaked);
    assert_gone(numbers);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(an_array_outlives_its_interpreter, whoever_lets_go_last_frees_it,
                     views_and_pickles_share_the_block, an_array_outlives_cpython);
}
