/*
 * Objects loaded later are routed as they are loaded, whoever loads them, and dlsym() returns
 * functions that send heap pointers home.
 *
 * usage: test-dlopen-hooks USER OPENER
 */
#include "heap.h"
#include "modules/opener.h"
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *user_path, *opener_path;

enum { LARGE = 1 << 20 };

static void assert_goes_home(void (*release)(void *ptr))
{
    void *block = hf_malloc(LARGE);
    release(block);
    struct hf_owner owner = {.size = sizeof owner};
    hf_owner_of(block, &owner);
    ck_assert_ptr_null(owner.block);
    release(malloc(LARGE));
}

static void assert_user_is_routed(const struct user *user)
{
    assert_goes_home(user->release);
    assert_goes_home(user->constant->release);
    void *block = user->resize(hf_malloc(10), LARGE);
    ck_assert(hf_owns(block));
    user->release(block);
}

static const struct user *user_of(void *handle)
{
    ck_assert_msg(handle != NULL, "%s", dlerror());
    return ((user_function *)symbol_of(handle, "user"))();
}

START_TEST(loaded_by_the_program)
{
    const int modes[] = {RTLD_LAZY | RTLD_LOCAL, RTLD_NOW | RTLD_GLOBAL};
    for (int i = 0; i < 2; i++) {
        void *handle = load(user_path, modes[i]);
        assert_user_is_routed(user_of(handle));
        dlclose(handle);
    }
}
END_TEST

START_TEST(loaded_by_another_module)
{
    const struct opener *opener =
        ((opener_function *)symbol_of(load(opener_path, RTLD_LAZY), "opener"))();
    void *handle = opener->open(user_path, RTLD_LAZY);
    assert_user_is_routed(user_of(handle));
    opener->close(handle);
}
END_TEST

START_TEST(unloaded_and_loaded_again)
{
    /* The loader maps it at the same place, unrouted as it was before. */
    const void *place = NULL;
    int same = 0;
    for (int i = 0; i < 20; i++) {
        void *handle = load(user_path, i % 2 == 0 ? RTLD_LAZY : RTLD_NOW);
        const struct user *user = user_of(handle);
        same += user == place;
        place = user;
        assert_user_is_routed(user);
        ck_assert_int_eq(dlclose(handle), 0);
        ck_assert_ptr_null(dlopen(user_path, RTLD_LAZY | RTLD_NOLOAD));
    }
    ck_assert_int_gt(same, 0);
}
END_TEST

START_TEST(a_copy_of_the_file_is_another_module)
{
    /* The same after another module was unloaded, so that the place is a used one. */
    char directory[] = "/tmp/homefree-dlopen-hooks-XXXXXX", path[64], command[256];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    void *first = load(user_path, RTLD_LAZY);
    dlclose(first);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/copy-%d.so", directory, i);
        snprintf(command, sizeof command, "cp '%s' '%s'", user_path, path);
        ck_assert_int_eq(system(command), 0);
        assert_user_is_routed(user_of(load(path, RTLD_LAZY)));
        ck_assert_int_eq(unlink(path), 0);
    }
    ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

START_TEST(dlsym_answers_with_routed_functions)
{
    void *libc = load("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *user = load(user_path, RTLD_LAZY);
    const struct opener *opener =
        ((opener_function *)symbol_of(load(opener_path, RTLD_LAZY), "opener"))();
    void *const handles[] = {RTLD_DEFAULT, libc, user, dlopen(NULL, RTLD_LAZY)};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        assert_goes_home((void (*)(void *))dlsym(handles[i], "free"));
        assert_goes_home((void (*)(void *))opener->symbol(handles[i], "free"));
        void *(*resize)(void *, size_t) =
            (void *(*)(void *, size_t))opener->symbol(handles[i], "realloc");
        void *block = resize(hf_malloc(10), LARGE);
        ck_assert(hf_owns(block));
        ck_assert_uint_ge(((size_t(*)(void *))dlsym(handles[i], "malloc_usable_size"))(block),
                          LARGE);
        free(block);
    }
    /* A module that does not refer to dlsym by name gets what its slot would hold. */
    ck_assert_ptr_eq(hf_dlsym(), dlsym);
    ck_assert_ptr_nonnull(strstr(object_of((void *)hf_dlsym()), "libhomefree"));
#if defined(__x86_64__)
    assert_goes_home((void (*)(void *))dlvsym(libc, "free", "GLIBC_2.2.5"));
    assert_goes_home(
        (void (*)(void *))opener->versioned_symbol(RTLD_DEFAULT, "free", "GLIBC_2.2.5"));
    ck_assert_ptr_null(opener->versioned_symbol(RTLD_DEFAULT, "free", "GLIBC_0.0"));
#endif
    /* Allocating functions are not routed. */
    ck_assert_ptr_null(strstr(object_of(dlsym(RTLD_DEFAULT, "malloc")), "libhomefree"));
    /* A name that is not routed, and one that does not exist. */
    ck_assert_ptr_eq(dlsym(libc, "getpid"), (void *)getpid);
    ck_assert_ptr_null(dlsym(user, "tc_free"));
    ck_assert_ptr_nonnull(strstr(dlerror(), "tc_free"));
}
END_TEST

START_TEST(a_namespace_of_its_own)
{
    if (!objects_are_found())
        return;
    /* The module brings a second libc with a heap of its own. */
    const struct opener *opener =
        ((opener_function *)symbol_of(load(opener_path, RTLD_LAZY), "opener"))();
    for (int by_module = 0; by_module < 2; by_module++) {
        void *handle = by_module ? opener->open_in_new_namespace(user_path, RTLD_LAZY)
                                 : dlmopen(LM_ID_NEWLM, user_path, RTLD_LAZY);
        const struct user *user = user_of(handle);
        ck_assert_int_ge(hf_route(), 0);
        void *block = hf_malloc(LARGE);
        user->release(block);
        assert_gone(block);
        block = user->resize(hf_malloc(10), LARGE);
        ck_assert(hf_owns(block));
        ck_assert_uint_ge(user->measure(block), LARGE);
        user->constant->release(block);
        /* Blocks of that libc go back to it. */
        for (int i = 0; i < 1000; i++)
            user->release(user->resize(user->acquire(100), (size_t)i * 100 + 1));
        /* That libc's free() sends the heap's blocks home. */
        void *libc = dlmopen(LM_ID_BASE, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
        void (*second)(void *) = (void (*)(void *))symbol_of(handle, "free");
        ck_assert_ptr_ne((void *)second, dlsym(libc, "free"));
        second(hf_malloc(100));
        dlclose(handle);
    }
    ck_assert_int_ge(hf_route(), 0);
    free(hf_malloc(10));
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&user_path, &opener_path);
    guard_against_hanging(100);
    return RUN_TESTS("dlopen hooks", loaded_by_the_program, loaded_by_another_module,
                     unloaded_and_loaded_again, a_copy_of_the_file_is_another_module,
                     dlsym_answers_with_routed_functions, a_namespace_of_its_own);
}
