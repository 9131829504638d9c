/* What a watch says, for tests that ask it themselves. */
#ifndef HOMEFREE_TESTS_CHECK_WATCHING_H
#define HOMEFREE_TESTS_CHECK_WATCHING_H

#include <check.h>
#include <homefree/homefree.h>
#include <string.h>

static inline struct hf_watch *begin(size_t capacity)
{
    struct hf_watch *watch = NULL;
    ck_assert_int_eq(hf_watch_begin(&watch, capacity), 0);
    return watch;
}

static inline struct hf_watch_report report_of(struct hf_watch *watch)
{
    struct hf_watch_report report = {.size = sizeof report};
    ck_assert_int_eq(hf_watch_report(watch, &report, NULL, NULL), 0);
    return report;
}

static inline struct hf_watch_block block_at(struct hf_watch *watch, const void *address)
{
    struct hf_watch_block block = {.size = sizeof block};
    ck_assert_int_eq(hf_watch_at(watch, address, &block), 0);
    return block;
}

struct wanted_crossing {
    const char *allocated_by, *freed_by;
    uint64_t count, bytes;
};

static inline void add_wanted(const struct hf_crossing *crossing, void *context)
{
    struct wanted_crossing *wanted = context;
    if (strstr(crossing->allocated_by, wanted->allocated_by) == NULL ||
        strstr(crossing->freed_by, wanted->freed_by) == NULL)
        return;
    wanted->count += crossing->count;
    wanted->bytes += crossing->bytes;
}

static inline struct wanted_crossing crossed(struct hf_watch *watch, const char *allocated_by,
                                             const char *freed_by)
{
    struct wanted_crossing wanted = {allocated_by, freed_by, 0, 0};
    ck_assert_int_eq(hf_watch_report(watch, NULL, add_wanted, &wanted), 0);
    return wanted;
}

/* Asserts that `count` blocks of `bytes` bytes together crossed from one object to the other. */
static inline void assert_crossed(struct hf_watch *watch, const char *allocated_by,
                                  const char *freed_by, uint64_t count, uint64_t bytes)
{
    struct wanted_crossing seen = crossed(watch, allocated_by, freed_by);
    ck_assert_uint_eq(seen.count, count);
    ck_assert_uint_eq(seen.bytes, bytes);
}

#endif
