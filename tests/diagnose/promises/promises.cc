// One misuse of the heap for each name; test_promises.py has the table of what comes of it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace
{

void *volatile hidden;

// The compiler must not know what happens to the pointer.
template <class T> T *hide(T *ptr)
{
    hidden = ptr;
    return static_cast<T *>(hidden);
}

char *filled(size_t size)
{
    char *p = hide(static_cast<char *>(malloc(size)));
    memset(p, 'x', size);
    return p;
}

void twice(size_t size, int between, int after = 0)
{
    enum { MOST = 600 };
    char *p = filled(size), *others[MOST];
    for (int i = 0; i < between + after; i++)
        others[i] = filled(size);
    free(p);
    for (int i = 0; i < between; i++)
        free(others[i]);
    free(hide(p));
    for (int i = between; i < between + after; i++)
        free(others[i]);
}

void write_after_free(size_t size)
{
    char *p = filled(size);
    free(p);
    memset(hide(p), 'y', size);
    free(filled(size));
}

void overflow(size_t size, size_t amount)
{
    char *p = filled(size), *next = filled(size);
    memset(hide(p) + size, 'y', amount);
    free(p);
    free(next);
}

char in_data[64];

struct misuse {
    const char *name;
    void (*make)();
};

const misuse misuses[] = {
    {"double", [] { twice(100, 0); }},
    {"double-delayed", [] { twice(100, 3); }},
    {"double-long-delayed", [] { twice(100, 300, 300); }},
    {"double-large", [] { twice(200000, 0); }},
    {"double-large-delayed", [] { twice(200000, 3); }},
    {"interior", [] { free(hide(filled(100) + 16)); }},
    {"interior-unaligned", [] { free(hide(filled(100) + 1)); }},
    {"interior-large", [] { free(hide(filled(200000) + 4096)); }},
    {"never-allocated", [] { free(hide(filled(100) + (size_t{1} << 30))); }},
    {"static", [] { free(hide(in_data)); }},
    {"stack",
     [] {
         char on_stack[64];
         free(hide(on_stack));
     }},
    {"unmapped",
     [] {
         // libc's free reads the word before the pointer: the page before it is unmapped as well.
         constexpr size_t size = 64 * 4096;
         void *p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         munmap(p, size);
         free(hide(static_cast<char *>(p) + size / 2));
     }},
    {"null-page", [] { free(hide(reinterpret_cast<char *>(uintptr_t{16}))); }},
    {"wrong-size", [] { operator delete (hide(operator new(100)), size_t{3000}); }},
    {"under-aligned", [] { operator delete (hide(operator new(100)), std::align_val_t{256}); }},
    {"overflow-one", [] { overflow(100, 1); }},
    {"overflow-next", [] { overflow(100, 40); }},
    {"write-after-free", [] { write_after_free(100); }},
    {"write-after-free-large", [] { write_after_free(200000); }},
};

} // namespace

int main(int argc, char **argv)
{
    for (const misuse &one : misuses)
        if (argc < 2)
            puts(one.name);
        else if (strcmp(one.name, argv[1]) == 0)
            return one.make(), 0;
    return argc < 2 ? 0 : 2;
}
