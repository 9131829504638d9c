/*
 * hf_route_report() says what is so: sums and entries agree, a slot that it calls changed holds one
 * of libhomefree's functions, every other has a reason, and callers with an older, smaller struct
 * are served.
 *
 * usage: test-report USER
 */
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *user_path;

struct counted {
    uint64_t changed, refused, out_of_reach, of_user, linkers;
};

/* A slot holds an address, an entry of a symbol table an offset from its object's base. */
static bool leads_to_homefree(const void *slot)
{
    const char *value = *(char *const *)slot;
    Dl_info info;
    struct link_map *map;
    return strstr(object_of(value), "libhomefree") != NULL ||
           (dladdr1(slot, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 &&
            strstr(object_of(value + map->l_addr), "libhomefree") != NULL);
}

static void visit(const struct hf_route_entry *entry, void *context)
{
    struct counted *counted = context;
    ck_assert_uint_ge(entry->size, sizeof *entry);
    ck_assert_ptr_nonnull(entry->object);
    ck_assert_int_ne(entry->object[0], '\0');
    counted->of_user += strcmp(entry->object, user_path) == 0;
    switch (entry->state) {
    case HF_ROUTE_CHANGED:
        counted->changed++;
        ck_assert_ptr_nonnull(entry->function);
        ck_assert_ptr_nonnull(entry->slot);
        ck_assert_ptr_null(entry->reason);
        ck_assert_int_eq(entry->error, 0);
        /* The slot is in the object that is named, and leads to libhomefree. */
        if (entry->object[0] == '/')
            ck_assert_str_eq(object_of(entry->slot), entry->object);
        ck_assert_msg(leads_to_homefree(entry->slot), "%s of %s holds %s", entry->function,
                      entry->object, object_of(*(void *const *)entry->slot));
        break;
    case HF_ROUTE_REFUSED:
        counted->refused++;
        ck_assert_ptr_nonnull(entry->function);
        ck_assert_ptr_nonnull(entry->reason);
        ck_assert_uint_gt(strlen(entry->reason), 10);
        ck_assert_ptr_null(strchr(entry->reason, '\n'));
        break;
    case HF_ROUTE_OUT_OF_REACH:
        counted->out_of_reach++;
        ck_assert_ptr_nonnull(entry->reason);
        counted->linkers += strstr(entry->object, "ld-linux") != NULL;
        break;
    default:
        ck_abort_msg("unknown state: %d", (int)entry->state);
    }
}

static struct hf_route_report report(struct counted *counted)
{
    struct hf_route_report sums = {.size = sizeof sums};
    *counted = (struct counted){0};
    ck_assert_int_eq(hf_route_report(&sums, visit, counted), 0);
    ck_assert_uint_eq(sums.size, sizeof sums);
    return sums;
}

START_TEST(sums_and_entries_agree)
{
    struct counted counted;
    struct hf_route_report before = report(&counted);
    ck_assert_uint_gt(counted.changed, 5);
    ck_assert_uint_eq(before.changed, counted.changed);
    ck_assert_uint_eq(before.refused, counted.refused);
    ck_assert_uint_eq(before.out_of_reach, counted.out_of_reach);
    ck_assert_uint_ge(before.objects, 3);
    ck_assert_uint_ge(before.passes, 1);
    ck_assert_uint_gt(before.nanoseconds, 0);
    ck_assert_uint_eq(counted.of_user, 0);

    void *handle = load(user_path, RTLD_NOW);
    struct hf_route_report with = report(&counted);
    ck_assert_uint_eq(with.objects, before.objects + 1);
    ck_assert_uint_ge(with.changed, before.changed + 10);
    ck_assert_uint_eq(with.changed, counted.changed);
    ck_assert_uint_gt(with.passes, before.passes);
    ck_assert_uint_gt(counted.of_user, 0);

    /* A report changes nothing. */
    struct hf_route_report again = report(&counted);
    ck_assert_uint_eq(again.passes, with.passes);
    ck_assert_uint_eq(again.nanoseconds, with.nanoseconds);

    dlclose(handle);
    struct hf_route_report without = report(&counted);
    ck_assert_uint_eq(without.objects, before.objects);
    ck_assert_uint_eq(without.changed, before.changed);
    ck_assert_uint_eq(counted.of_user, 0);
}
END_TEST

START_TEST(the_linker_is_out_of_reach)
{
    struct counted counted;
    (void)report(&counted);
    ck_assert_uint_eq(counted.linkers, 1);
}
END_TEST

static void own_release(void *ptr)
{
    (void)ptr;
}

struct wanted {
    const void *slot;
    const char *reason;
    enum hf_route_state state;
    int seen;
};

static void find_slot(const struct hf_route_entry *entry, void *context)
{
    struct wanted *wanted = context;
    if (entry->slot != wanted->slot)
        return;
    wanted->seen++;
    wanted->state = entry->state;
    wanted->reason = entry->reason;
}

START_TEST(what_a_program_changed_is_refused)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    struct wanted wanted = {.slot = &user->table->for_program};
    ck_assert_int_eq(hf_route_report(NULL, find_slot, &wanted), 0);
    ck_assert_int_eq(wanted.seen, 1);
    ck_assert_int_eq(wanted.state, HF_ROUTE_CHANGED);
    user->table->for_program = own_release;
    wanted.seen = 0;
    ck_assert_int_eq(hf_route_report(NULL, find_slot, &wanted), 0);
    ck_assert_int_eq(wanted.seen, 1);
    ck_assert_int_eq(wanted.state, HF_ROUTE_REFUSED);
    ck_assert_ptr_nonnull(strstr(wanted.reason, "another function"));
}
END_TEST

START_TEST(callers_of_another_size)
{
    struct {
        struct hf_route_report report;
        uint64_t beyond;
    } larger = {.report = {.size = sizeof larger}, .beyond = 42};
    ck_assert_int_eq(hf_route_report(&larger.report, NULL, NULL), 0);
    ck_assert_uint_eq(larger.report.size, sizeof larger);
    ck_assert_uint_gt(larger.report.changed, 0);
    ck_assert_uint_eq(larger.beyond, 42);

    struct hf_route_report smaller = {
        .size = offsetof(struct hf_route_report, refused), .refused = 42, .out_of_reach = 43};
    ck_assert_int_eq(hf_route_report(&smaller, NULL, NULL), 0);
    ck_assert_uint_gt(smaller.changed, 0);
    ck_assert_uint_eq(smaller.refused, 42);
    ck_assert_uint_eq(smaller.out_of_reach, 43);

    struct hf_route_report none = {.size = sizeof(size_t)};
    ck_assert_int_eq(hf_route_report(&none, NULL, NULL), -EINVAL);
    none.size = 0;
    ck_assert_int_eq(hf_route_report(&none, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_route_report(NULL, NULL, NULL), 0);
}
END_TEST

START_TEST(routing_again_finds_nothing)
{
    ck_assert_int_eq(hf_route(), 0);
    errno = EDOM;
    ck_assert_int_eq(hf_route(), 0);
    ck_assert_int_eq(errno, EDOM);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&user_path);
    return RUN_TESTS("report", sums_and_entries_agree, the_linker_is_out_of_reach,
                     what_a_program_changed_is_refused, callers_of_another_size,
                     routing_again_finds_nothing);
}
