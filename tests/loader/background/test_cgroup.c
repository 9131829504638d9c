/*
 * Which limit counts, and when pressure is told. The kernel's files are a double: a directory that
 * this program fills, put in front of each path.
 */
#include "death.h"
#include "suite.h"

#include "satellites/background/cgroup.h"
#include "satellites/background/gauge.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static char root[64];

static void put(const char *path, const char *text)
{
    char whole[PATH_MAX];
    const int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    must(length > 0 && (size_t)length < sizeof whole);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "we");
    must(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void begin(void)
{
    (void)snprintf(root, sizeof root, "/tmp/homefree-cgroup-XXXXXX");
    must(mkdtemp(root) != NULL);
}

static void end(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    must(system(command) == 0);
}

static struct hf_cgroup_use read_use(void)
{
    struct hf_cgroup cgroup;
    struct hf_cgroup_use use;
    hf_cgroup_find(root, false, &cgroup);
    ck_assert(cgroup.found && hf_cgroup_read(&cgroup, &use));
    return use;
}

#define MOUNTS_2                            \
    "22 1 0:20 / /proc rw - proc proc rw\n" \
    "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define TREE "/sys/fs/cgroup"

START_TEST(the_nearest_limit_up_the_tree_counts)
{
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", MOUNTS_2);
    put(TREE "/a/b/c/memory.max", "max\n");
    put(TREE "/a/b/c/memory.high", "419430400\n"); /* 400 MiB, half of it used */
    put(TREE "/a/b/c/memory.current", "209715200\n");
    put(TREE "/a/b/memory.max", "max\n");
    put(TREE "/a/b/memory.high", "max\n");
    put(TREE "/a/b/memory.current", "314572800\n");
    put(TREE "/a/memory.max", "524288000\n"); /* 500 MiB, 480 of them used, 20 for idle files */
    put(TREE "/a/memory.high", "max\n");
    put(TREE "/a/memory.current", "503316480\n");
    put(TREE "/a/memory.stat", "anon 1\ninactive_anon 7\ninactive_file 20971520\nfile 1\n");
    put(TREE "/memory.current", "999999999999\n");
    const struct hf_cgroup_use use = read_use();
    ck_assert_uint_eq(use.limit, 500 * MIB);
    ck_assert_uint_eq(use.usage, 460 * MIB);
    ck_assert_uint_eq(hf_cgroup_per_cent(&use), 92);
}
END_TEST

START_TEST(high_comes_before_max)
{
    put("/proc/self/cgroup", "0::/a\n");
    put("/proc/self/mountinfo", MOUNTS_2);
    put(TREE "/a/memory.max", "524288000\n");
    put(TREE "/a/memory.high", "104857600\n");
    put(TREE "/a/memory.current", "1048576\n");
    ck_assert_uint_eq(read_use().limit, 100 * MIB);
}
END_TEST

START_TEST(version_1_is_read_if_it_has_memory)
{
    put("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a b\n0::/\n");
    put("/proc/self/mountinfo",
        MOUNTS_2 "31 1 0:27 / /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,cpu,memory\n");
    put(TREE "/mem ory/a b/memory.limit_in_bytes", "104857600\n");
    put(TREE "/mem ory/a b/memory.usage_in_bytes", "94371840\n");
    put(TREE "/mem ory/a b/memory.stat", "inactive_file 99\ntotal_inactive_file 10485760\n");
    put(TREE "/mem ory/memory.limit_in_bytes", "9223372036854771712\n");
    const struct hf_cgroup_use use = read_use();
    ck_assert_uint_eq(use.limit, 100 * MIB);
    ck_assert_uint_eq(use.usage, 80 * MIB);
}
END_TEST

/* A container that sees its own part of the tree, by the path that the system knows it by. */
START_TEST(a_container_sees_its_own_part)
{
    put("/proc/self/cgroup", "0::/docker/1234\n");
    put("/proc/self/mountinfo", "30 1 0:26 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put(TREE "/memory.max", "1048576\n");
    put(TREE "/memory.current", "4096\n");
    ck_assert_uint_eq(read_use().limit, MIB);
    put("/proc/self/cgroup", "0::/../other\n");
    ck_assert_uint_eq(read_use().limit, MIB);
}
END_TEST

START_TEST(no_limit_is_none)
{
    put("/proc/self/cgroup", "0::/a\n");
    put("/proc/self/mountinfo", MOUNTS_2);
    put(TREE "/a/memory.max", "max\n");
    put(TREE "/a/memory.current", "4096\n");
    const struct hf_cgroup_use use = read_use();
    ck_assert(use.limit == 0 && use.usage == 4096 && hf_cgroup_per_cent(&use) == 0);
}
END_TEST

START_TEST(files_that_make_no_sense_are_no_limit)
{
    static const char *const files[][2] = {
        {"", ""},
        {"\n", "\n"},
        {"0::", "1 2 3\n"},
        {"0::/a\n", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2"},
        {"0::/a\n", "30 1 0:26 / /sys/fs/cgroup rw cgroup2 cgroup2 rw\n"},
        {"no colon at all\n:\n::\n", MOUNTS_2},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct hf_cgroup cgroup;
        struct hf_cgroup_use use;
        put("/proc/self/cgroup", files[i][0]);
        put("/proc/self/mountinfo", files[i][1]);
        hf_cgroup_find(root, false, &cgroup);
        (void)hf_cgroup_read(&cgroup, &use);
        ck_assert_uint_eq(use.limit, 0);
    }
    char *whole = malloc(20000);
    must(whole != NULL);
    memset(whole, 'x', 20000);
    memcpy(whole, "0::/", 4);
    whole[19999] = '\0';
    put("/proc/self/cgroup", whole);
    free(whole);
    struct hf_cgroup cgroup;
    hf_cgroup_find(root, false, &cgroup);
    ck_assert(!cgroup.found || cgroup.count == 0);
}
END_TEST

/* ---- when it is told ---- */

#define SECOND HF_GAUGE_FIRST

static bool tells(struct hf_gauge *gauge, unsigned usage, uint64_t seconds)
{
    const struct hf_cgroup_use use = {.usage = usage, .limit = 1000};
    return hf_gauge_tells(gauge, &use, false, (100 + seconds) * SECOND);
}

START_TEST(while_it_stays_it_is_told_ever_more_seldom)
{
    struct hf_gauge gauge = {.per_cent = 90};
    unsigned told = 0;
    ck_assert(!tells(&gauge, 899, 0) && tells(&gauge, 900, 0));
    for (uint64_t seconds = 1; seconds < 600; seconds++)
        told += tells(&gauge, 950, seconds);
    /* After 1, 2, 4, … 64 seconds, and so on. */
    ck_assert_uint_ge(told, 12);
    ck_assert_uint_le(told, 16);
}
END_TEST

START_TEST(once_it_was_gone_it_is_told_again)
{
    struct hf_gauge gauge = {.per_cent = 90};
    for (uint64_t seconds = 0; seconds < 100; seconds++)
        (void)tells(&gauge, 950, seconds);
    ck_assert(!tells(&gauge, 880, 101) && !tells(&gauge, 900, 102)); /* not well below */
    ck_assert(!tells(&gauge, 840, 103) && tells(&gauge, 900, 104));
    ck_assert(!tells(&gauge, 840, 104) && !tells(&gauge, 900, 104)); /* not at once */
    ck_assert(tells(&gauge, 900, 105));
}
END_TEST

START_TEST(threads_that_wait_are_pressure)
{
    struct hf_gauge gauge = {.per_cent = 90};
    const struct hf_cgroup_use little = {.usage = 1, .limit = 1000}, none = {.usage = 1};
    ck_assert(hf_gauge_tells(&gauge, &little, true, 100 * SECOND));
    ck_assert(!hf_gauge_tells(&gauge, &none, true, 100 * SECOND + 1));
    ck_assert(hf_gauge_tells(&gauge, &none, true, 103 * SECOND));
    ck_assert(!hf_gauge_tells(&gauge, &none, false, 200 * SECOND));
}
END_TEST

int main(void)
{
    TCase *files = NEW_CASE("files", the_nearest_limit_up_the_tree_counts, high_comes_before_max,
                            version_1_is_read_if_it_has_memory, a_container_sees_its_own_part,
                            no_limit_is_none, files_that_make_no_sense_are_no_limit);
    tcase_add_checked_fixture(files, begin, end);
    return RUN_CASES(__FILE__, files,
                     NEW_CASE("gauge", while_it_stays_it_is_told_ever_more_seldom,
                              once_it_was_gone_it_is_told_again, threads_that_wait_are_pressure));
}
