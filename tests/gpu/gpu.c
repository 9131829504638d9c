/*
 * Runs the cases: gpu_tests [NAME...]. Without names all, each in a process of its own, one line
 * each, and a line of counts. The exit status is 1 if one failed.
 *
 * The kernels are in a library of their own that nvcc makes, GPU_KERNELS in the environment: it
 * cannot be loaded beside the double of CUDA.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, SECONDS = 120 };

static const struct gpu_case *const tables[] = {gpu_blocks, gpu_order, gpu_limits, gpu_process,
                                                gpu_threads};

void gpu_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *name = strrchr(file, '/');
    fprintf(stdout, "%s:%d: ", name != NULL ? name + 1 : file, line);
    vfprintf(stdout, format, args);
    va_end(args);
    fputc('\n', stdout);
    fflush(stdout);
    _exit(1); /* the runtime may wait for work at an ordinary exit */
}

void gpu_skip(const char *why)
{
    fprintf(stdout, "%s\n", why);
    fflush(stdout);
    _exit(SKIPPED);
}

/* ---- what cases share ---- */

void *gpu_take(enum hf_space_kind kind, size_t size, cudaStream_t stream)
{
    void *out = NULL;
    int error = hf_space_alloc(&out, kind, 0, size, 0, stream);
    if (error != 0) {
        char why[256] = "";
        hf_space_reason(kind, 0, why, sizeof why);
        gpu_fail(__FILE__, __LINE__, "hf_space_alloc of %zu bytes: %s %s", size, strerror(-error),
                 why);
    }
    return out;
}

void gpu_give(void *ptr, void *stream)
{
    gpu_equal(hf_space_free(ptr, stream), 0);
}

struct hf_space_stats gpu_stats(enum hf_space_kind kind)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    gpu_equal(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats), 0);
    return stats;
}

struct hf_space gpu_space_of(const void *ptr)
{
    struct hf_space space = {.size = sizeof space};
    gpu_equal(hf_space_of(ptr, &space), 0);
    return space;
}

cudaStream_t gpu_stream(void)
{
    cudaStream_t stream = NULL;
    gpu_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static unsigned char pattern_at(size_t i, unsigned seed)
{
    uint64_t mixed =
        (i / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xd6e8feb86659fd93);
    return (unsigned char)(mixed >> (8 * (i % 8)));
}

void gpu_pattern(void *at, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)at)[i] = pattern_at(i, seed);
}

bool gpu_has_pattern(const void *at, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)at)[i] != pattern_at(i, seed))
            return false;
    return true;
}

bool gpu_all_bytes(const void *device, size_t size, unsigned char value)
{
    unsigned char *copy = malloc(size);
    gpu_check(copy != NULL);
    gpu_cuda(cudaMemcpy(copy, device, size, cudaMemcpyDeviceToHost));
    bool all = true;
    for (size_t i = 0; i < size; i++)
        all = all && copy[i] == value;
    free(copy);
    return all;
}

/* ---- kernels ---- */

typedef int spin_function(void *stream, unsigned milliseconds);
typedef int fill_function(void *at, size_t size, unsigned char value, void *stream);

static spin_function *spin;
static fill_function *fill;

static void find_kernels(void)
{
    const char *path = getenv("GPU_KERNELS");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL)
        return;
    spin = (spin_function *)dlsym(library, "gpu_kernel_spin");
    fill = (fill_function *)dlsym(library, "gpu_kernel_fill");
}

bool gpu_has_kernels(void)
{
    return spin != NULL && fill != NULL;
}

void gpu_spin(cudaStream_t stream, unsigned milliseconds)
{
    if (spin != NULL)
        gpu_equal(spin(stream, milliseconds), 0);
}

void gpu_fill(void *at, size_t size, unsigned char value, cudaStream_t stream)
{
    gpu_check(fill != NULL);
    gpu_equal(fill(at, size, value, stream), 0);
}

/* ---- running ---- */

static const struct gpu_case *find(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct gpu_case *each = tables[i]; each->name != NULL; each++)
            if (strcmp(each->name, name) == 0)
                return each;
    return NULL;
}

static int run_here(const char *name)
{
    const struct gpu_case *found = find(name);
    if (found == NULL)
        gpu_fail(__FILE__, __LINE__, "there is no case '%s'", name);
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        gpu_skip("no CUDA device");
    find_kernels();
    if (found->needs_kernel && !gpu_has_kernels())
        gpu_skip("no kernels here");
    found->run();
    gpu_equal(cudaGetLastError(), cudaSuccess);
    return 0;
}

/* The status of a case in a process of its own, and the last line that it wrote. */
static int run_apart(const char *name, char *line, size_t size)
{
    int pipes[2];
    if (pipe(pipes) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        alarm(SECONDS);
        execl("/proc/self/exe", "gpu_tests", "--here", name, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    char text[4096];
    size_t filled = 0;
    for (ssize_t got; (got = read(pipes[0], text + filled, sizeof text - 1 - filled)) != 0;) {
        if (got < 0 && errno != EINTR)
            break;
        filled += got > 0 ? (size_t)got : 0;
        if (filled == sizeof text - 1)
            filled = 0;
    }
    close(pipes[0]);
    text[filled] = '\0';
    while (filled > 0 && text[filled - 1] == '\n')
        text[--filled] = '\0';
    char *last = strrchr(text, '\n');
    snprintf(line, size, "%.500s", last != NULL ? last + 1 : text);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFSIGNALED(status)) {
        snprintf(line, size, "%s",
                 WTERMSIG(status) == SIGALRM ? "took too long" : strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
    return WEXITSTATUS(status);
}

static int counts[3]; /* passed, failed, skipped */

static void run(const char *name)
{
    static const char *const words[] = {"ok", "FAILED", "skipped"};
    char line[512];
    int status = run_apart(name, line, sizeof line);
    int which = status == 0 ? 0 : status == SKIPPED ? 2 : 1;
    counts[which]++;
    printf("%-8s %s%s%s\n", words[which], name, which != 0 ? ": " : "", which != 0 ? line : "");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--here") == 0)
        return run_here(argv[2]);
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    for (size_t i = 0; argc == 1 && i < sizeof tables / sizeof *tables; i++)
        for (const struct gpu_case *each = tables[i]; each->name != NULL; each++)
            run(each->name);
    printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
    return counts[1] != 0;
}
