/*
 * Takes blocks from one side and gives them to the other. A side is "host" or FLAGS:PATH of a
 * guest, which is opened with the flags (g: RTLD_GLOBAL, d: RTLD_DEEPBIND, l: neither).
 *
 * usage: host {SIDE WHAT SIDE WHAT}...
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace
{
enum { SIZE = 100, TIMES = 3 };

using taker = void *();
using giver = void(void *);

void *take_malloc()
{
    return std::malloc(SIZE);
}

void *take_new()
{
    return ::operator new(SIZE);
}

void *take_array()
{
    return ::operator new[](SIZE);
}

void *take_string()
{
    return new std::string(300, 'x');
}

void give_free(void *ptr)
{
    std::free(ptr);
}

void give_realloc(void *ptr)
{
    std::free(std::realloc(ptr, 50UL * SIZE));
}

void give_new(void *ptr)
{
    ::operator delete(ptr);
}

void give_array(void *ptr)
{
    ::operator delete[](ptr);
}

void give_string(void *ptr)
{
    auto *text = static_cast<std::string *>(ptr);
    text->append(4000, 'd');
    delete text;
}

const struct {
    const char *name;
    taker *take;
    giver *give;
} own[] = {
    {"malloc", take_malloc, nullptr},   {"free", nullptr, give_free},
    {"realloc", nullptr, give_realloc}, {"new", take_new, give_new},
    {"array", take_array, give_array},  {"string", take_string, give_string},
};

void *find(const char *side, const char *prefix, const char *what)
{
    if (std::strcmp(side, "host") == 0)
        for (const auto &function : own)
            if (std::strcmp(function.name, what) == 0)
                return prefix[0] == 't' ? reinterpret_cast<void *>(function.take)
                                        : reinterpret_cast<void *>(function.give);
    int flags = RTLD_NOW;
    flags |= side[0] == 'g' ? RTLD_GLOBAL : 0;
    flags |= side[0] == 'd' ? RTLD_DEEPBIND : 0;
    void *guest = dlopen(side + 2, flags);
    void *function =
        guest != nullptr ? dlsym(guest, (std::string(prefix) + what).c_str()) : nullptr;
    if (function == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(77);
    }
    return function;
}
} // namespace

int main(int count, char **arguments)
{
    for (int at = 1; at + 3 < count; at += 4) {
        auto *take = reinterpret_cast<taker *>(find(arguments[at], "take_", arguments[at + 1]));
        auto *give = reinterpret_cast<giver *>(find(arguments[at + 2], "give_", arguments[at + 3]));
        for (int i = 0; i < TIMES; i++)
            give(take());
    }
    std::puts("survived");
    return 0;
}
