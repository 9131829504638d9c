/*
 * The rivals of the benchmarks of spaces; see space_rivals.h. Owns the functions that were looked
 * up and the streams. One thread.
 */
#include "space_rivals.h"

#include "bench.h"

#include <homefree/homefree.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 64, NOT_BLOCKING = 1 };

/* Signatures that the runtime has had since CUDA 11.2; an error is an int that is not 0. */
static struct {
    int (*host_alloc)(void **out, size_t size, unsigned flags);
    int (*free_host)(void *ptr);
    int (*alloc)(void **out, size_t size);
    int (*free)(void *ptr);
    int (*alloc_async)(void **out, size_t size, void *stream);
    int (*free_async)(void *ptr, void *stream);
    int (*stream_create)(void **out, unsigned flags);
} cuda;

static struct {
    int (*space_alloc)(void **out, enum hf_space_kind kind, int device, size_t size,
                       size_t alignment, void *stream);
    int (*space_free)(void *ptr, void *stream);
    int (*space_stats)(enum hf_space_kind kind, int device, void *stream,
                       struct hf_space_stats *out);
    int (*space_reason)(enum hf_space_kind kind, int device, char *text, size_t size);
    void *(*malloc)(size_t size);
    void (*free)(void *ptr);
    int (*stats)(struct hf_stats *out);
} hf;

static const struct rival *chosen;
static const char *runtime_file;

static __attribute__((noreturn)) void skip(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(BENCH_SKIPPED);
}

static void *space(enum hf_space_kind kind, size_t size, void *stream)
{
    void *out = NULL;
    return hf.space_alloc(&out, kind, 0, size, 0, stream) == 0 ? out : NULL;
}

static void *take_pinned(size_t size, void *stream)
{
    return space(HF_SPACE_PINNED, size, stream);
}

static void *take_device(size_t size, void *stream)
{
    return space(HF_SPACE_DEVICE, size, stream);
}

static void give_space(void *ptr, void *stream)
{
    if (hf.space_free(ptr, stream) != 0)
        bench_fail("hf_space_free failed");
}

static void *take_heap(size_t size, void *stream)
{
    (void)stream;
    return hf.malloc(size);
}

static void give_heap(void *ptr, void *stream)
{
    (void)stream;
    hf.free(ptr);
}

/* Volatile, so that the compiler does not see a pair whose block is never used. */
static void *(*volatile libc_malloc)(size_t size) = malloc;
static void (*volatile libc_free)(void *ptr) = free;

static void *take_libc(size_t size, void *stream)
{
    (void)stream;
    return libc_malloc(size);
}

static void give_libc(void *ptr, void *stream)
{
    (void)stream;
    libc_free(ptr);
}

static void *take_hostalloc(size_t size, void *stream)
{
    void *out = NULL;
    (void)stream;
    return cuda.host_alloc(&out, size, 0) == 0 ? out : NULL;
}

static void give_hostalloc(void *ptr, void *stream)
{
    (void)stream;
    if (cuda.free_host(ptr) != 0)
        bench_fail("cudaFreeHost failed");
}

static void *take_cudamalloc(size_t size, void *stream)
{
    void *out = NULL;
    (void)stream;
    return cuda.alloc(&out, size) == 0 ? out : NULL;
}

static void give_cudamalloc(void *ptr, void *stream)
{
    (void)stream;
    if (cuda.free(ptr) != 0)
        bench_fail("cudaFree failed");
}

static void *take_async(size_t size, void *stream)
{
    void *out = NULL;
    return cuda.alloc_async(&out, size, stream) == 0 ? out : NULL;
}

static void give_async(void *ptr, void *stream)
{
    if (cuda.free_async(ptr, stream) != 0)
        bench_fail("cudaFreeAsync failed");
}

enum { PINNED, DEVICE, HEAP, LIBC, HOSTALLOC, CUDAMALLOC, ASYNC, RIVALS };

static const struct rival rivals[RIVALS] = {
    [PINNED] = {"pinned", take_pinned, give_space, HF_STREAM_DONE},
    [DEVICE] = {"device", take_device, give_space, NULL},
    [HEAP] = {"heap", take_heap, give_heap, NULL},
    [LIBC] = {"libc", take_libc, give_libc, NULL},
    [HOSTALLOC] = {"hostalloc", take_hostalloc, give_hostalloc, NULL},
    [CUDAMALLOC] = {"cudamalloc", take_cudamalloc, give_cudamalloc, NULL},
    [ASYNC] = {"async", take_async, give_async, NULL},
};

/* The functions of a library, in `table`, in the order of `names`. */
static void look_up(void *library, const char *const *names, size_t count, void *table)
{
    for (size_t i = 0; i < count; i++) {
        void *address = bench_symbol(library, names[i]);
        memcpy((char *)table + i * sizeof address, &address, sizeof address);
    }
}

static void open_runtime(void)
{
    static const char *const names[] = {"cudaHostAlloc",
                                        "cudaFreeHost",
                                        "cudaMalloc",
                                        "cudaFree",
                                        "cudaMallocAsync",
                                        "cudaFreeAsync",
                                        "cudaStreamCreateWithFlags"};
    _Static_assert(sizeof names == sizeof cuda, "a name for each function");
    if (cuda.free != NULL)
        return;
    void *library = dlopen(runtime_file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        skip(dlerror());
    look_up(library, names, sizeof names / sizeof *names, &cuda);
}

static void open_homefree(const char *file)
{
    static const char *const names[] = {"hf_space_alloc",  "hf_space_free", "hf_space_stats",
                                        "hf_space_reason", "hf_malloc",     "hf_free",
                                        "hf_stats"};
    _Static_assert(sizeof names == sizeof hf, "a name for each function");
    if (file == NULL)
        bench_fail("--library is missing");
    look_up(bench_open(file, RTLD_NOW | RTLD_LOCAL), names, sizeof names / sizeof *names, &hf);
}

const struct rival *rival_open(int argc, char **argv)
{
    const char *how = bench_argument(argc, argv, "--how", "");
    runtime_file = bench_argument(argc, argv, "--runtime", "libcudart.so.13");
    for (size_t i = 0; i < RIVALS; i++)
        if (strcmp(rivals[i].name, how) == 0)
            chosen = &rivals[i];
    if (chosen == NULL)
        bench_fail("--how is missing or unknown: '%s'", how);
    if (chosen <= &rivals[HEAP])
        open_homefree(bench_argument(argc, argv, "--library", NULL));
    if (chosen >= &rivals[HOSTALLOC])
        open_runtime();

    void *first = chosen->take(1 << 20, NULL);
    if (first == NULL && chosen >= &rivals[HOSTALLOC])
        skip("the CUDA runtime finds no device");
    if (first == NULL && chosen <= &rivals[DEVICE]) {
        char why[256] = "";
        enum hf_space_kind kind = chosen == &rivals[PINNED] ? HF_SPACE_PINNED : HF_SPACE_DEVICE;
        hf.space_reason(kind, 0, why, sizeof why);
        skip(why[0] != 0 ? why : "homefree has no such space here");
    }
    if (first == NULL)
        bench_fail("%s has no room for the first block", how);
    chosen->give(first, chosen->done);
    return chosen;
}

void *rival_stream(unsigned number)
{
    static void *streams[STREAMS];
    bool uses_streams = chosen <= &rivals[DEVICE] || chosen >= &rivals[HOSTALLOC];
    if (number >= STREAMS)
        bench_fail("a trace has at most %d streams", STREAMS);
    if (number == 0 || !uses_streams)
        return NULL;
    open_runtime();
    if (streams[number] == NULL && cuda.stream_create(&streams[number], NOT_BLOCKING) != 0)
        bench_fail("cudaStreamCreateWithFlags failed");
    return streams[number];
}

void rival_go_on(void)
{
    static void (*advance)(unsigned steps);
    static bool looked;
    /* A device's blocks come back to the stream that had them, without an event. */
    if (!looked && chosen == &rivals[PINNED]) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        advance = driver != NULL ? (void (*)(unsigned))dlsym(driver, "double_advance") : NULL;
        looked = true;
    }
    if (advance != NULL)
        advance(1);
}

uint64_t rival_reserved(void)
{
    if (chosen <= &rivals[DEVICE]) {
        struct hf_space_stats stats = {.size = sizeof stats};
        enum hf_space_kind kind = chosen == &rivals[PINNED] ? HF_SPACE_PINNED : HF_SPACE_DEVICE;
        if (hf.space_stats(kind, 0, HF_STREAM_ANY, &stats) != 0)
            bench_fail("hf_space_stats failed");
        return stats.reserved_peak;
    }
    if (chosen == &rivals[HEAP]) {
        struct hf_stats stats = {.size = sizeof stats};
        return hf.stats(&stats) == 0 ? stats.region_used : 0;
    }
    return 0;
}
