/*
 * A module that allocates and frees for others. Compiled and linked in several ways: with malloc
 * and free of a private allocator, with another allocator's own functions (ALLOCATE, RELEASE), with
 * a C++ runtime of its own.
 */
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define TAKE(what)                           \
    extern "C" EXPORTED void *take_##what(); \
    void *take_##what()
#define GIVE(what)                                   \
    extern "C" EXPORTED void give_##what(void *ptr); \
    void give_##what(void *ptr)

#ifdef ALLOCATE
extern "C" void *ALLOCATE(std::size_t size);
#else
#    define ALLOCATE std::malloc
#endif
#if defined(RELEASE_FLAGS) /* jemalloc's */
extern "C" void RELEASE_FLAGS(void *ptr, int flags);
#    define RELEASE(ptr) RELEASE_FLAGS(ptr, 0)
#elif defined(RELEASE)
extern "C" void RELEASE(void *ptr);
#else
#    define RELEASE std::free
#endif

enum { SIZE = 100, PAGE = 4096 };

TAKE(malloc)
{
    return ALLOCATE(SIZE);
}

TAKE(new)
{
    return ::operator new(SIZE);
}

TAKE(array)
{
    return ::operator new[](SIZE);
}

TAKE(strdup)
{
    return strdup("a copy of some text");
}

TAKE(realpath)
{
    return realpath("/", nullptr);
}

TAKE(getcwd)
{
    return getcwd(nullptr, 0);
}

TAKE(literal)
{
    return const_cast<char *>("a literal of the guest's");
}

/* As memory of a device: a mapping that no allocator made. Inside it, before what is zero. */
TAKE(mapping)
{
    return static_cast<char *>(mmap(nullptr, 2L * PAGE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) +
           PAGE;
}

/* A string that the C++ runtime's code has grown. */
TAKE(string)
{
    auto *text = new std::string(40, 'a');
    text->append(400, 'b');
    return text;
}

GIVE(free)
{
    RELEASE(ptr);
}

GIVE(new)
{
    ::operator delete(ptr);
}

GIVE(array)
{
    ::operator delete[](ptr);
}

GIVE(string)
{
    auto *text = static_cast<std::string *>(ptr);
    text->append(4000, 'c');
    delete text;
}
