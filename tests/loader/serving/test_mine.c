/*
 * A program's own tc_delete(struct tc *), mi_free(node), free_sized(pool, offset, size): names that
 * allocators use, and that anybody may use. They are called with what they are given, also where
 * that is a block of the heap, which nobody frees.
 *
 * usage: test-mine LIBHOMEFREE MINE MINE-USER
 */
#include "mine.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdlib.h>
#include <string.h>

static const char *homefree_path, *mine_path, *mine_user_path;

START_TEST(called_as_they_are)
{
    /* glibc 2.43 and later define free_sized() and free_aligned_sized(), which are found first. */
    int count = dlsym(RTLD_DEFAULT, "free_sized") == NULL ? 7 : 4;
    void *mine = load(mine_path, RTLD_NOW | RTLD_GLOBAL);
    const struct mine_call *(*last)(void) =
        (const struct mine_call *(*)(void))symbol_of(mine, "mine_last");
    long (*call)(int, const void *, size_t, size_t) =
        (long (*)(int, const void *, size_t, size_t))symbol_of(load(mine_user_path, RTLD_NOW),
                                                               "call_mine");
    void *handle = load(homefree_path, RTLD_NOW);
    void *(*heap_malloc)(size_t) = (void *(*)(size_t))symbol_of(handle, "hf_malloc");
    void (*heap_free)(void *) = (void (*)(void *))symbol_of(handle, "hf_free");
    void *blocks[] = {heap_malloc(1 << 20), malloc(100)};
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < 2; k++) {
            strcpy(blocks[k], "content");
            size_t before = last()->count;
            ck_assert_int_eq(call(i, blocks[k], 17, 23), (long)before + 1);
            ck_assert_ptr_eq(last()->first, blocks[k]);
            if (i >= 4) {
                ck_assert_uint_eq(last()->second, 17);
                ck_assert_uint_eq(last()->third, 23);
            }
            ck_assert_str_eq(blocks[k], "content");
        }
    heap_free(blocks[0]);
    free(blocks[1]);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path, &mine_path, &mine_user_path);
    return RUN_TESTS("mine", called_as_they_are);
}
