// The functions that torch looks up in homefree/_torch_allocator.so: what they do to a device's
// memory, and that failure is an exception which says what to do, because torch does not look at
// NULL.
#include "suite.h"

#include <control.h>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdexcept>
#include <string>

namespace
{

const char *library;

template <typename Function> Function *function(const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != nullptr, "%s", dlerror());
    void *found = dlsym(handle, name);
    ck_assert_msg(found != nullptr, "%s", name);
    return reinterpret_cast<Function *>(found);
}

struct hf_space_stats stats_of(int device)
{
    struct hf_space_stats stats = {};
    stats.size = sizeof stats;
    ck_assert_int_eq(hf_space_stats(HF_SPACE_DEVICE, device, HF_STREAM_ANY, &stats), 0);
    return stats;
}

template <typename Call> std::string message_of(Call call)
{
    try {
        call();
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    ck_abort_msg("no exception");
    return "";
}

void assert_has(const std::string &text, const char *part)
{
    ck_assert_msg(text.find(part) != std::string::npos, "\"%s\" is not in \"%s\"", part,
                  text.c_str());
}

START_TEST(blocks_come_and_go)
{
    auto *alloc = function<void *(size_t, int, void *)>("hf_torch_alloc");
    auto *free = function<void(void *, size_t, int, void *)>("hf_torch_free");
    auto *record = function<void(void *, void *)>("hf_torch_record_stream");
    auto *empty_cache = function<void()>("hf_torch_empty_cache");
    void *block = alloc(5 << 20, 1, nullptr);
    struct hf_space space = {};
    space.size = sizeof space;
    ck_assert_int_eq(hf_space_of(block, &space), 0);
    ck_assert_int_eq(space.kind, HF_SPACE_DEVICE);
    ck_assert_int_eq(space.device, 1);
    ck_assert_ptr_eq(space.block, block);
    ck_assert_ptr_null(alloc(0, 1, nullptr));
    record(block, reinterpret_cast<void *>(std::uintptr_t{2}));
    record(nullptr, nullptr);
    ck_assert_uint_ge(stats_of(1).reserved, 5 << 20);
    free(block, 5 << 20, 1, nullptr);
    free(nullptr, 0, 1, nullptr);
    empty_cache();
    ck_assert_uint_eq(stats_of(1).reserved, 0);
    ck_assert_uint_eq(double_used(1), 0);
}
END_TEST

START_TEST(failure_is_an_exception)
{
    auto *alloc = function<void *(size_t, int, void *)>("hf_torch_alloc");
    auto *fraction = function<void(double, int)>("hf_torch_memory_fraction");
    fraction(0.5, 0);
    ck_assert_uint_eq(stats_of(0).limit, stats_of(0).total / 2);
    std::string text = message_of([&] { alloc(std::size_t{1} << 40, 0, nullptr); });
    assert_has(text, "homefree: no 1099511627776 bytes on CUDA device 0");
    assert_has(text, "homefree.cuda.trim()");
    fraction(0.25, 0);
    ck_assert_uint_eq(stats_of(0).limit, stats_of(0).total / 4);
    ck_assert_uint_gt(stats_of(0).limit, 0);
    text = message_of([&] { alloc(stats_of(0).total / 2, 0, nullptr); });
    assert_has(text, "homefree.cuda.limit()");
    assert_has(message_of([&] { alloc(1000, 7, nullptr); }), "device 7");
    assert_has(message_of([&] { fraction(-1, 0); }), "no limit");
}
END_TEST

} // namespace

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&library);
    setenv("CK_FORK", "no", 1); // a forked child has no CUDA
    return RUN_SUITE(blocks_come_and_go, failure_is_an_exception);
}
