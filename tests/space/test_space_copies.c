/*
 * A second instance of libhomefree, in a namespace of its own, uses the spaces of the copy that is
 * the heap.
 */
#include "api.h"
#include "control.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <dlfcn.h>
#include <string.h>

static const char *homefree_path;

static void *open_copy(void)
{
    void *copy = dlmopen(LM_ID_NEWLM, homefree_path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(copy != NULL, "%s", dlerror());
    return copy;
}

START_TEST(copies_share_the_spaces)
{
    void *copy = open_copy();
    __typeof__(&hf_space_alloc) alloc;
    __typeof__(&hf_space_free) give;
    __typeof__(&hf_space_of) of;
    *(void **)&alloc = dlsym(copy, "hf_space_alloc");
    *(void **)&give = dlsym(copy, "hf_space_free");
    *(void **)&of = dlsym(copy, "hf_space_of");
    for (enum hf_space_kind kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++)
        for (size_t size = 100; size < 1000000; size *= 100) {
            struct hf_space space = {.size = sizeof space};
            void *theirs = NULL, *ours = NULL;
            ck_assert_int_eq(alloc(&theirs, kind, 0, size, 0, NULL), 0);
            ck_assert_int_eq(hf_space_alloc(&ours, kind, 0, size, 0, NULL), 0);
            ck_assert_int_eq(hf_space_of(theirs, &space), 0);
            ck_assert_int_eq(space.kind, kind);
            ck_assert_int_eq(of(ours, &space), 0);
            ck_assert_ptr_eq(space.block, ours);
            ck_assert_int_eq(hf_space_free(theirs, NULL), 0);
            ck_assert_int_eq(give(ours, NULL), 0);
        }
}
END_TEST

/* ---- memory that the host cannot touch ---- */

static void *of_a_space(void)
{
    void *at = NULL;
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 1, 100000, 0, NULL), 0);
    return at;
}

static void *of_cuda(void)
{
    void *at = NULL;
    ck_assert_int_eq(cudaMalloc(&at, 100000), 0);
    return at;
}

static void *of_cuda_on_the_host(void)
{
    void *at = NULL;
    ck_assert_int_eq(cudaHostAlloc(&at, 100000, 0), 0);
    return at;
}

static const struct {
    void *(*get)(void);
    enum hf_owner_kind kind;
    const char *object;
    int device;
} places[] = {
    {of_a_space, HF_OWNER_DEVICE, "libhomefree", 1},
    {of_cuda, HF_OWNER_CUDA, "test_space_copies", 0},
    {of_cuda_on_the_host, HF_OWNER_CUDA, "test_space_copies", 0},
};
enum { PLACES = sizeof places / sizeof places[0] };

static size_t live(void)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    struct double_live live;
    (void)double_leaks(&live);
    ck_assert_int_eq(hf_space_stats(HF_SPACE_DEVICE, 1, HF_STREAM_ANY, &stats), 0);
    return live.blocks + live.host + stats.allocated;
}

START_TEST(a_copy_knows_whose_memory_it_is)
{
    void *copy = open_copy();
    __typeof__(&hf_owner_of) owner_of;
    __typeof__(&hf_usable_size) usable_size;
    *(void **)&owner_of = dlsym(copy, "hf_owner_of");
    *(void **)&usable_size = dlsym(copy, "hf_usable_size");
    for (int i = 0; i < PLACES; i++) {
        char *at = places[i].get();
        struct hf_owner owner = {.size = sizeof owner};
        ck_assert_int_eq(owner_of(at + 5000, &owner), 0);
        ck_assert_int_eq(owner.kind, places[i].kind);
        ck_assert_ptr_eq(owner.block, at);
        ck_assert_int_eq(owner.device, places[i].device);
        ck_assert_ptr_nonnull(strstr(owner.object, places[i].object));
        ck_assert_uint_ge(usable_size(at), 100000);
        hf_free(at);
    }
}
END_TEST

START_TEST(what_a_copy_frees_goes_home)
{
    void *copy = open_copy();
    __typeof__(&hf_free) give;
    __typeof__(&hf_realloc) resize;
    __typeof__(&hf_delete_foreign) delete_foreign;
    *(void **)&give = dlsym(copy, "hf_free");
    *(void **)&resize = dlsym(copy, "hf_realloc");
    *(void **)&delete_foreign = dlsym(copy, "hf_delete_foreign");
    for (int i = 0; i < PLACES; i++) {
        give(places[i].get());
        ck_assert_uint_eq(live(), 0);
        ck_assert_ptr_null(resize(places[i].get(), 0));
        ck_assert_uint_eq(live(), 0);
        void *at = places[i].get();
        if (!delete_foreign(at, HF_DELETE_ONE, 0))
            give(at);
        ck_assert_uint_eq(live(), 0);
    }
    char *at = of_cuda_on_the_host();
    at[99999] = 7;
    at = resize(at, 120000); /* to the libc of the copy's namespace */
    ck_assert_int_eq(at[99999], 7);
    ck_assert_uint_eq(live(), 0);
    give(at);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path);
    return RUN_SUITE(copies_share_the_spaces, a_copy_knows_whose_memory_it_is,
                     what_a_copy_frees_goes_home);
}
