/* Every allocating function of libc fails on demand in a process that is on the heap as a whole,
 * also under diagnosis: run by `homefree run`. */
#include <dlfcn.h>
#include <errno.h>
#include <homefree/fail.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *block;

static void *malloc_small(void)
{
    return malloc(100);
}

static void *malloc_large(void)
{
    return malloc(1 << 20);
}

static void *calloc_small(void)
{
    return calloc(1, 100);
}

static void *calloc_large(void)
{
    return calloc(1, 1 << 20);
}

static void *realloc_null(void)
{
    return realloc(NULL, 100);
}

static void *realloc_grow(void)
{
    void *grown = realloc(block, malloc_usable_size(block) * 2);
    block = grown != NULL ? NULL : block;
    return grown;
}

static void *reallocarray_null(void)
{
    return reallocarray(NULL, 10, 10);
}

static void *aligned(void)
{
    return aligned_alloc(64, 640);
}

static void *memory_aligned(void)
{
    return memalign(4096, 100);
}

static void *posix_aligned(void)
{
    void *out = NULL;
    int error = posix_memalign(&out, 64, 100);
    if (error != 0)
        errno = error;
    return out;
}

static void *string(void)
{
    return strdup("text");
}

int main(void)
{
    static const struct {
        const char *name;
        void *(*call)(void);
    } functions[] = {
        {"malloc", malloc_small},
        {"malloc of 1 MiB", malloc_large},
        {"calloc", calloc_small},
        {"calloc of 1 MiB", calloc_large},
        {"realloc(NULL)", realloc_null},
        {"realloc", realloc_grow},
        {"reallocarray", reallocarray_null},
        {"aligned_alloc", aligned},
        {"memalign", memory_aligned},
        {"posix_memalign", posix_aligned},
        {"strdup", string},
    };
    __typeof__(&hf_fail_at) fail_at;
    __typeof__(&hf_fail_end) end;
    *(void **)&fail_at = dlsym(RTLD_DEFAULT, "hf_fail_at");
    *(void **)&end = dlsym(RTLD_DEFAULT, "hf_fail_end");
    if (fail_at == NULL || end == NULL)
        return 2;
    int result = 0;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        struct hf_fail_counts counts = {.size = sizeof counts};
        block = malloc(100);
        errno = 0;
        int error = fail_at(1, 0);
        void *failed = functions[i].call();
        int reason = errno;
        void *made = functions[i].call();
        int ended = end(0, &counts);
        if (error != 0 || ended != 0 || failed != NULL || reason != ENOMEM || made == NULL ||
            counts.failed != 1) {
            fprintf(stderr, "%s: %p, then %p, errno %d, %lu of %lu failed\n", functions[i].name,
                    failed, made, reason, (unsigned long)counts.failed,
                    (unsigned long)counts.calls);
            result = 1;
        }
        free(made);
        free(block);
    }
    return result;
}
