/*
 * libc.cc - memory that crosses between the module and libc: what libc's functions hand out and the
 * module frees, and what the module allocated and libc grows or frees.
 *
 * homefree's shim stands in front of strdup, getline and their like, so that their memory is the
 * heap's from the start. The other half of this file avoids it: functions that no list can hold,
 * and libc's own getline through a pointer.
 */
#include "crossings.h"

#include <argz.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <dirent.h>
#include <dlfcn.h>
#include <memory>

namespace crossings
{

/* A stream that reads `text`, which must live as long. */
static std::unique_ptr<FILE, int (*)(FILE *)> reading(std::string &text)
{
    return {fmemopen(text.data(), text.size(), "r"), fclose};
}

template <typename Function> static Function *from_libc(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    require(address != nullptr, "libc lacks a function");
    return reinterpret_cast<Function *>(address);
}

/* ---- libc hands out, the module frees -------------------------------------------------------- */

void take_strdup()
{
    const std::string text = own_text(1000);
    char *copy = strdup(text.c_str());
    require(copy != nullptr && text == copy, "strdup: wrong copy");
    free(copy);
    copy = strndup(text.c_str(), 500);
    require(copy != nullptr && text.compare(0, 500, copy) == 0, "strndup: wrong copy");
    free(copy);
}

void take_realpath()
{
    char *path = realpath("/proc/../dev/./null", nullptr);
    require(path != nullptr && strcmp(path, "/dev/null") == 0, "realpath: wrong path");
    free(path);
}

void take_getline()
{
    std::string text = own_text(3001);
    text.back() = '\n';
    const auto stream = reading(text);
    char *line = nullptr;
    std::size_t size = 0;
    require(getline(&line, &size, stream.get()) == 3001, "getline: wrong length");
    require(text == line, "getline: wrong line");
    free(line);
}

void take_asprintf()
{
    char *text = nullptr;
    require(asprintf(&text, "%s %d", own_text(500).c_str(), 42) == 503, "asprintf: wrong length");
    require(strcmp(text + 500, " 42") == 0, "asprintf: wrong text");
    free(text);
}

void take_scandir()
{
    struct dirent **entries = nullptr;
    const int count = scandir("/proc/self", &entries, nullptr, alphasort);
    require(count > 2 && strcmp(entries[0]->d_name, ".") == 0, "scandir: wrong entries");
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

void take_unlisted()
{
    char *word = nullptr;
    require(sscanf("alpha beta", "%ms", &word) == 1, "scanf: nothing read");
    require(strcmp(word, "alpha") == 0, "scanf: wrong word");
    free(word);

    wchar_t *wide = nullptr;
    std::size_t wide_length = 0;
    FILE *memory = open_wmemstream(&wide, &wide_length);
    for (int i = 0; i < 1000; i++)
        fputwc(L'w', memory);
    fclose(memory);
    require(wide_length == 1000 && wide[999] == L'w', "open_wmemstream: wrong text");
    free(wide);

    char *vector = nullptr;
    std::size_t length = 0;
    require(argz_create_sep("one:two", ':', &vector, &length) == 0, "argz: not created");
    require(length == 8 && strcmp(vector + 4, "two") == 0, "argz: wrong vector");
    free(vector);

    std::string text = own_text(3000);
    const auto stream = reading(text);
    auto *libc_getdelim = from_libc<ssize_t(char **, std::size_t *, int, FILE *)>("getdelim");
    char *line = nullptr;
    std::size_t size = 0;
    require(libc_getdelim(&line, &size, 'c', stream.get()) == 3, "getdelim: wrong length");
    require(strcmp(line, "abc") == 0, "getdelim: wrong text");
    free(line);
}

/* ---- the module allocates, libc grows or frees ----------------------------------------------- */

void give_to_grow()
{
    std::string text = own_text(30001);
    text.back() = '\n';
    const auto stream = reading(text);
    auto *libc_getline = from_libc<ssize_t(char **, std::size_t *, FILE *)>("getline");
    std::size_t size = 16;
    char *line = static_cast<char *>(malloc(size));
    require(libc_getline(&line, &size, stream.get()) == 30001, "getline: wrong length");
    require(size > 30001 && text == line, "getline: wrong line");
    free(line);

    std::size_t length = 4;
    char *vector = static_cast<char *>(malloc(length));
    memcpy(vector, "one", length);
    const std::string addition = own_text(5000);
    require(argz_add(&vector, &length, addition.c_str()) == 0, "argz: not added");
    require(length == 5005 && addition == vector + 4, "argz: wrong vector");
    free(vector);
}

void give_to_free()
{
    std::size_t length = 4;
    char *vector = static_cast<char *>(malloc(length));
    memcpy(vector, "one", length);
    argz_delete(&vector, &length, vector);
    require(vector == nullptr && length == 0, "argz: not deleted");
}

} // namespace crossings
