/*
 * A library with large tables, which maps memory as allocators do: looking for an allocator inside
 * it does not make its tables resident, and does not touch them once it has locked them away. What
 * it maps is known as that of the allocator whose message it holds.
 *
 * usage: test-tables LIBRARY
 */
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *library;

static long resident_kilobytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void map_with(void *handle)
{
    char *at = ((void *(*)(size_t))symbol_of(handle, "map_pages"))(65536);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(at + 100, &owner), 0);
    ck_assert_str_eq(owner.allocator, "mimalloc");
    ck_assert_ptr_nonnull(strstr(owner.object, "tables.so"));
}

START_TEST(tables_stay_where_they_are)
{
    const long before = resident_kilobytes();
    map_with(load(library, RTLD_NOW));
    const long grown = resident_kilobytes() - before;
    ck_assert_msg(grown < 4096, "resident memory grew by %ld KiB", grown);
}
END_TEST

START_TEST(locked_tables_are_not_read)
{
    void *handle = load(library, RTLD_NOW);
    ck_assert_int_eq(((int (*)(void))symbol_of(handle, "lock_tables"))(), 0);
    map_with(handle);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    need_found_objects();
    return RUN_TESTS("tables", tables_stay_where_they_are, locked_tables_are_not_read);
}
