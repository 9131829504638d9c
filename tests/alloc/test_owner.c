/* Who owns an address: the heap's blocks, what was freed, what lies in an object, and what nobody
 * can know. */
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

static struct hf_owner owner_of(const void *p)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(p, &owner), 0);
    ck_assert_uint_eq(owner.size, sizeof owner);
    return owner;
}

START_TEST(live_blocks)
{
    const size_t sizes[] = {0, 1, 16, 100, 4096, 14336, 20000, 1 << 20, 20 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = hf_malloc(sizes[i]);
        struct hf_owner owner = owner_of(p);
        ck_assert_int_eq(owner.kind, HF_OWNER_HEAP);
        ck_assert_str_eq(owner.allocator, "homefree");
        ck_assert_ptr_nonnull(strstr(owner.object, "libhomefree.so"));
        ck_assert_ptr_eq(owner.block, p);
        ck_assert_uint_eq(owner.block_size, hf_usable_size(p));
        hf_free(p);
    }
}
END_TEST

START_TEST(inside_a_block_no_block_is_claimed)
{
    const size_t sizes[] = {100, 4096, 20000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = hf_malloc(sizes[i]);
        for (size_t offset = 1; offset < sizes[i]; offset = offset * 2 + 1) {
            struct hf_owner owner = owner_of(p + offset);
            ck_assert_int_eq(owner.kind, HF_OWNER_HEAP);
            ck_assert_str_eq(owner.allocator, "homefree");
            /* Where one is claimed after all, it must be the right one. */
            ck_assert(owner.block == NULL || owner.block == p);
            ck_assert(owner.block_size == 0 || owner.block_size == hf_usable_size(p));
        }
        hf_free(p);
    }
}
END_TEST

START_TEST(freed_and_never_allocated)
{
    void *p = hf_malloc(5 << 20);
    hf_free(p);
    const void *const addresses[] = {p, (void *)hf_region_range.base,
                                     (void *)(hf_region_range.base + hf_region_range.size / 2),
                                     (void *)(hf_region_range.base + hf_region_range.size - 1)};
    for (size_t i = 0; i < 4; i++) {
        struct hf_owner owner = owner_of(addresses[i]);
        ck_assert_int_eq(owner.kind, HF_OWNER_HEAP);
        ck_assert_str_eq(owner.allocator, "homefree");
        ck_assert_ptr_null(owner.block);
        ck_assert_uint_eq(owner.block_size, 0);
    }
}
END_TEST

static int a_static = 1;
static int zeroed[10000];

START_TEST(statics_name_their_object)
{
    const void *const here[] = {&a_static, &zeroed[9999], "a literal"};
    for (size_t i = 0; i < 3; i++) {
        struct hf_owner owner = owner_of(here[i]);
        ck_assert_int_eq(owner.kind, HF_OWNER_STATIC);
        ck_assert_ptr_nonnull(strstr(owner.object, "test_owner"));
        ck_assert_ptr_null(owner.block);
    }
    struct hf_owner library = owner_of((void *)(size_t)hf_malloc);
    ck_assert_int_eq(library.kind, HF_OWNER_STATIC);
    ck_assert_ptr_nonnull(library.object);
}
END_TEST

START_TEST(what_nobody_knows)
{
    int on_stack;
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const void *const addresses[] = {NULL, &on_stack, mapped, (void *)-1, (void *)1};
    for (size_t i = 0; i < 5; i++) {
        struct hf_owner owner = owner_of(addresses[i]);
        ck_assert_int_eq(owner.kind, HF_OWNER_UNKNOWN);
        ck_assert_ptr_null(owner.block);
        ck_assert_uint_eq(owner.block_size, 0);
    }
    munmap(mapped, 4096);
    void *libcs = malloc(100);
    struct hf_owner owner = owner_of(libcs);
    ck_assert(owner.kind == HF_OWNER_UNKNOWN || owner.kind == HF_OWNER_ALLOCATOR);
    free(libcs);
}
END_TEST

START_TEST(older_and_newer_callers)
{
    void *p = hf_malloc(100);
    struct {
        struct hf_owner known;
        unsigned char unknown[32];
    } owner;
    const size_t ends[] = {offsetof(struct hf_owner, allocator), offsetof(struct hf_owner, object),
                           offsetof(struct hf_owner, block), sizeof owner};
    for (size_t i = 0; i < 4; i++) {
        memset(&owner, 0xaa, sizeof owner);
        owner.known.size = ends[i];
        ck_assert_int_eq(hf_owner_of(p, &owner.known), 0);
        ck_assert_int_eq(owner.known.kind, HF_OWNER_HEAP);
        ck_assert_uint_eq(owner.known.size, ends[i]);
        size_t end = ends[i] < sizeof owner.known ? ends[i] : sizeof owner.known;
        for (size_t at = end; at < sizeof owner; at++)
            ck_assert_uint_eq(((unsigned char *)&owner)[at], 0xaa);
    }
    ck_assert_int_eq(hf_owner_of(p, NULL), -EINVAL);
    for (size_t size = 0; size < offsetof(struct hf_owner, allocator); size++) {
        memset(&owner, 0xaa, sizeof owner);
        owner.known.size = size;
        ck_assert_int_eq(hf_owner_of(p, &owner.known), -EINVAL);
        ck_assert_uint_eq(*(unsigned char *)&owner.known.kind, 0xaa);
    }
    hf_free(p);
}
END_TEST

int main(void)
{
    return RUN_SUITE(live_blocks, inside_a_block_no_block_is_claimed, freed_and_never_allocated,
                     statics_name_their_object, what_nobody_knows, older_and_newer_callers);
}
