/*
 * A program that replaces operator new and operator delete, puts a header in front of every object,
 * and leaves the sized, array and nothrow operators to the C++ runtime, whose defaults call its
 * own. The objects come from the heap, but only the program's operator knows where they begin.
 */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <sstream>
#include <string>

namespace
{
const std::size_t header = 16;
long live;
} // namespace

void *operator new(std::size_t size)
{
    char *block = static_cast<char *>(std::malloc(size + header));
    if (block == nullptr)
        throw std::bad_alloc();
    *reinterpret_cast<std::size_t *>(block) = size;
    live += static_cast<long>(size);
    return block + header;
}

void operator delete(void *object) noexcept
{
    if (object == nullptr)
        return;
    char *block = static_cast<char *>(object) - header;
    live -= static_cast<long>(*reinterpret_cast<std::size_t *>(block));
    std::free(block);
}

struct Base {
    virtual ~Base() = default;
    int numbers[10];
};

int main()
{
    for (int i = 0; i < 500; i++) {
        delete new Base;
        delete new (std::nothrow) Base;
        delete[] new Base[3];
        delete[] new (std::nothrow) int[7];
        std::map<int, std::string> strings;
        for (int k = 0; k < 10; k++)
            strings[k] = std::string(50, 'a');
        std::ostringstream text; /* allocates and frees inside the runtime */
        text << i << strings[0];
    }
    std::printf("%ld bytes live\n", live);
    return 0;
}
