/*
 * See worker.h. In C.
 */
#include "worker.h"

#include <dirent.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static void *with_malloc(void)
{
    return malloc(100);
}

static void *with_calloc(void)
{
    return calloc(10, 10);
}

static void *with_realloc(void)
{
    return realloc(NULL, 100);
}

static void *with_reallocarray(void)
{
    return reallocarray(NULL, 10, 10);
}

static void *with_aligned_alloc(void)
{
    return aligned_alloc(256, 256);
}

static void *with_memalign(void)
{
    return memalign(512, 100);
}

static void *with_posix_memalign(void)
{
    void *block = NULL;
    return posix_memalign(&block, 4096, 100) == 0 ? block : NULL;
}

static void *with_valloc(void)
{
    return valloc(100);
}

static void *with_strdup(void)
{
    return strdup(getenv("PATH"));
}

static void *with_strndup(void)
{
    return strndup(getenv("PATH"), 5);
}

static void *with_wcsdup(void)
{
    return wcsdup(L"text");
}

static void *with_asprintf(void)
{
    char *text = NULL;
    return asprintf(&text, "%d %s %.1f", 42, "text", 1.5) == 11 && strcmp(text, "42 text 1.5") == 0
               ? text
               : NULL;
}

static void *format(const char *format, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, format);
    int length = vasprintf(&text, format, ap);
    va_end(ap);
    return length == 4 ? text : NULL;
}

static void *with_vasprintf(void)
{
    return format("%s%d", "a", 123);
}

static void *with_getline(void)
{
    char text[] = "one line\nanother\n";
    char *line = NULL;
    size_t size = 0;
    FILE *file = fmemopen(text, sizeof text - 1, "r");
    if (file == NULL || getline(&line, &size, file) != 9)
        return NULL;
    fclose(file);
    return line;
}

static void *with_realpath(void)
{
    return realpath("/proc/self/../self/maps", NULL);
}

static void *with_getcwd(void)
{
    return getcwd(NULL, 0);
}

static void *with_open_memstream(void)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);
    if (file == NULL || fputs("content", file) < 0 || fclose(file) != 0)
        return NULL;
    return size == 7 ? bytes : NULL;
}

static void *with_scandir(void)
{
    struct dirent **names = NULL;
    int count = scandir("/proc/self", &names, NULL, alphasort);
    for (int i = 0; i < count; i++)
        free(names[i]);
    return names;
}

static void release(void *made)
{
    free(made);
}

static const struct worker_way ways[] = {
    {"malloc", with_malloc, release},
    {"calloc", with_calloc, release},
    {"realloc", with_realloc, release},
    {"reallocarray", with_reallocarray, release},
    {"aligned_alloc", with_aligned_alloc, release},
    {"memalign", with_memalign, release},
    {"posix_memalign", with_posix_memalign, release},
    {"valloc", with_valloc, release},
    {"strdup", with_strdup, release},
    {"strndup", with_strndup, release},
    {"wcsdup", with_wcsdup, release},
    {"asprintf", with_asprintf, release},
    {"vasprintf", with_vasprintf, release},
    {"getline", with_getline, release},
    {"realpath", with_realpath, release},
    {"getcwd", with_getcwd, release},
    {"open_memstream", with_open_memstream, release},
    {"scandir", with_scandir, release},
    {NULL, NULL, NULL},
};

static void *resize(void *block, size_t size)
{
    return realloc(block, size);
}

static void *take(size_t size)
{
    return malloc(size);
}

static void *(*const constant_malloc)(size_t) = malloc;
static void *(*variable_malloc)(size_t) = malloc;
static void *(*changed_malloc)(size_t) = malloc;

__attribute__((visibility("default"))) const struct worker *worker(void)
{
    static const struct worker functions = {
        ways, resize, take, &constant_malloc, &variable_malloc, &changed_malloc,
    };
    return &functions;
}
