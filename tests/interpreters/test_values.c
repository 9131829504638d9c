/*
 * What crosses between C and an interpreter, and between interpreters.
 *
 * usage: test_values LIBPYTHON
 */
#include "groups.h"
#include "heap.h"

#include <homefree/deleter.h>
#include <sched.h>
#include <stdatomic.h>

static struct hf_interpreters *group;
static struct hf_value result;

static int call(const char *function, const struct hf_value *arguments, size_t count)
{
    hf_value_clear(&result);
    return hf_interpreters_call(group, function, arguments, count, &result);
}

static void start(const char *set_up)
{
    load_python();
    group = group_of(2, set_up);
}

static void end(void)
{
    hf_value_clear(&result);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}

static const char same[] = "def same(x): return x\n"
                           "def words(*x): return repr(x)\n";

START_TEST(simple_values)
{
    struct hf_value items[] = {
        {.kind = HF_VALUE_NONE},
        {.kind = HF_VALUE_BOOL, .as.truth = 1},
        {.kind = HF_VALUE_INT, .as.integer = INT64_MIN},
        {.kind = HF_VALUE_FLOAT, .as.real = 0.5},
        {.kind = HF_VALUE_TEXT, .as.text = "h\xc3\xa9"},
        {.kind = HF_VALUE_TEXT, .count = 3, .as.text = "a\0b"},
        {.kind = HF_VALUE_BYTES, .count = 2, .as.bytes = "\0\xff"},
    };
    enum { COUNT = sizeof items / sizeof items[0] };
    struct hf_value list = {.kind = HF_VALUE_LIST, .count = COUNT, .as.items = items};
    struct hf_value both = {.kind = HF_VALUE_TUPLE, .count = 1, .as.items = &list};
    start(same);
    ck_assert_int_eq(call("__main__:words", &both, 1), 0);
    ck_assert_str_eq(result.as.text, "(([None, True, -9223372036854775808, 0.5, 'h\xc3\xa9', "
                                     "'a\\x00b', b'\\x00\\xff'],),)");
    ck_assert_int_eq(call("__main__:same", &both, 1), 0);
    ck_assert_int_eq(result.kind, HF_VALUE_TUPLE);
    ck_assert_uint_eq(result.count, 1);
    ck_assert_int_eq(result.as.items[0].kind, HF_VALUE_LIST);
    ck_assert_uint_eq(result.as.items[0].count, COUNT);
    const struct hf_value *back = result.as.items[0].as.items;
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(back[i].kind, items[i].kind);
    ck_assert_int_eq(back[1].as.truth, 1);
    ck_assert_int_eq(back[2].as.integer, INT64_MIN);
    ck_assert(back[3].as.real == 0.5);
    ck_assert_str_eq(back[4].as.text, "h\xc3\xa9");
    ck_assert_uint_eq(back[5].count, 3);
    ck_assert_mem_eq(back[5].as.text, "a\0b", 4);
    ck_assert_mem_eq(back[6].as.bytes, "\0\xff", 2);
    end();
}
END_TEST

START_TEST(exceptions_are_values)
{
    start("class Odd(Exception): pass\n"
          "def fail(): raise Odd('h\\xe9 \\udc80')\n"
          "def leave(): raise SystemExit(3)\n");
    ck_assert_int_eq(call("__main__:fail", NULL, 0), -EPROTO);
    ck_assert_int_eq(result.kind, HF_VALUE_ERROR);
    ck_assert_str_eq(result.as.error->type, "__main__.Odd");
    ck_assert_str_eq(result.as.error->message, "h\xc3\xa9 \\udc80");
    ck_assert_ptr_nonnull(strstr(result.as.error->traceback, "in fail"));
    ck_assert_int_eq(call("__main__:leave", NULL, 0), -EPROTO);
    ck_assert_str_eq(result.as.error->type, "SystemExit");
    ck_assert_str_eq(result.as.error->message, "3");
    ck_assert_ptr_nonnull(strstr(result.as.error->traceback, "in leave"));
    ck_assert_int_eq(call("builtins:nothing", NULL, 0), -EPROTO);
    ck_assert_str_eq(result.as.error->type, "AttributeError");
    ck_assert_int_eq(call("no.such.module:f", NULL, 0), -EPROTO);
    ck_assert_str_eq(result.as.error->type, "ModuleNotFoundError");
    ck_assert_int_eq(hf_interpreters_call(group, "__main__:fail", NULL, 0, NULL), -EPROTO);
    struct hf_session *session = session_of(group, 0);
    struct hf_value error;
    ck_assert_int_eq(hf_session_run(session, "1 +", &error), -EPROTO);
    ck_assert_str_eq(error.as.error->type, "SyntaxError");
    hf_value_clear(&error);
    ck_assert_int_eq(hf_session_run(session, "1 / 0", NULL), -EPROTO);
    run(session, "import sys; assert sys.exc_info() == (None, None, None)");
    hf_session_end(session);
    end();
}
END_TEST

START_TEST(other_objects_are_pickles)
{
    struct hf_value pickle;
    start("big = 10 ** 30\n"
          "def odd(): return {'a': (1, big), 'b': '\\udc80'}\n"
          "def check(x): return x == odd()\n"
          "def bad(): return lambda: 0\n");
    ck_assert_int_eq(call("__main__:odd", NULL, 0), 0);
    ck_assert_int_eq(result.kind, HF_VALUE_PICKLE);
    pickle = result;
    result = (struct hf_value){.kind = HF_VALUE_NONE};
    /* In both interpreters. */
    for (int i = 0; i < 2; i++) {
        struct hf_session *session = session_of(group, i);
        int error = hf_session_call(session, "__main__:check", &pickle, 1, &result);
        ck_assert_msg(error == 0, "%s",
                      result.kind == HF_VALUE_ERROR ? result.as.error->traceback
                                                    : strerror(-error));
        ck_assert_int_eq(result.kind, HF_VALUE_BOOL);
        ck_assert_int_eq(result.as.truth, 1);
        hf_session_end(session);
    }
    hf_value_clear(&pickle);
    ck_assert_int_eq(call("__main__:bad", NULL, 0), -EPROTO);
    ck_assert_int_eq(result.kind, HF_VALUE_ERROR);
    end();
}
END_TEST

/* ---- memory ---- */

static atomic_int freed;

static void count_freed(void *pointer)
{
    (void)pointer;
    atomic_fetch_add(&freed, 1);
}

/* As lists, these would have 2^40 items, or no end. */
START_TEST(lists_in_many_places_are_pickles)
{
    static const char *const functions[] = {"__main__:shared", "__main__:own", "__main__:deep"};
    start("def shared():\n"
          "    at = [1]\n"
          "    for _ in range(40): at = [at, at]\n"
          "    return at\n"
          "def own():\n"
          "    at = []\n"
          "    at += (at, at)\n"
          "    return at\n"
          "def deep():\n"
          "    at = ()\n"
          "    for _ in range(100): at = (at,)\n"
          "    return at\n"
          "def depth(at):\n"
          "    count = 0\n"
          "    while type(at) in (list, tuple) and at and at[0] is not at:\n"
          "        at = at[0]\n"
          "        count += 1\n"
          "    return count\n"
          "def wide(): return [[(1, 2)] * 500] * 1000\n");
    static const int64_t depths[] = {41, 0, 100};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(call(functions[i], NULL, 0), 0);
        ck_assert_int_eq(result.kind, HF_VALUE_PICKLE);
        struct hf_value pickle = result;
        result = (struct hf_value){.kind = HF_VALUE_NONE};
        ck_assert_int_eq(call("__main__:depth", &pickle, 1), 0);
        ck_assert_int_eq(result.as.integer, depths[i]);
        hf_value_clear(&pickle);
    }
    ck_assert_int_eq(call("__main__:wide", NULL, 0), 0);
    ck_assert_int_eq(result.kind, HF_VALUE_LIST);
    ck_assert_int_eq(result.as.items[999].as.items[499].as.items[1].as.integer, 2);
    end();
}
END_TEST

/* Their memory is of use in their interpreter alone. Without the package, 3.12 has no ctypes. */
START_TEST(memory_of_objects_does_not_cross)
{
    start("try:\n"
          "    import ctypes\n"
          "    class Fields(ctypes.Structure): _fields_ = [('O', ctypes.c_int)]\n"
          "except ImportError: ctypes = None\n"
          "def objects(): return (ctypes.py_object * 2)(1, 2)\n"
          "def fields(): return ctypes and Fields()\n");
    ck_assert_int_eq(call("__main__:fields", NULL, 0), 0);
    if (result.kind != HF_VALUE_NONE) {
        ck_assert_int_eq(result.kind, HF_VALUE_MEMORY);
        ck_assert_int_eq(call("__main__:objects", NULL, 0), -EPROTO);
        ck_assert_ptr_nonnull(strstr(result.as.error->message, "cannot be pickled"));
    }
    end();
}
END_TEST

START_TEST(memory_of_an_argument_is_not_copied)
{
    double numbers[2][3] = {{1, 2, 3}, {4, 5, 6}};
    const int64_t shape[] = {3, 2}, strides[] = {8, 24};
    struct hf_memory memory = {.pointer = numbers,
                               .bytes = sizeof numbers,
                               .format = "d",
                               .item_size = 8,
                               .dimensions = 2,
                               .shape = shape,
                               .strides = strides};
    struct hf_value argument = {.kind = HF_VALUE_MEMORY, .as.memory = &memory};
    ck_assert_int_eq(hf_release_new(&memory.keeper, numbers, count_freed, NULL), 0);
    start("def use(m):\n"
          "    global kept\n"
          "    kept = m\n"
          "    m[2, 1] = 60\n"
          "    return m.tolist()\n"
          "def drop():\n"
          "    global kept\n"
          "    kept = None\n"
          "def plain(m): return bytes(m)\n"
          "def write(m): m[0] = 1\n");
    struct hf_session *session = session_of(group, 0);
    ck_assert_int_eq(hf_session_call(session, "__main__:use", &argument, 1, &result), 0);
    ck_assert_int_eq(result.kind, HF_VALUE_LIST);
    ck_assert_uint_eq(result.count, 3);
    ck_assert(result.as.items[0].as.items[1].as.real == 4);
    ck_assert(numbers[1][2] == 60);
    hf_release_drop(memory.keeper);
    ck_assert_int_eq(freed, 0);
    hf_value_clear(&result);
    ck_assert_int_eq(hf_session_call(session, "__main__:drop", NULL, 0, &result), 0);
    ck_assert_int_eq(freed, 1);
    hf_session_end(session);
    memory = (struct hf_memory){.pointer = numbers, .bytes = 8, .read_only = true};
    ck_assert_int_eq(call("__main__:plain", &argument, 1), 0);
    ck_assert_mem_eq(result.as.bytes, numbers, 8);
    ck_assert_int_eq(call("__main__:write", &argument, 1), -EPROTO);
    ck_assert_str_eq(result.as.error->type, "TypeError");
    end();
}
END_TEST

START_TEST(memory_of_a_result_is_not_copied)
{
    start("import array\n"
          "numbers = array.array('i', range(5))\n"
          "def get(): return numbers\n"
          "def size(): numbers.append(1); return len(numbers)\n"
          "def add(m): return sum(m)\n");
    struct hf_session *session = session_of(group, 0);
    ck_assert_int_eq(hf_session_call(session, "__main__:get", NULL, 0, &result), 0);
    ck_assert_int_eq(result.kind, HF_VALUE_MEMORY);
    const struct hf_memory *memory = result.as.memory;
    ck_assert_uint_eq(memory->bytes, 20);
    ck_assert_str_eq(memory->format, "i");
    ck_assert_int_eq(memory->dimensions, 1);
    ck_assert_int_eq(memory->shape[0], 5);
    ((int *)memory->pointer)[0] = 100;
    ck_assert_uint_eq(stats_of(group, 0).held, 1);
    /* The other interpreter sees the same memory. */
    struct hf_value sum;
    struct hf_session *other = session_of(group, 1);
    ck_assert_int_eq(hf_session_call(other, "__main__:add", &result, 1, &sum), 0);
    ck_assert_int_eq(sum.as.integer, 110);
    /* An exported array cannot grow. */
    ck_assert_int_eq(hf_session_call(session, "__main__:size", NULL, 0, &sum), -EPROTO);
    ck_assert_str_eq(sum.as.error->type, "BufferError");
    hf_value_clear(&sum);
    hf_value_clear(&result);
    while (stats_of(group, 0).held != 0)
        sched_yield();
    ck_assert_int_eq(hf_session_call(session, "__main__:size", NULL, 0, &sum), 0);
    ck_assert_int_eq(sum.as.integer, 6);
    hf_session_end(other);
    hf_session_end(session);
    end();
}
END_TEST

START_TEST(an_interpreter_outlives_its_memory)
{
    start("def get(): return bytearray(b'still here')");
    ck_assert_int_eq(call("__main__:get", NULL, 0), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_uint_eq(totals_now().parked, !is_one_interpreter());
    ck_assert_mem_eq(result.as.memory->pointer, "still here", 10);
    hf_value_clear(&result);
    while (totals_now().parked != 0)
        sched_yield();
    while (totals_now().ended != 2)
        sched_yield();
}
END_TEST

START_TEST(all_end_before_cpython_does)
{
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    group = group_of(2, "def get(): return bytearray(b'still here')");
    struct hf_interpreters *running = group_of(1, NULL);
    ck_assert_int_eq(call("__main__:get", NULL, 0), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_uint_eq(totals_now().parked, !is_one_interpreter());
    ck_assert_int_eq(hf_interpreters_finish(-1), 0);
    ck_assert_uint_eq(totals_now().parked + totals_now().running, 0);
    ck_assert_int_eq(hf_interpreters_end(running, -1), 0);
    ck_assert_int_eq(PYTHON(int, Py_FinalizeEx, (void))(), 0);
    ck_assert_mem_eq(result.as.memory->pointer, "still here", 10);
    const uint64_t leaked = stats_now().releases_leaked;
    hf_value_clear(&result);
    ck_assert_uint_eq(stats_now().releases_leaked, leaked + 1);
}
END_TEST

START_TEST(calls_leave_nothing)
{
    struct hf_value text = {.kind = HF_VALUE_TEXT, .as.text = "text"};
    start("def both(x): return [x, bytearray(100), {1: 2}, (x, 1.5)]\n"
          "def fail(x): raise ValueError(x)\n");
    uint64_t before = 0;
    for (int i = 0; i < 3000; i++) {
        if (i == 1000)
            before = stats_now().allocated;
        ck_assert_int_eq(call("__main__:both", &text, 1), 0);
        ck_assert_int_eq(call("__main__:fail", &text, 1), -EPROTO);
        hf_value_clear(&result);
        while (stats_of(group, 0).posted + stats_of(group, 1).posted > 8)
            sched_yield();
    }
    ck_assert_uint_lt(stats_now().allocated, before + ((uint64_t)64 << 10));
    end();
}
END_TEST

START_TEST(replicas)
{
    struct hf_value number = {.kind = HF_VALUE_INT, .as.integer = 7}, error;
    struct hf_replica *replica = NULL, *bad = NULL;
    start("made = 0\n"
          "class Model:\n"
          "    def __init__(self, base):\n"
          "        global made\n"
          "        made += 1\n"
          "        self.base = base\n"
          "    def __call__(self, x): return self.base + x\n"
          "    def __del__(self):\n"
          "        global made\n"
          "        made -= 1\n"
          "def count(): return made\n");
    ck_assert_int_eq(hf_replica_new(&replica, group, "__main__:Model", &number, 1, &error), 0);
    ck_assert_int_eq(hf_replica_call(replica, NULL, &number, 1, &result), 0);
    ck_assert_int_eq(result.as.integer, 14);
    ck_assert_int_eq(hf_replica_call(replica, "base.__str__", NULL, 0, &result), 0);
    ck_assert_str_eq(result.as.text, "7");
    hf_value_clear(&result);
    ck_assert_int_eq(hf_replica_call(replica, "nothing", NULL, 0, &result), -EPROTO);
    ck_assert_int_eq(hf_replica_new(&bad, group, "__main__:count", &number, 1, &error), -EPROTO);
    ck_assert_str_eq(error.as.error->type, "TypeError");
    hf_value_clear(&error);
    ck_assert_ptr_null(bad);
    for (int i = 0; i < 2; i++) {
        struct hf_session *session = session_of(group, i);
        run(session, is_one_interpreter() ? "assert made == 2" : "assert made == 1");
        hf_session_end(session);
    }
    hf_replica_drop(replica);
    while (number_of(group, "__main__:count") != 0 || stats_of(group, 0).posted != 0 ||
           stats_of(group, 1).posted != 0)
        sched_yield();
    end();
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(simple_values, exceptions_are_values, other_objects_are_pickles,
                     lists_in_many_places_are_pickles, memory_of_objects_does_not_cross,
                     memory_of_an_argument_is_not_copied, memory_of_a_result_is_not_copied,
                     an_interpreter_outlives_its_memory, all_end_before_cpython_does,
                     calls_leave_nothing, replicas);
}
