/*
 * Each interpreter's memory is told, and one with a limit is refused what is above it, while others
 * go on (homefree/interpreters.h).
 *
 * usage: test_memory LIBPYTHON
 */
#include "groups.h"

#include <homefree/limit.h>

#define MIB ((uint64_t)1 << 20)

static const char set_up[] = "kept = []\n"
                             "def keep(size): kept.append(bytearray(size)); return len(kept)\n";

static int limited(struct hf_interpreters **out, unsigned count, uint64_t most, const char *source,
                   char why[512])
{
    const struct hf_interpreters_options options = {
        .size = sizeof options, .count = count, .set_up = source, .memory_limit = most};
    return hf_interpreters_start(out, &options, why, 512);
}

static struct hf_interpreters *limited_group(unsigned count, uint64_t most)
{
    struct hf_interpreters *group = NULL;
    char why[512];
    const int error = limited(&group, count, most, set_up, why);
    ck_assert_msg(error == 0, "%s: %s", strerror(-error), why);
    return group;
}

struct wanted {
    int64_t id;
    struct hf_interpreter_memory found;
    unsigned rows;
};

static int note(void *context, const struct hf_interpreter_memory *memory)
{
    struct wanted *wanted = context;
    wanted->rows++;
    if (memory->id == wanted->id)
        wanted->found = *memory;
    return 0;
}

static struct hf_interpreter_memory memory_of(int64_t id)
{
    struct wanted wanted = {.id = id};
    ck_assert_int_eq(hf_interpreters_memory(note, &wanted), 0);
    ck_assert_uint_ne(wanted.found.size, 0);
    return wanted.found;
}

static int stop(void *context, const struct hf_interpreter_memory *memory)
{
    (void)memory;
    ++*(int *)context;
    return 7;
}

static int keep(struct hf_interpreters *group, uint64_t size)
{
    const struct hf_value argument = {.kind = HF_VALUE_INT, .as.integer = (int64_t)size};
    struct hf_value result;
    const int error = hf_interpreters_call(group, "__main__:keep", &argument, 1, &result);
    if (error == -EPROTO)
        ck_assert_ptr_nonnull(strstr(result.as.error->traceback, "MemoryError"));
    hf_value_clear(&result);
    return error;
}

START_TEST(one_is_refused_and_others_go_on)
{
    load_python();
    if (is_one_interpreter())
        return;
    struct hf_interpreters *group = limited_group(1, 40 * MIB);
    struct hf_interpreters *other = limited_group(1, 40 * MIB);
    struct hf_interpreters *free_one = group_of(1, set_up);
    const int64_t id = stats_of(group, 0).id;
    const struct hf_interpreter_memory before = memory_of(id);
    ck_assert(before.is_counted);
    ck_assert_uint_eq(before.limit, 40 * MIB);
    ck_assert_uint_eq(before.count, 1);
    ck_assert_int_eq(keep(group, 60 * MIB), -EPROTO);
    ck_assert_int_eq(keep(other, 10 * MIB), 0);
    ck_assert_int_eq(keep(free_one, 60 * MIB), 0);
    ck_assert_int_eq(keep(group, 10 * MIB), 0);
    const struct hf_interpreter_memory after = memory_of(id);
    ck_assert_uint_eq(after.refused, before.refused + 1);
    ck_assert_uint_ge(after.blocks, before.blocks + 10 * MIB);
    ck_assert_uint_ge(after.used, before.used + 10 * MIB);
    /* The traceback has had modules imported, in 3.14 for 3 MiB. */
    ck_assert_uint_le(after.used, before.used + 15 * MIB);
    ck_assert_uint_eq(after.live, after.objects + after.blocks + after.counted);
    ck_assert(!memory_of(stats_of(free_one, 0).id).is_counted);
    ck_assert_uint_ge(memory_of(stats_of(free_one, 0).id).blocks, 60 * MIB);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
    ck_assert_int_eq(hf_interpreters_end(free_one, -1), 0);
}
END_TEST

START_TEST(a_limit_changes)
{
    load_python();
    if (is_one_interpreter())
        return;
    struct hf_interpreters *group = limited_group(2, HF_LIMIT_NONE);
    const int64_t id = stats_of(group, 0).id;
    const struct hf_value argument = {.kind = HF_VALUE_INT, .as.integer = 30 << 20};
    ck_assert_int_eq(result_of(group, 0, "__main__:keep", &argument).as.integer, 1);
    ck_assert_int_eq(hf_interpreters_limit(id, MIB), -ENOMEM);
    ck_assert_uint_eq(memory_of(id).limit, MIB);
    ck_assert_uint_eq(memory_of(stats_of(group, 1).id).limit, HF_LIMIT_NONE);
    ck_assert_int_eq(hf_interpreters_limit(id, 100 * MIB), 0);
    ck_assert_int_eq(result_of(group, 0, "__main__:keep", &argument).as.integer, 2);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_int_eq(hf_interpreters_limit(id, MIB), -ENOENT);
}
END_TEST

/* What could not begin, and what has ended, leaves no limit behind. */
START_TEST(limits_come_back)
{
    struct hf_interpreters *group = NULL;
    char why[512];
    load_python();
    if (is_one_interpreter()) {
        ck_assert_int_eq(limited(&group, 1, MIB, NULL, why), -ENOSYS);
        return;
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(limited(&group, 1, MIB, NULL, why), -ENOMEM);
        ck_assert_ptr_nonnull(strstr(why, "before its first call"));
        ck_assert_int_eq(limited(&group, 1, HF_LIMIT_NONE, "1 / 0", why), -EPROTO);
        group = limited_group(1, 40 * MIB);
        ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    }
    struct hf_limit *limits[64];
    for (size_t i = 0; i < 64; i++)
        ck_assert_int_eq(hf_limit_begin(&limits[i], NULL, HF_LIMIT_NONE, NULL), 0);
    ck_assert_int_eq(limited(&group, 1, 40 * MIB, NULL, why), -EMFILE);
    ck_assert_ptr_nonnull(strstr(why, "64 limits"));
    for (size_t i = 0; i < 64; i++)
        ck_assert_int_eq(hf_limit_end(limits[i]), 0);
}
END_TEST

START_TEST(wrong_arguments)
{
    int calls = 0;
    load_python();
    ck_assert_int_eq(hf_interpreters_memory(NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_interpreters_memory(stop, &calls), 7);
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(hf_interpreters_limit(12345, MIB), -ENOENT);
    ck_assert_int_eq(hf_interpreters_limit(0, MIB), -ENOENT);
    ck_assert_int_eq(hf_interpreters_limit_object(0, NULL), -EINVAL);
    void *handle = dlopen(NULL, RTLD_NOW);
    ck_assert_int_eq(hf_interpreters_limit_object(0, handle), -ENOENT);
    dlclose(handle);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(one_is_refused_and_others_go_on, a_limit_changes, limits_come_back,
                     wrong_arguments);
}
