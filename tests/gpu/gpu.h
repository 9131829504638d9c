/*
 * What the tests of spaces on a real device share. They need neither Check nor Meson: tests/gpu/run
 * compiles them where it finds a device, because such a machine may have nothing else.
 *
 * Each case runs in a process of its own, which this program starts anew: CUDA does not survive
 * fork(2). A case ends at its first failed gpu_check(). One thread, unless a case says otherwise.
 */
#ifndef HOMEFREE_TESTS_GPU_GPU_H
#define HOMEFREE_TESTS_GPU_GPU_H

#include <homefree/homefree.h>

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A case. `needs_kernel`: it needs a kernel that runs, which the double of CUDA has not. */
struct gpu_case {
    const char *name;
    void (*run)(void);
    bool needs_kernel;
};

/* The tables, each ended by a case without a name. */
extern const struct gpu_case gpu_blocks[], gpu_order[], gpu_limits[], gpu_process[], gpu_threads[];

/* Ends the case as failed, with a line that says what and where. */
__attribute__((noreturn, format(printf, 3, 4))) void gpu_fail(const char *file, int line,
                                                              const char *format, ...);
/* Ends it as skipped. */
__attribute__((noreturn)) void gpu_skip(const char *why);

#define gpu_check(condition)                                \
    do {                                                    \
        if (!(condition))                                   \
            gpu_fail(__FILE__, __LINE__, "%s", #condition); \
    } while (0)
#define gpu_equal(is, wanted)                                                        \
    do {                                                                             \
        long long is_ = (long long)(is), wanted_ = (long long)(wanted);              \
        if (is_ != wanted_)                                                          \
            gpu_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #is, is_, wanted_); \
    } while (0)
/* A call of CUDA's succeeds. */
#define gpu_cuda(call)                                                                 \
    do {                                                                               \
        cudaError_t error_ = (call);                                                   \
        if (error_ != cudaSuccess)                                                     \
            gpu_fail(__FILE__, __LINE__, "%s: %s", #call, cudaGetErrorString(error_)); \
    } while (0)

#define GPU_MIB ((size_t)1 << 20)

/* hf_space_alloc() that succeeds, on device 0. */
void *gpu_take(enum hf_space_kind kind, size_t size, cudaStream_t stream);
/* hf_space_free() that succeeds. */
void gpu_give(void *ptr, void *stream);
struct hf_space_stats gpu_stats(enum hf_space_kind kind);
struct hf_space gpu_space_of(const void *ptr);
cudaStream_t gpu_stream(void);

/* Bytes of a pattern that depends on the seed and the position, and whether they are there. */
void gpu_pattern(void *at, size_t size, unsigned seed);
bool gpu_has_pattern(const void *at, size_t size, unsigned seed);
/* Whether all bytes of a device's memory have a value; copies them through the default stream. */
bool gpu_all_bytes(const void *device, size_t size, unsigned char value);

/*
 * Work that keeps a stream busy for about this many milliseconds: a kernel that spins; without
 * kernels (the double, whose work runs only when somebody waits), nothing.
 */
void gpu_spin(cudaStream_t stream, unsigned milliseconds);
/* A kernel that writes `value` to each byte. Only for cases that need kernels. */
void gpu_fill(void *at, size_t size, unsigned char value, cudaStream_t stream);
bool gpu_has_kernels(void);

#ifdef __cplusplus
}
#endif
#endif
