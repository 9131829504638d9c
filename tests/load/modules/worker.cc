/*
 * See worker.h. In C++: the operators, and classes and containers that use them.
 */
#include "worker.h"

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace
{

struct alignas(128) Aligned {
    char bytes[128];
};

/* A class with operators of its own, which every object that uses it defines. */
struct Own {
    char bytes[64];
    static void *operator new(size_t size)
    {
        return std::malloc(size);
    }
    static void operator delete(void *ptr)
    {
        std::free(ptr);
    }
};

template <typename T> void remove(void *made)
{
    delete static_cast<T *>(made);
}

void remove_array(void *made)
{
    delete[] static_cast<char *>(made);
}

void remove_data(void *made)
{
    std::free(made);
}

const worker_way ways[] = {
    {"new", [] { return static_cast<void *>(new long(42)); }, remove<long>},
    {"new[]", [] { return static_cast<void *>(new char[100]); }, remove_array},
    {"nothrow", [] { return static_cast<void *>(new (std::nothrow) long(42)); }, remove<long>},
    {"nothrow[]", [] { return static_cast<void *>(new (std::nothrow) char[100]); }, remove_array},
    {"aligned", [] { return static_cast<void *>(new Aligned); }, remove<Aligned>},
    {"own", [] { return static_cast<void *>(new Own); }, remove<Own>},
    {"vector",
     [] { return static_cast<void *>(new std::vector<std::string>(3, std::string(99, 'x'))); },
     remove<std::vector<std::string>>},
    {"malloc", [] { return std::malloc(10); }, remove_data},
    {nullptr, nullptr, nullptr},
};

void *resize(void *block, size_t size)
{
    return std::realloc(block, size);
}

void *take(size_t size)
{
    try {
        void *volatile block = ::operator new(size);
        return block != nullptr ? block : reinterpret_cast<void *>(1); /* should have thrown */
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void *(*const constant_malloc)(size_t) = std::malloc;
void *(*variable_malloc)(size_t) = std::malloc;
void *(*changed_malloc)(size_t) = std::malloc;

} // namespace

extern "C" __attribute__((visibility("default"))) const struct worker *worker(void)
{
    static const struct worker functions = {
        ways, resize, take, &constant_malloc, &variable_malloc, &changed_malloc,
    };
    return &functions;
}
