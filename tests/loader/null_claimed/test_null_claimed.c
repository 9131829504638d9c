/*
 * NULL belongs to no allocator, even where one says so: mi_is_in_heap_region(NULL) is true in
 * mimalloc 3.0 (Debian 13's), and a realloc(NULL, size) that libc serves must not become
 * mimalloc's. Its block would be freed by libc's own free in a module that is bound to libc.
 *
 * usage: test-null-claimed CLAIMS-NULL USER
 */
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdlib.h>

static const char *claims_path, *user_path;

START_TEST(null_is_nobodys)
{
    void *handle = load(claims_path, RTLD_NOW | RTLD_LOCAL);
    const int *calls = symbol_of(handle, "mi_calls");
    const struct user *user = load_user(user_path, RTLD_LAZY);

    char *block = user->resize(NULL, 100);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_ge(user->measure(block), 100);
    user->release(block);
    block = user->resize_array(NULL, 10, 10);
    ck_assert_ptr_nonnull(block);
    user->release(block);
    block = realloc(NULL, 100);
    ck_assert_ptr_nonnull(block);
    free(block);
    user->release(NULL);
    free(NULL);
    ck_assert_uint_eq(user->measure(NULL), 0);

    block = hf_realloc(NULL, 100);
    ck_assert(hf_owns(block));
    hf_free(block);
    hf_free(NULL);
    ck_assert_uint_eq(hf_usable_size(NULL), 0);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert(hf_owner_of(NULL, &owner) != 0 || owner.kind != HF_OWNER_ALLOCATOR);
    ck_assert_int_eq(*calls, 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&claims_path, &user_path);
    return RUN_TESTS("null_claimed", null_is_nobodys);
}
