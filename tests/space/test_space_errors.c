/*
 * Whatever error a call of CUDA's returns, the functions of homefree/space.h return only what their
 * header names; what can be freed is freed afterwards, and what works again is used again. Each
 * error of each call is met in a process of its own.
 */
#include "api.h"
#include "control.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const functions[] = {
#define HF_CUDA_RUNTIME(result, name, parameters)         #name,
#define HF_CUDA_DRIVER(name, symbol, parameters)          #name,
#define HF_CUDA_DRIVER_OPTIONAL(name, symbol, parameters) #name,
#include "satellites/cuda/driver/cuda_functions.def"
};
static const int errors[] = {1,   2,   4,   35,  36,  46,  100, 201, 400,  600,
                             700, 709, 712, 801, 803, 900, 906, 999, 12345};
enum { NTH = 2, FUNCTIONS = sizeof functions / sizeof functions[0] };

struct fault {
    const char *function;
    int error;
    unsigned nth;
};

static bool is_one_of(int error, const int *allowed)
{
    while (*allowed != 0 && *allowed != error)
        allowed++;
    return *allowed == error;
}
#define ONE_OF(error, ...) is_one_of(error, (const int[]){__VA_ARGS__, 0})

static void *take(enum hf_space_kind kind, size_t size, void *stream)
{
    void *at = NULL;
    int error = hf_space_alloc(&at, kind, 0, size, 0, stream);
    must(ONE_OF(error, -ENODEV, -ENOMEM, -EBUSY, -EIO));
    must((error == 0) == (at != NULL));
    return at;
}

static void give(void *at, void *stream)
{
    int error = at != NULL ? hf_space_free(at, stream) : 0;
    must(ONE_OF(error, -ECANCELED));
}

static void manage(enum hf_space_kind kind)
{
    uint64_t released;
    struct hf_space_stats stats = {.size = sizeof stats};
    must(ONE_OF(hf_space_limit(kind, 0, 0), -ENODEV, -ENOMEM, -EBUSY, -EIO));
    must(ONE_OF(hf_space_trim(kind, 0, 0, &released), -ENODEV, -ENOMEM, -EBUSY, -EIO));
    must(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats) == 0);
}

static void use_all(void *stream)
{
    void *pinned = take(HF_SPACE_PINNED, 100000, NULL), *small = take(HF_SPACE_DEVICE, 100, NULL),
         *large = take(HF_SPACE_DEVICE, 3 << 20, stream);
    int error = hf_space_order(0, NULL, stream);
    must(ONE_OF(error, -EINVAL, -ENODEV, -ENOMEM, -EBUSY, -EIO));
    if (small != NULL)
        must(hf_space_use(small, stream) == 0);
    give(pinned, stream);
    give(small, NULL);
    give(large, HF_STREAM_ANY);
    manage(HF_SPACE_PINNED);
    manage(HF_SPACE_DEVICE);
}

static bool is_lost(void)
{
    void *at;
    int error = hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 100, 0, NULL);
    must(error == 0 || error == -ENODEV);
    if (error == 0)
        must(hf_space_free(at, NULL) == 0);
    return error != 0;
}

/* The stream is the driver's own, which no failure touches. */
static void meet(void *context)
{
    const struct fault *fault = context;
    cudaStream_t stream;
    struct double_live live;
    must(cudaStreamCreate(&stream) == 0);
    double_fail(fault->function, fault->nth, fault->error);
    use_all(stream);
    double_forget_failures();
    use_all(stream);
    struct hf_space_stats stats = {.size = sizeof stats};
    for (enum hf_space_kind kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++) {
        must(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats) == 0);
        must(stats.pending == 0);
        if (!is_lost())
            must(hf_space_trim(kind, 0, 0, NULL) == 0);
    }
    if (is_lost())
        return;
    for (enum hf_space_kind kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++) {
        must(hf_space_trim(kind, 0, 0, NULL) == 0);
        must(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats) == 0);
        must(stats.allocated == 0 && stats.leaked == 0);
    }
    double_leaks(&live);
    must(live.mapped == 0 && live.registered == 0);
    must(live.handles == 0 || strcmp(fault->function, "cuMemRelease") == 0);
}

START_TEST(only_what_the_header_names)
{
    struct fault fault = {.function = functions[_i]};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        for (fault.nth = 1; fault.nth <= NTH; fault.nth++) {
            fault.error = errors[i];
            const struct outcome *outcome = outcome_of_call(meet, &fault);
            if (outcome->status != 0)
                fprintf(stderr, "%s, call %u, error %d\n", fault.function, fault.nth, fault.error);
            assert_succeeds(outcome);
        }
}
END_TEST

/* What is freed waits for a stream of a device that is reset. */
static void lose(void *unused)
{
    (void)unused;
    cudaStream_t stream;
    must(cudaStreamCreate(&stream) == 0);
    void *at = take(HF_SPACE_DEVICE, 3 << 20, NULL), *other = take(HF_SPACE_PINNED, 4 << 20, NULL);
    must(hf_space_free(at, stream) == 0 && hf_space_free(other, HF_STREAM_ANY) == 0);
    struct hf_space_stats stats = {.size = sizeof stats};
    must(hf_space_stats(HF_SPACE_DEVICE, 0, HF_STREAM_ANY, &stats) == 0);
    must(stats.pending == 3 << 20);
    must(cudaDeviceReset() == 0);
    must(hf_space_order(0, NULL, stream) != 0);
    must(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 30 << 20, 0, NULL) == -ENODEV);
    must(hf_space_stats(HF_SPACE_DEVICE, 0, HF_STREAM_ANY, &stats) == 0);
    must(stats.pending == 0 && stats.leaked == 3 << 20 && stats.leaked_blocks == 1);
    must(hf_space_stats(HF_SPACE_PINNED, 0, HF_STREAM_ANY, &stats) == 0);
    must(stats.pending == 0 && stats.leaked == 4 << 20 && stats.leaked_blocks == 1);
}
CALL_TEST(what_waits_when_cuda_ends_is_leaked, lose, NULL)

/* A question that fails once is asked again. */
static void ask_again(void *unused)
{
    (void)unused;
    char reason[200];
    void *at;
    must(cudaFree(NULL) == 0);
    double_fail("cuMemGetAllocationGranularity", 1, 999);
    must(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 100, 0, NULL) == -EIO);
    must(hf_space_reason(HF_SPACE_DEVICE, 0, reason, sizeof reason) == 0);
    must(strstr(reason, "cuMemGetAllocationGranularity") != NULL);
    must(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 100, 0, NULL) == 0);
    must(double_calls("cuMemCreate") > 0 && double_calls("cuMemAlloc") == 0);
}
CALL_TEST(a_failed_question_is_asked_again, ask_again, NULL)

int main(void)
{
    TCase *each = tcase_create("each");
    tcase_add_loop_test(each, only_what_the_header_names, 0, FUNCTIONS);
    tcase_set_timeout(each, 60);
    return RUN_CASES(
        "errors", each,
        NEW_CASE("others", what_waits_when_cuda_ends_is_leaked, a_failed_question_is_asked_again));
}
