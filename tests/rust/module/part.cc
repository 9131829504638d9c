// C++ in the same module: malloc, new, and a string that the C++ runtime grows.
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" void *part_malloc(std::size_t size)
{
    return std::memset(std::malloc(size), 1, size);
}

extern "C" void *part_new(std::size_t size)
{
    return std::memset(new char[size], 2, size);
}

extern "C" void part_delete(void *block)
{
    delete[] static_cast<char *>(block);
}

extern "C" std::size_t part_string(std::size_t size)
{
    std::string text;
    while (text.size() < size)
        text += "allocate anywhere ";
    return text.size();
}
