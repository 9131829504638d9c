/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/libc.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Strings in the heap. */
static void strings(void)
{
    char *all = hf_strdup("heap and libc");
    char *part = hf_strndup(all, 4);
    wchar_t *wide = hf_wcsdup(L"wide");
    assert(hf_owns(all) && strcmp(part, "heap") == 0 && wcscmp(wide, L"wide") == 0);
    hf_free(all);
    hf_free(part);
    hf_free(wide);
}

/* A message of any length. */
static char *message(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = hf_vasprintf(&text, format, args);
    va_end(args);
    return length < 0 ? NULL : text;
}

static void printed(void)
{
    char *text = NULL;
    int length = hf_asprintf(&text, "%d blocks", 12);
    assert(length == 9 && strcmp(text, "12 blocks") == 0);
    hf_free(text);
    hf_free(message("%s", "any length"));
}

/* A file's lines, or its fields, in one buffer that grows. */
static void lines(FILE *stream)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length = hf_getline(&line, &size, stream);
    assert(length == 6 && strcmp(line, "first\n") == 0);
    length = hf_getdelim(&line, &size, ',', stream);
    assert(length == 2 && strcmp(line, "a,") == 0);
    hf_free(line);
}

/* Absolute paths. */
static void paths(void)
{
    char *root = hf_realpath("/usr/..", NULL), *same = hf_canonicalize_file_name("/");
    assert(strcmp(root, "/") == 0 && strcmp(same, "/") == 0);
    char *here = hf_getcwd(NULL, 0), *there = hf_get_current_dir_name();
    assert(here != NULL && there != NULL);
    hf_free(root);
    hf_free(same);
    hf_free(here);
    hf_free(there);
}

/* Where we are: the strings are part of the array's block. */
static void trace(void)
{
    void *addresses[16];
    int count = backtrace(addresses, 16);
    char **names = hf_backtrace_symbols(addresses, count);
    assert(names != NULL);
    hf_free(names);
}

/* A text that is written as a file is. */
static void stream(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = hf_open_memstream(&text, &size);
    assert(out != NULL);
    fprintf(out, "%d", 4711);
    fclose(out);
    assert(size == 4 && strcmp(text, "4711") == 0);
    hf_free(text);
}

/* A directory's entries in the order of their names. */
static void entries(void)
{
    struct dirent **names = NULL;
    int count = hf_scandir("/usr", &names, NULL, alphasort);
    for (int i = 0; i < count; i++)
        hf_free(names[i]);
    hf_free(names);

    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    count = hf_scandirat(root, "usr", &names, NULL, alphasort);
    assert(count > 2);
    for (int i = 0; i < count; i++)
        hf_free(names[i]);
    hf_free(names);
    close(root);
}

int main(void)
{
    char file[] = "first\na,b";
    FILE *input = fmemopen(file, sizeof file - 1, "r");
    strings();
    printed();
    lines(input);
    fclose(input);
    paths();
    trace();
    stream();
    entries();
    return 0;
}
