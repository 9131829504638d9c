/*
 * A program that is linked with an allocator and mixes its own functions with the standard ones, as
 * it may: without homefree both are that allocator's.
 */
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#ifdef FLAGS /* jemalloc's functions take flags */
extern "C" void *ALLOCATE(std::size_t size, int flags);
extern "C" void RELEASE(void *ptr, int flags);
#    define AND_FLAGS , 0
#else
extern "C" void *ALLOCATE(std::size_t size);
extern "C" void RELEASE(void *ptr);
#    define AND_FLAGS
#endif

int main()
{
    for (std::size_t size = 1; size < 100000; size *= 3) {
        std::free(ALLOCATE(size AND_FLAGS));
        RELEASE(std::malloc(size) AND_FLAGS);
        std::free(std::realloc(ALLOCATE(size AND_FLAGS), 2 * size));
        std::string text(size, 'a');
        text.append(2 * size, 'b');
        delete[] new char[size];
    }
    std::puts("survived");
    return 0;
}
