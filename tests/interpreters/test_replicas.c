/*
 * Replicas of a pickle and of what is in a package: one object in each interpreter, made when it is
 * first needed. Needs the package.
 *
 * usage: test_replicas LIBPYTHON
 */
#include "groups.h"
#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static struct hf_interpreters *group;
static struct hf_replica *replica;

static const char model[] = "import os\n"
                            "made, unpickled, broken, pipe = 0, 0, False, None\n"
                            "class Model:\n"
                            "    def __init__(self, base, memory=b''):\n"
                            "        self.base, self.memory = base, memoryview(memory)\n"
                            "    def __setstate__(self, state):\n"
                            "        global made, unpickled\n"
                            "        unpickled += 1\n"
                            "        if broken: raise ValueError('broken')\n"
                            "        if pipe: os.read(pipe, 1)\n"
                            "        made += 1\n"
                            "        self.__dict__.update(state)\n"
                            "        self.memory = bytes(self.memory)\n"
                            "    def __call__(self, x): return self.base + x\n"
                            "    def first(self): return self.memory[0]\n"
                            "    def __del__(self):\n"
                            "        global made\n"
                            "        made -= 'base' in self.__dict__\n"
                            "def new():\n"
                            "    global made\n"
                            "    made += 1\n"
                            "    return Model(7, bytearray(b'abc'))\n"
                            "def count(): return made\n"
                            "def turns(): return unpickled\n"
                            "def breaks(now):\n"
                            "    global broken\n"
                            "    broken = now\n"
                            "def waits(on):\n"
                            "    global pipe\n"
                            "    pipe = on\n";

/* A package with a model, that is written by the interpreter with the index 0. */
static const char package[] =
    "import os, sys, homefree.package\n"
    "def write(directory):\n"
    "    sys.path.insert(0, directory)\n"
    "    source = 'class Model:\\n'\n"
    "    source += '    def __call__(self, x): return self.base + x\\n'\n"
    "    with open(directory + '/shipped.py', 'w') as file:\n"
    "        file.write(source)\n"
    "    import shipped\n"
    "    model = shipped.Model()\n"
    "    model.base = 7\n"
    "    with homefree.package.Writer(directory + '/model.hfp') as writer:\n"
    "        writer.intern('shipped')\n"
    "        writer.add_pickle('models', 'model.pkl', model)\n"
    "        writer.add_text('models', 'notes.txt', 'none')\n"
    "    os.remove(directory + '/shipped.py')\n"
    "def cut(directory):\n"
    "    with open(directory + '/model.hfp', 'r+b') as file:\n"
    "        file.truncate(100)\n"
    "def remove(directory):\n"
    "    import shutil\n"
    "    shutil.rmtree(directory)\n";

static int64_t made_in(int index)
{
    return result_of(group, index, "__main__:count", NULL).as.integer;
}

/* In all interpreters of a group of two. */
static int64_t made_in_all(void)
{
    return made_in(0) + (is_one_interpreter() ? 0 : made_in(1));
}

/* Makes the replica of a pickle. Returns the index of the interpreter that has its object now. */
static int replicate(const struct hf_value *pickle, struct hf_value *error)
{
    const uint64_t before = stats_of(group, 0).calls;
    ck_assert_int_eq(hf_replica_from_pickle(&replica, group, pickle, error), 0);
    return stats_of(group, 0).calls == before;
}

/* Calls the replica in one interpreter of a group of two: the other one has a session. */
static int call_in(int index, const char *method, const struct hf_value *argument,
                   struct hf_value *result)
{
    struct hf_session *busy = session_of(group, 1 - index);
    int error = hf_replica_call(replica, method, argument, argument != NULL, result);
    hf_session_end(busy);
    return error;
}

static void is_nine(int index)
{
    struct hf_value two = {.kind = HF_VALUE_INT, .as.integer = 2}, result;
    int error = call_in(index, NULL, &two, &result);
    ck_assert_msg(error == 0, "%s",
                  result.kind == HF_VALUE_ERROR ? result.as.error->traceback : strerror(-error));
    ck_assert_int_eq(result.as.integer, 9);
}

static void assert_raised(int error, struct hf_value *value, const char *type)
{
    ck_assert_int_eq(error, -EPROTO);
    ck_assert_int_eq(value->kind, HF_VALUE_ERROR);
    ck_assert_str_eq(value->as.error->type, type);
    hf_value_clear(value);
}

START_TEST(a_pickle_is_unpickled_where_it_is_needed)
{
    struct hf_value error, result, odd = {.kind = HF_VALUE_INT};
    load_python();
    group = group_of(2, model);
    struct hf_value pickle = result_of(group, 0, "__main__:new", NULL);
    ck_assert_int_eq(pickle.kind, HF_VALUE_PICKLE);
    ck_assert_uint_eq(pickle.count, 2);
    ck_assert_int_eq(made_in(0), 0);
    const int eager = replicate(&pickle, &error), other = 1 - eager;
    /* The replica alone holds the first interpreter's memory now. */
    hf_value_clear(&pickle);
    ck_assert_int_eq(made_in_all(), 1);
    ck_assert_int_eq(made_in(eager), 1);
    is_nine(eager);
    ck_assert_int_eq(made_in_all(), 1);
    /* What fails is tried again by the next call. */
    struct hf_value truth = {.kind = HF_VALUE_BOOL, .as.truth = 1};
    (void)result_of(group, other, "__main__:breaks", &truth);
    assert_raised(call_in(other, NULL, &truth, &result), &result, "ValueError");
    assert_raised(call_in(other, NULL, &truth, &result), &result, "ValueError");
    truth.as.truth = 0;
    (void)result_of(group, other, "__main__:breaks", &truth);
    is_nine(other);
    is_nine(other);
    ck_assert_int_eq(made_in_all(), 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(call_in(i, "first", NULL, &result), 0);
        ck_assert_int_eq(result.as.integer, 'a');
    }
    ck_assert_uint_eq(stats_of(group, 0).held, 1);
    hf_replica_drop(replica);
    while (made_in_all() != 0 || stats_of(group, 0).held != 0)
        sched_yield();
    ck_assert_int_eq(hf_replica_from_pickle(&replica, group, &odd, &error), -EINVAL);
    odd = (struct hf_value){.kind = HF_VALUE_BYTES, .count = 3, .as.bytes = "abc"};
    assert_raised(hf_replica_from_pickle(&replica, group, &odd, &error), &error,
                  "_pickle.UnpicklingError");
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

static atomic_int answers;

static void *call_at_once(void *argument)
{
    struct hf_value two = {.kind = HF_VALUE_INT, .as.integer = 2}, result;
    ck_assert_int_eq(hf_replica_call(replica, NULL, &two, 1, &result), 0);
    ck_assert_int_eq(result.as.integer, 9);
    atomic_fetch_add(&answers, 1);
    return argument;
}

START_TEST(many_need_it_at_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int ends[2];
    struct hf_session *busy[THREADS];
    load_python();
    group = group_of(2, model);
    struct hf_value pickle = result_of(group, 0, "__main__:new", NULL);
    const int eager = replicate(&pickle, NULL), other = 1 - eager;
    hf_value_clear(&pickle);
    ck_assert_int_eq(pipe(ends), 0);
    const struct hf_value read_end = {.kind = HF_VALUE_INT, .as.integer = ends[0]};
    (void)result_of(group, other, "__main__:waits", &read_end);
    for (int i = 0; i < THREADS; i++)
        busy[i] = session_of(group, eager);
    const uint64_t before = stats_of(group, (unsigned)other).calls;
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_at_once, NULL), 0);
    while (stats_of(group, (unsigned)other).calls < before + THREADS)
        sched_yield();
    ck_assert_int_eq(atomic_load(&answers), 0);
    ck_assert_int_eq(write(ends[1], "1234", THREADS), THREADS);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    const int64_t turns = result_of(group, other, "__main__:turns", NULL).as.integer;
    ck_assert_int_eq(turns, is_one_interpreter() ? 2 : 1);
    for (int i = 0; i < THREADS; i++)
        hf_session_end(busy[i]);
    hf_replica_drop(replica);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

START_TEST(a_package_is_loaded_by_each)
{
    struct hf_value error;
    char path[sizeof scratch_directory + 16];
    make_scratch();
    const struct hf_value directory = {.kind = HF_VALUE_TEXT, .as.text = scratch_directory};
    load_python();
    group = group_of(2, package);
    (void)result_of(group, 0, "__main__:write", &directory);
    ck_assert_int_eq(chdir(scratch_directory), 0);
    ck_assert_int_eq(
        hf_replica_from_package(&replica, group, "model.hfp", "models", "model.pkl", &error), 0);
    ck_assert_int_eq(error.kind, HF_VALUE_NONE);
    ck_assert_int_eq(chdir("/"), 0);
    is_nine(0);
    is_nine(1);
    hf_replica_drop(replica);
    snprintf(path, sizeof path, "%s/model.hfp", scratch_directory);
    assert_raised(hf_replica_from_package(&replica, group, "model.hfp", "", "model.pkl", &error),
                  &error, "FileNotFoundError");
    assert_raised(hf_replica_from_package(&replica, group, path, NULL, "model.pkl", &error), &error,
                  "homefree.package.MissingMember");
    assert_raised(hf_replica_from_package(&replica, group, path, "models", "notes.txt", &error),
                  &error, "homefree.package.PackageError");
    (void)result_of(group, 0, "__main__:cut", &directory);
    assert_raised(hf_replica_from_package(&replica, group, path, "models", "model.pkl", &error),
                  &error, "homefree.package.DamagedPackage");
    ck_assert_int_eq(hf_replica_from_package(&replica, group, path, NULL, NULL, &error), -EINVAL);
    (void)result_of(group, 0, "__main__:remove", &directory);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(a_pickle_is_unpickled_where_it_is_needed, many_need_it_at_once,
                     a_package_is_loaded_by_each);
}
