/* A build without CUDA (-Dcuda=disabled) answers every call, and says why it has none. */
#include "seam.h"
#include "suite.h"

#include <errno.h>

START_TEST(there_is_none)
{
    uint64_t number;
    uintptr_t at;
    size_t size;
    struct hf_cuda_event *event;
    struct hf_cuda_address address;
    char text[] = "123";
    ck_assert_int_eq(hf_cuda_find(), -ENODEV);
    ck_assert(!hf_cuda_found() && !hf_cuda_has_context(0));
    ck_assert(reason_has("homefree was built without CUDA"));
    hf_cuda_reason(text, 3);
    ck_assert_str_eq(text, "ho");
    ck_assert_int_eq(hf_cuda_devices(), -ENODEV);
    ck_assert_int_eq(hf_cuda_current(), 0);
    ck_assert_int_eq(hf_cuda_memory(0, &number, &number), -ENODEV);
    ck_assert_int_eq(hf_cuda_lock(text, 1), -ENODEV);
    ck_assert_int_eq(hf_cuda_unlock(text), -ENODEV);
    ck_assert_int_eq(hf_cuda_can_map(0), -ENODEV);
    ck_assert_int_eq(hf_cuda_granularity(0, &size), -ENODEV);
    ck_assert_int_eq(hf_cuda_reserve(0, 1, 1, &at), -ENODEV);
    ck_assert_int_eq(hf_cuda_unreserve(0, 0, 1), -ENODEV);
    ck_assert_int_eq(hf_cuda_map(0, 0, 1), -ENODEV);
    ck_assert_int_eq(hf_cuda_unmap(0, 0, 1), -ENODEV);
    ck_assert_int_eq(hf_cuda_block(0, 1, &at), -ENODEV);
    ck_assert_int_eq(hf_cuda_unblock(0, 0), -ENODEV);
    ck_assert_int_eq(hf_cuda_mark(0, NULL, &event), -ENODEV);
    ck_assert_int_eq(hf_cuda_order(0, NULL, NULL), -ENODEV);
    ck_assert_int_eq(hf_cuda_is_done(NULL), -ENODEV);
    hf_cuda_drop(NULL);
    ck_assert_int_eq(hf_cuda_wait(-1), -ENODEV);
    ck_assert_int_eq(hf_cuda_address(text, &address), 0);
    ck_assert_int_eq(address.type, HF_CUDA_NONE);
    ck_assert_int_eq(address.device, -1);
    hf_cuda_forbid();
}
END_TEST

int main(void)
{
    return RUN_SUITE(there_is_none);
}
