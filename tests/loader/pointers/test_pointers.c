/*
 * The known allocators of the machine, all in one process, and every kind of pointer: whoever is
 * asked about an address, nobody reads memory that is not there, and each block goes home. oneTBB's
 * function that recognises its blocks reads up to 16 KiB in front of the pointer.
 *
 * usage: test-pointers ORDER LIBHOMEFREE MIMALLOC USER [MODULE...]
 *   ORDER        before: the allocators are there, and have allocated, before libhomefree; or after
 *   LIBHOMEFREE  it may be preloaded
 *   MODULE       a module with an allocator hidden inside: ALLOCATOR=PATH
 */
#include "../modules/embedded.h"
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *order, *homefree_path, *mimalloc, *user_path;
static char **modules;

enum { KNOWN = 16, EARLY = 16, AREA = 1 << 20, LARGE = 3 << 20, SLAB = 16 << 10 };
#define LIBCS 64

/* An allocator of the process, or libc's. */
struct known {
    const char *name;  /* as homefree calls it; NULL: libc */
    const char *where; /* its object */
    void *(*malloc)(size_t size);
    void *(*memalign)(size_t alignment, size_t size); /* may be NULL */
    void *handle;                                     /* NULL: it has no functions to look up */
    char free_name[32];
    void (*free)(void *ptr); /* as found once libhomefree is there */
    bool silent; /* nobody can ask it about memory that it had before libhomefree came */
    char *early[EARLY];
};
static struct known known[KNOWN];
static size_t known_count;

static const struct user *user;
static int (*owner_of)(const void *ptr, struct hf_owner *out);
static void (*free_any)(void *ptr);
static size_t (*measure_any)(const void *ptr);

static size_t size_of(size_t i)
{
    static const size_t sizes[] = {1, 24, 100, 1000, 4096, 5000, 16384, 100000, 1 << 20, 9 << 20};
    return sizes[i % (sizeof sizes / sizeof sizes[0])];
}

/* Returns the library's handle; NULL if it is not installed. */
static void *add_library(const char *name, const char *library, const char *prefix, bool silent)
{
    char symbol[64];
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        printf("not installed: %s\n", library);
        return NULL;
    }
    struct known *it = &known[known_count++];
    *it = (struct known){.name = name, .where = library, .handle = handle, .silent = silent};
    snprintf(symbol, sizeof symbol, "%smalloc", prefix);
    it->malloc = (void *(*)(size_t))symbol_of(handle, symbol);
    snprintf(it->free_name, sizeof it->free_name, "%sfree", prefix);
    static const char *const aligned[] = {"memalign", "aligned_alloc"};
    /* tcmalloc's debugging build disowns large aligned blocks (gperftools, debugallocation.cc). */
    const bool aligns = strstr(library, "_debug") == NULL;
    for (size_t i = 0; i < 2 && it->memalign == NULL && aligns; i++) {
        snprintf(symbol, sizeof symbol, "%s%s", prefix, aligned[i]);
        it->memalign = (void *(*)(size_t, size_t))dlsym(handle, symbol);
    }
    return handle;
}

/* Two tcmallocs in one process share some of their variables (STB_GNU_UNIQUE). From 2.16 on the
 * second one dies of that while it is loaded, whether homefree is there or not. */
static bool goes_with_its_like(void *tcmalloc)
{
    const char *(*version)(int *major, int *minor, const char **patch) = NULL;
    if (tcmalloc != NULL)
        version = (const char *(*)(int *, int *, const char **))dlsym(tcmalloc, "tc_version");
    int major = 0;
    int minor = 0;
    const char *patch = NULL;
    if (version != NULL)
        version(&major, &minor, &patch);
    return major < 2 || (major == 2 && minor < 16);
}

static void add_module(char *argument)
{
    char *equals = strchr(argument, '=');
    *equals = '\0';
    const struct embedded *embedded =
        ((embedded_function *)symbol_of(load(equals + 1, RTLD_NOW), "embedded"))();
    known[known_count++] = (struct known){
        .name = argument, .where = strrchr(equals + 1, '/'), .malloc = embedded->acquire};
}

static void load_allocators(void)
{
    void *libc = load("libc.so.6", RTLD_NOW);
    known[known_count++] = (struct known){
        .where = "libc.so.6",
        .malloc = (void *(*)(size_t))symbol_of(libc, "__libc_malloc"),
        .memalign = (void *(*)(size_t, size_t))symbol_of(libc, "__libc_memalign"),
        .handle = libc,
        .free_name = "__libc_free",
    };
    add_library("tbbmalloc", "libtbbmalloc.so.2", "scalable_", true);
    add_library("jemalloc", "libjemalloc.so.2", "", false);
    void *tcmalloc = add_library("tcmalloc", "libtcmalloc_minimal.so.4", "tc_", false);
    if (goes_with_its_like(tcmalloc))
        add_library("tcmalloc", "libtcmalloc_minimal_debug.so.4", "tc_", false);
    add_library("mimalloc", mimalloc, "mi_", false);
    for (char **module = modules; *module != NULL; module++)
        add_module(*module);
    if (known_count < 3) {
        printf("no allocators are installed\n");
        exit(SKIPPED);
    }
    /* Large ones: memory below and above what the tests map. */
    for (size_t k = 0; k < known_count; k++)
        for (size_t i = 0; i < EARLY; i++)
            known[k].early[i] = memset(known[k].malloc(size_of(i)), 1, size_of(i));
}

static void set_up(void)
{
    if (known_count != 0)
        return; /* with CK_FORK=no */
    if (strcmp(order, "before") == 0)
        load_allocators();
    user = load_user(user_path, RTLD_LAZY);
    void *handle = load(homefree_path, RTLD_NOW);
    owner_of = (int (*)(const void *, struct hf_owner *))symbol_of(handle, "hf_owner_of");
    free_any = (void (*)(void *))symbol_of(handle, "hf_free");
    measure_any = (size_t(*)(const void *))symbol_of(handle, "hf_usable_size");
    if (strcmp(order, "after") == 0)
        load_allocators();
    for (size_t k = 0; k < known_count; k++)
        if (known[k].handle != NULL)
            known[k].free = (void (*)(void *))symbol_of(known[k].handle, known[k].free_name);
}

static struct hf_owner owner_at(const void *address)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(owner_of(address, &owner), 0);
    return owner;
}

/* The owner is the right one, or, where nobody can tell, none. */
static void assert_its(const struct known *it, const void *block, bool certain)
{
    const struct hf_owner owner = owner_at(block);
    if (it->name == NULL) {
        ck_assert_int_ne(owner.kind, HF_OWNER_ALLOCATOR);
        return;
    }
    if (owner.kind != HF_OWNER_ALLOCATOR && !certain)
        return;
    ck_assert_msg(owner.kind == HF_OWNER_ALLOCATOR, "%p of %s: kind %d", block, it->where,
                  (int)owner.kind);
    ck_assert_msg(strstr(owner.object, it->where) != NULL, "%p of %s: %s", block, it->where,
                  owner.object);
    ck_assert_str_eq(owner.allocator, it->name);
}

/* What it mapped before libhomefree came may hold later blocks, too. */
static bool is_certain(const struct known *it)
{
    return !it->silent || strcmp(order, "after") == 0;
}

START_TEST(early_blocks)
{
    set_up();
    for (size_t k = 0; k < known_count; k++)
        for (size_t i = 0; i < EARLY; i++) {
            assert_its(&known[k], known[k].early[i], is_certain(&known[k]));
            if (is_certain(&known[k]))
                free(known[k].early[i]);
            else
                known[k].free(known[k].early[i]);
        }
}
END_TEST

START_TEST(blocks_of_each_are_freed_by_all)
{
    set_up();
    void (*const releases[])(void *) = {free, user->release, user->constant->release, free_any};
    for (size_t i = 0; i < 400; i++)
        for (size_t k = 0; k < known_count; k++) {
            const struct known *it = &known[k];
            const size_t alignment = (size_t)16 << i % 13;
            char *block = it->memalign != NULL && i % 3 == 0 ? it->memalign(alignment, size_of(i))
                                                             : it->malloc(size_of(i));
            ck_assert_ptr_nonnull(block);
            memset(block, 1, size_of(i));
            if (i % 7 == 0)
                assert_its(it, block, is_certain(it));
            if (!is_certain(it)) {
                it->free(block);
                continue;
            }
            ck_assert_uint_ge(measure_any(block), size_of(i));
            if (i % 5 == 0) {
                block = user->resize(block, 2 * size_of(i));
                ck_assert_int_eq(block[size_of(i) - 1], 1);
            }
            releases[i % 4](block);
        }
}
END_TEST

/* What a library that is bound to one allocator does with another's block. oneTBB's functions are
 * not routed, and a hidden allocator's have no names. */
START_TEST(blocks_of_each_are_freed_by_each_others_functions)
{
    set_up();
    for (size_t i = 0; i < 100; i++)
        for (size_t k = 0; k < known_count; k++)
            for (size_t by = 0; by < known_count && is_certain(&known[k]); by++) {
                if (known[by].free == NULL || known[by].silent)
                    continue;
                char *block = known[k].malloc(size_of(i));
                ck_assert_ptr_nonnull(block);
                known[by].free(memset(block, 1, size_of(i)));
            }
}
END_TEST

/* libc's large blocks are mappings of their own. */
START_TEST(libcs_mappings_with_nothing_below)
{
    set_up();
    const struct known *libc = &known[0];
    void (*const releases[])(void *) = {free, user->release, user->constant->release, free_any};
    char *blocks[LIBCS];
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    for (size_t i = 0; i < LIBCS; i++) {
        ck_assert_ptr_ne(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                         MAP_FAILED);
        blocks[i] = libc->malloc((200 << 10) + 4096 * i);
        ck_assert_ptr_nonnull(blocks[i]);
    }
    for (size_t k = 1; k < known_count; k++)
        known[k].early[0] = known[k].malloc(LARGE * 10);
    for (size_t i = 0; i < LIBCS; i++) {
        assert_its(libc, blocks[i], false);
        ck_assert_uint_ge(measure_any(blocks[i]), 200 << 10);
        if (i % 5 == 0)
            blocks[i] = user->resize(blocks[i], (300 << 10) + 4096 * i);
        releases[i % 4](blocks[i]);
    }
}
END_TEST

/* One page at each place in a slab of 16 KiB, with nothing mapped below or above. */
START_TEST(lonely_pages)
{
    set_up();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *area = mmap(NULL, AREA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(area, MAP_FAILED);
    for (size_t k = 1; k < known_count; k++)
        known[k].early[0] = known[k].malloc(LARGE * 10);
    for (size_t place = 0; place < SLAB; place += page) {
        char *at = (char *)(((uintptr_t)area + AREA / 2) & -(uintptr_t)SLAB) + place;
        ck_assert_int_eq(munmap(area, AREA), 0);
        ck_assert_ptr_eq(
            mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            at);
        for (size_t offset = 0; offset < page; offset += 16)
            ck_assert_int_ne(owner_at(at + offset).kind, HF_OWNER_ALLOCATOR);
        ck_assert_int_eq(owner_at(at - 16).kind, HF_OWNER_UNMAPPED);
        ck_assert_int_eq(owner_at(at + page).kind, HF_OWNER_UNMAPPED);
        ck_assert_ptr_eq(
            mmap(area, AREA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), area);
        ck_assert_int_ne(owner_at(at).kind, HF_OWNER_ALLOCATOR);
    }
}
END_TEST

START_TEST(stack_static_data_and_nonsense)
{
    static char data[64];
    static const char constant[64] = "constant";
    char local[64] = "local";
    set_up();
    for (size_t i = 0; i < sizeof local; i++) {
        ck_assert_int_eq(owner_at(local + i).kind, HF_OWNER_STACK);
        ck_assert_int_eq(owner_at(data + i).kind, HF_OWNER_STATIC);
        ck_assert_int_eq(owner_at(constant + i).kind, HF_OWNER_STATIC);
    }
    for (int bit = 0; bit < 64; bit++)
        for (int add = -1; add <= 1; add++) {
            const void *address = (const void *)(((uintptr_t)1 << bit) + (uintptr_t)add);
            ck_assert_int_ne(owner_at(address).kind, HF_OWNER_ALLOCATOR);
        }
}
END_TEST

int main(int count, char **arguments)
{
    modules = arguments + (count < 5 ? count : 5);
    count = count < 5 ? count : 5;
    TAKE_ARGUMENTS(&order, &homefree_path, &mimalloc, &user_path);
    return RUN_TESTS("pointers", early_blocks, blocks_of_each_are_freed_by_all,
                     blocks_of_each_are_freed_by_each_others_functions,
                     libcs_mappings_with_nothing_below, lonely_pages,
                     stack_static_data_and_nonsense);
}
