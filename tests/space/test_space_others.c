/*
 * Memory that somebody else got from CUDA: whoever frees it, and by whatever function, it goes home
 * to the library that it came from, in a context that is there; and it is known who got it.
 */
#include "api.h"
#include "control.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 100000 };

static const char *other_runtime;

void delete (void *ptr) __asm__("_ZdlPv");

/* ---- who gives memory ---- */

static void *by_malloc(void)
{
    void *at = NULL;
    return cudaMalloc(&at, SIZE) == 0 ? at : NULL;
}

static void *by_malloc_pitch(void)
{
    void *at = NULL;
    size_t pitch;
    return cudaMallocPitch(&at, &pitch, SIZE / 100, 100) == 0 ? at : NULL;
}

static void *by_malloc_async(void)
{
    void *at = NULL;
    return cudaMallocAsync(&at, SIZE, NULL) == 0 ? at : NULL;
}

static void *by_malloc_managed(void)
{
    void *at = NULL;
    return cudaMallocManaged(&at, SIZE, 1) == 0 ? at : NULL;
}

static void *by_malloc_host(void)
{
    void *at = NULL;
    return cudaMallocHost(&at, SIZE) == 0 ? at : NULL;
}

static void *by_host_alloc(void)
{
    void *at = NULL;
    return cudaHostAlloc(&at, SIZE, 0) == 0 ? at : NULL;
}

static void *by_driver(void)
{
    CUdeviceptr at = 0;
    return cuMemAlloc_v2(&at, SIZE) == 0 ? (void *)(uintptr_t)at : NULL;
}

static void *by_driver_managed(void)
{
    CUdeviceptr at = 0;
    return cuMemAllocManaged(&at, SIZE, 1) == 0 ? (void *)(uintptr_t)at : NULL;
}

static void *by_driver_host(void)
{
    void *at = NULL;
    return cuMemAllocHost_v2(&at, SIZE) == 0 ? at : NULL;
}

static void *by_driver_host_alloc(void)
{
    void *at = NULL;
    return cuMemHostAlloc(&at, SIZE, 0) == 0 ? at : NULL;
}

static void *by_found_function(void)
{
    void *at = NULL;
    cudaError_t (*function)(void **, size_t, unsigned);
    *(void **)&function = dlsym(RTLD_DEFAULT, "cudaHostAlloc");
    return function != NULL && function(&at, SIZE, 0) == 0 ? at : NULL;
}

static const struct way {
    void *(*get)(void);
    const char *allocator, *release; /* the function that it goes home by */
} ways[] = {
    {by_malloc, "CUDA, memory of a device", "cudaFree"},
    {by_malloc_pitch, "CUDA, memory of a device", "cudaFree"},
    {by_malloc_async, "CUDA, a stream-ordered pool", "cudaFree"},
    {by_malloc_managed, "CUDA, managed memory", "cudaFree"},
    {by_malloc_host, "CUDA, page-locked memory", "cudaFreeHost"},
    {by_host_alloc, "CUDA, page-locked memory", "cudaFreeHost"},
    {by_found_function, "CUDA, page-locked memory", "cudaFreeHost"},
    {by_driver, "CUDA, memory of a device", "cuMemFree"},
    {by_driver_managed, "CUDA, managed memory", "cuMemFree"},
    {by_driver_host, "CUDA, page-locked memory", "cuMemFreeHost"},
    {by_driver_host_alloc, "CUDA, page-locked memory", "cuMemFreeHost"},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void *get(const struct way *way)
{
    void *at = way->get();
    ck_assert_ptr_nonnull(at);
    return at;
}

/* The driver's functions need a context. */
static void begin(void)
{
    ck_assert_int_eq(cudaFree(NULL), 0);
}

static size_t live(void)
{
    struct double_live live;
    (void)double_leaks(&live);
    return live.blocks + live.host;
}

/* ---- who frees it ---- */

static size_t nothing; /* clang-tidy warns of a constant */

static void by_realloc(void *at)
{
    ck_assert_ptr_null(realloc(at, nothing));
}

static void by_cuda_free(void *at)
{
    ck_assert_int_eq(cudaFree(at), 0);
}

static void by_cuda_free_host(void *at)
{
    ck_assert_int_eq(cudaFreeHost(at), 0);
}

static void by_driver_free(void *at)
{
    ck_assert_int_eq(cuMemFree_v2((uintptr_t)at), 0);
}

static void by_driver_free_host(void *at)
{
    ck_assert_int_eq(cuMemFreeHost(at), 0);
}

static void by_sized(void *at)
{
    hf_free_sized(at, SIZE);
}

START_TEST(whoever_frees_it_it_goes_home)
{
    void (*const frees[])(void *) = {
        free,         hf_free,           by_realloc,     by_sized,           delete,
        by_cuda_free, by_cuda_free_host, by_driver_free, by_driver_free_host};
    begin();
    for (int i = 0; i < WAYS; i++)
        for (size_t j = 0; j < sizeof frees / sizeof frees[0]; j++) {
            void *at = get(&ways[i]);
            ck_assert_uint_eq(live(), 1);
            unsigned long before = double_calls(ways[i].release);
            frees[j](at);
            ck_assert_msg(live() == 0, "way %d, free %zu", i, j);
            if (j < 5)
                ck_assert_msg(double_calls(ways[i].release) == before + 1, "way %d, free %zu", i,
                              j);
        }
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

/* Of two runtimes, each frees what is its own. */
START_TEST(it_goes_home_to_its_runtime)
{
    void *at = NULL, *handle = dlopen(other_runtime, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    cudaError_t (*allocate)(void **, size_t, unsigned);
    *(void **)&allocate = dlsym(handle, "cudaHostAlloc");
    const int *frees = dlsym(handle, "other_frees");
    begin();
    for (int i = 0; i < 3; i++) {
        const unsigned long before = double_calls("cuMemFreeHost");
        ck_assert_int_eq(allocate(&at, SIZE, 0), 0);
        struct hf_owner owner = {.size = sizeof owner};
        ck_assert_int_eq(hf_owner_of(at, &owner), 0);
        ck_assert_ptr_nonnull(strstr(owner.object, "test_space_others"));
        if (i == 0)
            free(at);
        else if (i == 1)
            ck_assert_int_eq(cudaFree(at), 0);
        else
            hf_free(at);
        ck_assert_int_eq(*frees, i + 1);
        ck_assert_uint_eq(double_calls("cuMemFreeHost"), before + 1);
        free(by_host_alloc());
        ck_assert_int_eq(*frees, i + 1);
        ck_assert_uint_eq(live(), 0);
    }
    dlclose(handle); /* which leaves it loaded */
    ck_assert_int_eq(*frees, 3);
}
END_TEST

START_TEST(it_is_known_who_got_it)
{
    begin();
    for (int i = 0; i < WAYS; i++) {
        char *at = get(&ways[i]);
        for (size_t offset = 0; offset < SIZE; offset += SIZE / 2) {
            struct hf_owner owner = {.size = sizeof owner};
            ck_assert_int_eq(hf_owner_of(at + offset, &owner), 0);
            ck_assert_int_eq(owner.kind, HF_OWNER_CUDA);
            ck_assert_str_eq(owner.allocator, ways[i].allocator);
            ck_assert_ptr_nonnull(owner.object);
            ck_assert_msg(strstr(owner.object, "test_space_others") != NULL, "%s", owner.object);
            ck_assert_ptr_eq(owner.block, at);
            ck_assert_uint_ge(owner.block_size, SIZE);
            ck_assert_int_eq(owner.device, 0);
        }
        ck_assert_uint_ge(malloc_usable_size(at), SIZE);
        uintptr_t address = (uintptr_t)at;
        __asm__("" : "+r"(address)); /* GCC would see that it is freed */
        free(at);
        struct hf_owner owner = {.size = sizeof owner};
        ck_assert_int_eq(hf_owner_of((void *)address, &owner), 0);
        ck_assert_int_ne(owner.kind, HF_OWNER_CUDA);
    }
}
END_TEST

START_TEST(it_is_known_on_which_device)
{
    begin();
    ck_assert_int_eq(cudaSetDevice(1), 0);
    for (int i = 0; i < WAYS; i++) {
        if (ways[i].release[1] == 'u' &&
            ways[i].release[2] == 'M') /* in the context that there is */
            continue;
        char *at = get(&ways[i]);
        struct hf_owner owner = {.size = sizeof owner};
        ck_assert_int_eq(hf_owner_of(at, &owner), 0);
        ck_assert_int_eq(owner.device, 1);
        free(at);
    }
    ck_assert_int_eq(cudaSetDevice(0), 0);
}
END_TEST

START_TEST(calls_that_fail_change_nothing)
{
    void *at = by_malloc();
    double_fail("cudaFree", 1, 700);
    ck_assert_int_eq(cudaFree(at), 700);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(at, &owner), 0);
    ck_assert_ptr_nonnull(owner.object);
    ck_assert_int_eq(cudaFree((char *)at + 256), 1);
    free(at);
    ck_assert_uint_eq(live(), 0);
    ck_assert_int_eq(cudaMalloc(&at, (size_t)1 << 50), 2);
}
END_TEST

/* ---- what was only registered ---- */

START_TEST(registered_memory_stays_its_allocators)
{
    void *at = malloc(SIZE);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(cudaHostRegister(at, SIZE, 0), 0);
    ck_assert_int_eq(hf_owner_of(at, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_LIBC);
    unsigned long before = double_calls("cudaFreeHost") + double_calls("cudaHostUnregister");
    ck_assert_int_eq(cudaFree(at), 1);
    ck_assert_int_eq(cudaHostUnregister(at), 0);
    ck_assert_int_eq(cudaHostUnregister(at), 713);
    free(at);
    at = malloc(SIZE);
    ck_assert_int_eq(cudaHostRegister(at, SIZE, 0), 0);
    uintptr_t address = (uintptr_t)at;
    __asm__("" : "+r"(address)); /* GCC would see that it is freed */
    free(at);                    /* libc gets it, as without homefree */
    ck_assert_uint_eq(double_calls("cudaFreeHost") + double_calls("cudaHostUnregister"),
                      before + 2);
    ck_assert_int_eq(cudaHostUnregister((void *)address), 0);
}
END_TEST

START_TEST(a_registered_mapping_is_known)
{
    char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(cudaHostUnregister(at), 713);
    ck_assert_int_eq(cudaHostRegister(at, SIZE, 0), 0);
    ck_assert_int_eq(cudaHostRegister(at, SIZE, 0), 712);
    ck_assert_int_eq(hf_owner_of(at + 5000, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_CUDA);
    ck_assert_str_eq(owner.allocator, "CUDA, registered memory");
    ck_assert_ptr_nonnull(strstr(owner.object, "test_space_others"));
    ck_assert_ptr_eq(owner.block, at);
    ck_assert_int_eq(cudaHostUnregister(at), 0);
    ck_assert_int_eq(cudaHostUnregister(at), 713);
    ck_assert_int_eq(hf_owner_of(at, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_UNKNOWN);
    ck_assert_int_eq(cudaHostRegister(at, SIZE, 0), 0);
    munmap(at, SIZE);
    ck_assert_int_eq(hf_owner_of(at, &owner), 0);
    ck_assert_int_ne(owner.kind, HF_OWNER_CUDA);
    ck_assert_int_eq(cudaHostUnregister(at), 0);
}
END_TEST

/* ---- mapped memory ---- */

static const size_t MAPPING = 2 << 20;

static char *map_on(int device, size_t count)
{
    const struct double_property property = {.type = 1, .location = {1, device}};
    const struct double_access access = {{1, device}, 3};
    CUdeviceptr at = 0;
    must(cudaFree(NULL) == 0);
    must(cuMemAddressReserve(&at, count * MAPPING, 0, 0, 0) == 0);
    for (size_t i = 0; i < count; i++) {
        CUmemHandle handle;
        must(cuMemCreate(&handle, MAPPING, &property, 0) == 0);
        must(cuMemMap(at + i * MAPPING, MAPPING, 0, handle, 0) == 0);
        must(cuMemSetAccess(at + i * MAPPING, MAPPING, &access, 1) == 0);
        must(cuMemRelease(handle) == 0);
    }
    return (char *)(uintptr_t)at;
}

START_TEST(mapped_memory_is_known)
{
    char *at = map_on(1, 3);
    struct hf_owner owner = {.size = sizeof owner};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(hf_owner_of(at + i * MAPPING + 100, &owner), 0);
        ck_assert_int_eq(owner.kind, HF_OWNER_CUDA);
        ck_assert_str_eq(owner.allocator, "CUDA, mapped memory of a device");
        ck_assert_ptr_nonnull(strstr(owner.object, "test_space_others"));
        ck_assert_ptr_eq(owner.block, at + i * MAPPING);
        ck_assert_uint_eq(owner.block_size, MAPPING);
        ck_assert_int_eq(owner.device, 1);
    }
    ck_assert_int_eq(cudaFree(at), 1);
    ck_assert_int_eq(cuMemUnmap((uintptr_t)at + 4096, MAPPING), 1);
    ck_assert_int_eq(hf_owner_of(at, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_CUDA);
    ck_assert_int_eq(cuMemUnmap((uintptr_t)at, 2 * MAPPING), 0);
    ck_assert_int_eq(hf_owner_of(at + MAPPING, &owner), 0);
    ck_assert_int_ne(owner.kind, HF_OWNER_CUDA);
    ck_assert_int_eq(hf_owner_of(at + 2 * MAPPING, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_CUDA);
    ck_assert_int_eq(cuMemUnmap((uintptr_t)at + 2 * MAPPING, MAPPING), 0);
}
END_TEST

/* ---- resizing ---- */

START_TEST(resized_memory_keeps_its_contents)
{
    char *at = by_host_alloc();
    memset(at, 7, SIZE);
    const uintptr_t address = (uintptr_t)at;
    at = realloc(at, SIZE / 2);
    ck_assert_uint_eq((uintptr_t)at, address);
    at = realloc(at, (size_t)2 * SIZE);
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(at[SIZE - 1], 7);
    ck_assert_uint_eq(live(), 0);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(at, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_LIBC);
    free(at);
}
END_TEST

/* ---- contexts ---- */

/* CUDA's own function would make a context on device 0. */
static void *free_in_thread(void *at)
{
    free(at);
    return NULL;
}

START_TEST(no_context_is_created)
{
    void *(*const gets[])(void) = {by_malloc, by_host_alloc, by_malloc_async, by_malloc_managed};
    const unsigned created = double_contexts_created(0);
    ck_assert_int_eq(cudaSetDevice(1), 0);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        void *at = gets[i]();
        ck_assert_int_eq(pthread_create(&thread, NULL, free_in_thread, at), 0);
        pthread_join(thread, NULL);
        ck_assert_uint_eq(live(), 0);
    }
    ck_assert_uint_eq(double_contexts_created(0), created);
    ck_assert_int_eq(cudaSetDevice(0), 0);
}
END_TEST

static int ran;

static void kernel(void *argument)
{
    (void)argument;
    ran = 1;
}

/* cudaFree() does not wait for such memory. */
START_TEST(memory_of_a_pool_is_waited_for)
{
    void *at = by_malloc_async();
    ck_assert_int_eq(double_enqueue(NULL, kernel, NULL), 0);
    free(at);
    ck_assert_int_eq(ran, 1);
    ck_assert_uint_eq(live(), 0);
}
END_TEST

/* ---- what cannot go on ---- */

static void free_inside(void *at)
{
    char *inside = (char *)at + 64;
    __asm__("" : "+r"(inside)); /* GCC would see that this is no block */
    free(inside);
}

static void free_pinned_inside(void)
{
    free_inside(by_host_alloc());
}

static void free_device_inside(void)
{
    free_inside(by_malloc());
}

static void free_twice(void)
{
    void *at = by_malloc(), *again = at;
    __asm__("" : "+r"(again));
    free(at);
    free(again);
}

static void free_after_reset(void)
{
    void *at = by_malloc();
    must(cudaDeviceReset() == 0);
    free(at);
}

static void resize_device(void)
{
    free(realloc(by_malloc(), 10));
}

static void free_mapped(void)
{
    free(map_on(0, 1));
}

/* Each in a process of its own: a forked child of one that uses CUDA frees nothing. */
static const struct {
    const char *name;
    void (*run)(void);
    const char *texts[3];
} deaths[] = {
    {"pinned inside",
     free_pinned_inside,
     {"free(0x", "inside a block of others (CUDA, page-locked memory", "test_space_others"}},
    {"device inside", free_device_inside, {"free(0x", "inside a block", "memory of a device 0"}},
    {"twice", free_twice, {"free(0x", "freed already", "called from"}},
    {"after reset", free_after_reset, {"free(0x", "freed already", "called from"}},
    {"mapped", free_mapped, {"free(0x", "mapped memory of a device", "can unmap"}},
    {"resize", resize_device, {"realloc(0x", "cannot copy", "memory of a device 0"}},
};
enum { DEATHS = sizeof deaths / sizeof deaths[0] };

START_TEST(what_is_no_block_ends_the_process)
{
    for (int i = 0; i < DEATHS; i++)
        assert_killed(OUTCOME_OF_SELF(NULL, deaths[i].name), SIGABRT, deaths[i].texts[0],
                      deaths[i].texts[1], deaths[i].texts[2]);
}
END_TEST

/* ---- fork, threads ---- */

static unsigned long calls(void)
{
    return double_calls("cuPointerGetAttributes") + double_calls("cudaFreeHost");
}

static void free_in_child(void *at)
{
    unsigned long before = calls();
    free(at);
    must(calls() == before);
}

START_TEST(a_forked_child_leaves_it)
{
    void *at = by_host_alloc();
    assert_succeeds(outcome_of_call(free_in_child, at));
    free(at);
    ck_assert_uint_eq(live(), 0);
}
END_TEST

static void *allocate_and_free(void *unused)
{
    (void)unused;
    void *held[16] = {NULL};
    for (int i = 0; i < times(2000); i++) {
        void **at = &held[i % 16];
        if (*at != NULL) {
            struct hf_owner owner = {.size = sizeof owner};
            if (i % 64 == 0) {
                must(hf_owner_of((char *)*at + 100, &owner) == 0);
                must(owner.kind == HF_OWNER_CUDA && owner.block == *at);
            }
            must(malloc_usable_size(*at) == 8192);
            if (i % 3 == 0)
                must(cudaFreeHost(*at) == 0);
            else
                free(*at);
        }
        must(cudaMallocHost(at, 8192) == 0);
    }
    for (int i = 0; i < 16; i++)
        free(held[i]);
    return NULL;
}

START_TEST(threads_find_their_own)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_and_free, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(live(), 0);
}
END_TEST

int main(int count, char **arguments)
{
    for (int i = 0; i < DEATHS && count == 2; i++)
        if (strcmp(deaths[i].name, arguments[1]) == 0)
            deaths[i].run();
    TAKE_ARGUMENTS(&other_runtime);
    return RUN_SUITE(whoever_frees_it_it_goes_home, it_goes_home_to_its_runtime,
                     it_is_known_who_got_it, it_is_known_on_which_device,
                     calls_that_fail_change_nothing, registered_memory_stays_its_allocators,
                     a_registered_mapping_is_known, mapped_memory_is_known,
                     resized_memory_keeps_its_contents, no_context_is_created,
                     memory_of_a_pool_is_waited_for, what_is_no_block_ends_the_process,
                     a_forked_child_leaves_it, threads_find_their_own);
}
