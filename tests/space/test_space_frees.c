/*
 * Whoever frees a block of a space, and by whatever function, it goes home: free(), realloc() and
 * CUDA's functions, which are routed in the objects that call them.
 */
#include "api.h"
#include "control.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void *block_of(enum hf_space_kind kind)
{
    void *at = NULL;
    ck_assert_int_eq(hf_space_alloc(&at, kind, 0, 100000, 0, NULL), 0);
    return at;
}

static uint64_t allocated(enum hf_space_kind kind)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats), 0);
    ck_assert_uint_eq(stats.leaked, 0);
    return stats.allocated;
}

START_TEST(free_of_any_space)
{
    free(block_of(HF_SPACE_PINNED));
    free(block_of(HF_SPACE_DEVICE));
    hf_free(block_of(HF_SPACE_PINNED));
    hf_free(block_of(HF_SPACE_DEVICE));
    ck_assert_uint_eq(allocated(HF_SPACE_PINNED), 0);
    ck_assert_uint_eq(allocated(HF_SPACE_DEVICE), 0);
}
END_TEST

START_TEST(functions_of_the_runtime)
{
    unsigned long before = double_calls("cudaFree") + double_calls("cudaFreeHost");
    ck_assert_int_eq(cudaFree(block_of(HF_SPACE_DEVICE)), 0);
    ck_assert_int_eq(cudaFree(block_of(HF_SPACE_PINNED)), 0);
    ck_assert_int_eq(cudaFreeHost(block_of(HF_SPACE_PINNED)), 0);
    ck_assert_int_eq(cudaFreeAsync(block_of(HF_SPACE_DEVICE), NULL), 0);
    ck_assert_int_eq(cudaFreeHost(hf_malloc(100)), 0);
    ck_assert_uint_eq(allocated(HF_SPACE_PINNED), 0);
    ck_assert_uint_eq(allocated(HF_SPACE_DEVICE), 0);
    ck_assert_uint_eq(double_calls("cudaFree") + double_calls("cudaFreeHost"), before);
}
END_TEST

START_TEST(what_is_wrong_is_an_error_of_cuda)
{
    char *at = block_of(HF_SPACE_PINNED);
    ck_assert_int_eq(cudaFreeHost(at + 4096), 1);
    ck_assert_int_eq(cudaHostUnregister(at), 713);
    ck_assert_int_eq(cuMemUnmap((uintptr_t)at, 100000), 1);
    ck_assert_int_eq(cudaFreeHost(at), 0);
    void *theirs = NULL;
    ck_assert_int_eq(cudaMalloc(&theirs, 1000), 0);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(theirs, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_CUDA);
    ck_assert_int_eq(owner.device, 0);
    ck_assert_int_eq(cudaFree(theirs), 0);
}
END_TEST

START_TEST(a_registration_of_the_callers_own)
{
    void *block = hf_memalign(4096, 8192);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cudaHostRegister(block, 8192, 0), 0);
        ck_assert_int_eq(cudaHostUnregister(block), 0);
    }
    hf_free(block);
}
END_TEST

START_TEST(a_block_that_waits_is_not_live)
{
    void *at = block_of(HF_SPACE_PINNED);
    ck_assert_int_eq(hf_space_free(at, HF_STREAM_ANY), 0);
    ck_assert_int_eq(hf_space_free(at, HF_STREAM_DONE), -EINVAL);
    struct hf_space space = {.size = sizeof space};
    ck_assert_int_eq(hf_space_of(at, &space), 0);
    ck_assert_ptr_null(space.block);
}
END_TEST

START_TEST(resized_page_locked_memory_is_page_locked)
{
    char *at = block_of(HF_SPACE_PINNED);
    memset(at, 7, 100000);
    at = realloc(at, 3000000);
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(at[99999], 7);
    struct hf_space space = {.size = sizeof space};
    ck_assert_int_eq(hf_space_of(at, &space), 0);
    ck_assert_int_eq(space.kind, HF_SPACE_PINNED);
    ck_assert_uint_ge(space.block_size, 3000000);
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI) */
    ck_assert_ptr_null(realloc(at, 0));
}
END_TEST

static void free_inside(void *at)
{
    char *inside = (char *)at + 64;
    __asm__("" : "+r"(inside)); /* GCC would see that this is no block */
    free(inside);
}

static void resize_device(void *at)
{
    at = realloc(at, 10);
    hf_free(at);
}

START_TEST(the_middle_of_a_block_ends_the_process)
{
    assert_killed(outcome_of_call(free_inside, block_of(HF_SPACE_PINNED)), SIGABRT, "inside");
    assert_killed(outcome_of_call(resize_device, block_of(HF_SPACE_DEVICE)), SIGABRT,
                  "memory of CUDA device 0");
}
END_TEST

int main(void)
{
    return RUN_SUITE(free_of_any_space, functions_of_the_runtime, what_is_wrong_is_an_error_of_cuda,
                     a_registration_of_the_callers_own, a_block_that_waits_is_not_live,
                     resized_page_locked_memory_is_page_locked,
                     the_middle_of_a_block_ends_the_process);
}
