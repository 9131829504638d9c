/*
 * A program that exports malloc and its kind, but not reallocarray(), and so serves libc and the
 * C++ runtime. Its free() accepts only what its malloc() returned.
 */
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace
{
alignas(16) char arena[16 << 20];
std::size_t used;
long live;
} // namespace

EXPORTED void *malloc(std::size_t size)
{
    std::size_t capacity = (size + 15) & ~static_cast<std::size_t>(15);
    char *block = arena + used;
    used += capacity + 16;
    *reinterpret_cast<std::size_t *>(block) = size;
    live++;
    return block + 16;
}

EXPORTED void free(void *ptr)
{
    if (ptr == nullptr)
        return;
    char *block = static_cast<char *>(ptr);
    if (block < arena || block >= arena + sizeof arena)
        std::abort();
    live--;
}

EXPORTED void *calloc(std::size_t count, std::size_t size)
{
    return malloc(count * size); /* the arena is zero and used once */
}

EXPORTED void *realloc(void *ptr, std::size_t size)
{
    void *grown = malloc(size);
    if (ptr != nullptr) {
        std::size_t old = *reinterpret_cast<std::size_t *>(static_cast<char *>(ptr) - 16);
        std::memcpy(grown, ptr, old < size ? old : size);
        free(ptr);
    }
    return grown;
}

int main()
{
    long before = live;
    int *numbers = static_cast<int *>(reallocarray(nullptr, 5, sizeof(int)));
    numbers[4] = 7;
    numbers = static_cast<int *>(reallocarray(numbers, 500, sizeof(int)));
    int seventh = numbers[4];
    free(numbers);
    free(strdup("copy"));
    int *object = new int(3);
    long with = live - before;
    delete object;
    delete[] new char[100];
    long after = live - before;
    std::printf("%d, %ld live, %ld live\n", seventh, with, after);
    return 0;
}
