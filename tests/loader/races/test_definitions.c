/*
 * What libc and the C++ runtime define leads to the stubs, for whoever asks the loader; what asks
 * homefree still hears of the originals. A runtime whose symbol table shares a page with code is
 * left alone, and the report says so. One that shares only a segment with it is not, because GNU's
 * linker makes every library so on aarch64.
 *
 * usage: test-definitions USER RUNTIME RUNTIME-BESIDE-CODE CROWDED-RUNTIME
 */
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <homefree/homefree.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *user_path, *runtime_path, *beside_path, *crowded_path;

static bool is_stub(const void *address)
{
    return strstr(object_of(address), "libhomefree") != NULL;
}

START_TEST(the_loader_answers_with_stubs)
{
    static const char *const routed[] = {"free", "realloc", "mmap", "munmap"};
    void *libc = load("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; i < sizeof routed / sizeof routed[0]; i++)
        ck_assert_msg(is_stub(dlsym(libc, routed[i])), "%s", routed[i]);
    ck_assert(is_stub(dlsym(RTLD_NEXT, "free")));
    if (dlvsym(libc, "dlopen", "GLIBC_2.34") != NULL) { /* before, it was in another library */
        ck_assert(is_stub(dlsym(libc, "dlopen")));
        ck_assert(is_stub(dlvsym(libc, "dlopen", "GLIBC_2.34")));
#if defined(__x86_64__)
        ck_assert(is_stub(dlvsym(libc, "dlopen", "GLIBC_2.2.5")));
#else
        ck_assert(is_stub(dlvsym(libc, "dlopen", "GLIBC_2.17")));
#endif
    }
    /* Allocating functions are never changed. */
    ck_assert(!is_stub(dlsym(libc, "malloc")));
    ck_assert(!is_stub(dlsym(libc, "calloc")));
}
END_TEST

START_TEST(the_tables_are_read_only)
{
    static const char *const libraries[] = {"libc.so.6", "libstdc++.so.6"};
    for (size_t i = 0; i < 2; i++) {
        const struct link_map *map = load(libraries[i], RTLD_LAZY);
        for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_SYMTAB) {
                const char *found = permissions_at((const void *)entry->d_un.d_ptr);
                /* The first page may have none of the entries that are changed. */
                ck_assert(strcmp(found, "r--p") == 0 || strcmp(found, "r-xp") == 0);
            }
    }
    assert_relro_is_read_only();
}
END_TEST

START_TEST(a_runtime_that_comes_later)
{
    void *runtime = load("libstdc++.so.6", RTLD_NOW);
    void (*release)(void *) = (void (*)(void *))symbol_of(runtime, "_ZdlPv");
    ck_assert(is_stub((void *)release));
    void *block = hf_malloc(1 << 20);
    struct hf_owner owner = {.size = sizeof owner};
    release(block);
    ck_assert_int_eq(hf_owner_of(block, &owner), 0);
    ck_assert_ptr_null(owner.block);
    release(malloc(10));
}
END_TEST

/* In another namespace: libc's symbol table there has stubs over its own free(), and its dlopen()
 * is left alone, because it loads into its caller's namespace. */
START_TEST(another_namespace)
{
    if (!objects_are_found())
        return;
    void *handle = dlmopen(LM_ID_NEWLM, user_path, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    const struct user *user = ((user_function *)symbol_of(handle, "user"))();
    user->release(user->acquire(100));
    user->release(hf_malloc(100));
    ck_assert_int_ge(hf_route(), 0);
    Lmid_t id;
    ck_assert_int_eq(dlinfo(handle, RTLD_DI_LMID, &id), 0);
    void *libc = dlmopen(id, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(libc);
    ck_assert(is_stub(dlsym(libc, "free")));
    ck_assert_ptr_ne(dlsym(libc, "free"), dlsym(RTLD_NEXT, "free"));
    ck_assert(!is_stub(dlsym(libc, "dlopen")));
    dlclose(libc);
    dlclose(handle);
}
END_TEST

START_TEST(again_and_again)
{
    if (!objects_are_found())
        return;
    for (int i = 0; i < 20; i++) {
        void *handle = dlmopen(LM_ID_NEWLM, user_path, RTLD_NOW);
        ck_assert_msg(handle != NULL, "%s", dlerror());
        const struct user *user = ((user_function *)symbol_of(handle, "user"))();
        user->release(hf_malloc(100));
        user->release(user->acquire(100));
        dlclose(handle);
    }
}
END_TEST

struct seen {
    const char *object;
    int changed, refused;
    const void *entry;
    const char *reason;
};

static void look(const struct hf_route_entry *entry, void *context)
{
    struct seen *seen = context;
    if (entry->function == NULL || strcmp(entry->function, "_ZdlPv") != 0 ||
        strstr(entry->object, seen->object) == NULL)
        return;
    seen->changed += entry->state == HF_ROUTE_CHANGED;
    seen->refused += entry->state == HF_ROUTE_REFUSED;
    seen->entry = entry->slot;
    seen->reason = entry->reason;
}

START_TEST(beside_code)
{
    void *runtime = load(runtime_path, RTLD_NOW), *beside = load(beside_path, RTLD_NOW);
    ck_assert(is_stub(dlsym(runtime, "_ZdlPv")));
    struct seen seen = {.object = "runtime-apart"};
    ck_assert_int_eq(hf_route_report(NULL, look, &seen), 0);
    ck_assert_int_eq(seen.changed, 1);
    seen = (struct seen){.object = "runtime-beside"};
    ck_assert_int_eq(hf_route_report(NULL, look, &seen), 0);
    ck_assert_int_eq(seen.changed, 0);
    ck_assert_int_eq(seen.refused, 1);
    ck_assert_ptr_nonnull(strstr(seen.reason, "shares a page with code"));
    ck_assert_str_eq(permissions_at(dlsym(beside, "anything")), "r-xp");
    /* dlsym() of a routed name still returns a stub, because the dlopen hooks answer it. */
    void (*release)(void *) = (void (*)(void *))dlsym(beside, "_ZdlPv");
    release(hf_malloc(100));
}
END_TEST

START_TEST(in_pages_without_code)
{
    void *crowded = load(crowded_path, RTLD_NOW);
    struct seen seen = {.object = "runtime-crowded"};
    ck_assert_int_eq(hf_route_report(NULL, look, &seen), 0);
    ck_assert_int_eq(seen.changed, 1);
    ck_assert_str_eq(permissions_at(seen.entry), "r--p");
    int (*anything)(void) = (int (*)(void))symbol_of(crowded, "anything");
    ck_assert_str_eq(permissions_at((const void *)anything), "r-xp");
    ck_assert_int_eq(anything(), 42);
    void (*release)(void *) = (void (*)(void *))symbol_of(crowded, "_ZdlPv");
    ck_assert(is_stub((const void *)release));
    release(hf_malloc(100));
}
END_TEST

/* dladdr() has no name for a stub, which free() now leads to. That was never promised, and must not
 * crash. */
START_TEST(names_of_addresses)
{
    Dl_info info;
    void *address = dlsym(RTLD_NEXT, "free");
    ck_assert_int_ne(dladdr(address, &info), 0);
    ck_assert_ptr_nonnull(strstr(info.dli_fname, "libhomefree"));
    char **names = backtrace_symbols(&address, 1);
    ck_assert_ptr_nonnull(names);
    ck_assert_ptr_nonnull(strstr(names[0], "libhomefree"));
    free(names);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&user_path, &runtime_path, &beside_path, &crowded_path);
    return RUN_TESTS("definitions", the_loader_answers_with_stubs, the_tables_are_read_only,
                     a_runtime_that_comes_later, another_namespace, again_and_again, beside_code,
                     in_pages_without_code, names_of_addresses);
}
