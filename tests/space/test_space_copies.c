/*
 * A second copy of libhomefree, in a namespace of its own, uses the spaces of the copy that is the
 * heap.
 */
#include "control.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <dlfcn.h>

static const char *homefree_path;

START_TEST(copies_share_the_spaces)
{
    void *copy = dlmopen(LM_ID_NEWLM, homefree_path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(copy != NULL, "%s", dlerror());
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

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path);
    return RUN_SUITE(copies_share_the_spaces);
}
