/*
 * Deletes as C++ programs get them wrong, each by the delete expression or operator that does it.
 * Built with the shim, and without: then the operators are libstdc++'s, deletes are routed, and the
 * blocks come from the heap in the library that HEAP names. Run by test_deletes.c.
 *
 *   deletes CASE
 */
#include "../../../support/cases.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>

namespace
{

void *volatile hidden;

/* Hides from the compiler which object the pointer refers to. */
template <class T> T *hide(void *ptr)
{
    hidden = ptr;
    return static_cast<T *>(hidden);
}

struct base {
    char bytes[40];
};
struct derived : base {
    char more[24];
};
struct alignas(64) wide {
    char bytes[64];
};
struct narrow {
    char bytes[64];
};
struct counted {
    ~counted()
    {
        std::memset(bytes, 0, sizeof bytes);
    }
    char bytes[24];
};

using memalign_function = void *(std::size_t alignment, std::size_t size);
memalign_function *memalign_of_heap;

void *get(std::size_t size, std::size_t alignment)
{
    if (memalign_of_heap != nullptr)
        return memalign_of_heap(alignment, size);
    if (alignment <= alignof(std::max_align_t))
        return ::operator new(size);
    return ::operator new(size, static_cast<std::align_val_t>(alignment));
}

/* Returns a block that is aligned to 16 bytes at most. */
void *get_narrow(std::size_t size)
{
    for (int i = 0; i < 100; i++) {
        void *ptr = get(size, 16);
        if (reinterpret_cast<std::uintptr_t>(ptr) % 32 != 0)
            return ptr;
    }
    std::abort();
}

void correct()
{
    delete new (get(sizeof(derived), 16)) derived;
    delete new (get(sizeof(wide), alignof(wide))) wide;
    ::operator delete(get(100, 64), 100, std::align_val_t(64));
    ::operator delete(get(100, 64), std::align_val_t(64));
    ::operator delete[](get(100, 4096), std::align_val_t(4096), std::nothrow);
    ::operator delete(nullptr, 8, std::align_val_t(3));
    ::operator delete(get(0, 16), std::size_t(0));
}

void through_base()
{
    delete hide<base>(new (get(sizeof(derived), 16)) derived);
}

void array_sized()
{
    ::operator delete[](hide<void>(get(100, 16)), std::size_t(99));
}

void aligned_sized()
{
    ::operator delete(hide<void>(get(100, 64)), std::size_t(164), std::align_val_t(64));
}

void over_aligned()
{
    delete hide<wide>(new (get_narrow(sizeof(narrow))) narrow);
}

void aligned_only()
{
    ::operator delete[](hide<void>(get_narrow(64)), std::align_val_t(32));
}

void aligned_nothrow()
{
    ::operator delete(hide<void>(get_narrow(64)), std::align_val_t(4096), std::nothrow);
}

void no_power()
{
    ::operator delete(hide<void>(get(96, 64)), std::align_val_t(48));
}

void no_alignment()
{
    ::operator delete(hide<void>(get(96, 64)), std::size_t(96), std::align_val_t(0));
}

/* The second block keeps the span: an empty one is given back, and then no block is there to be
 * reported as free. */
void twice()
{
    hide<void>(get(sizeof(derived), 16));
    derived *object = new (get(sizeof(derived), 16)) derived, *other = hide<derived>(object);
    delete object;
    delete hide<derived>(other);
}

void twice_aligned()
{
    hide<void>(get(sizeof(wide), alignof(wide)));
    wide *object = new (get(sizeof(wide), alignof(wide))) wide, *other = hide<wide>(object);
    delete object;
    delete hide<wide>(other);
}

void interior()
{
    derived *object = new (get(sizeof(derived), 16)) derived;
    delete hide<base>(object->bytes + 16);
}

void interior_aligned()
{
    char *bytes = hide<char>(get(256, 64));
    ::operator delete(hide<void>(bytes + 64), std::align_val_t(64));
}

/* Deletes an array as an object; the array's length is stored in front of its first element. */
void array_as_object()
{
    auto *length = hide<std::size_t>(get(sizeof(std::size_t) + 3 * sizeof(counted), 16));
    *length = 3;
    delete hide<counted>(length + 1);
}

const named_case cases[] = {
    {"correct", correct},
    {"through base", through_base},
    {"array sized", array_sized},
    {"aligned sized", aligned_sized},
    {"over aligned", over_aligned},
    {"aligned only", aligned_only},
    {"aligned nothrow", aligned_nothrow},
    {"no power", no_power},
    {"no alignment", no_alignment},
    {"twice", twice},
    {"twice aligned", twice_aligned},
    {"interior", interior},
    {"interior aligned", interior_aligned},
    {"array as object", array_as_object},
};

} // namespace

int main(int count, char **arguments)
{
    if (const char *heap = std::getenv("HEAP")) {
        void *found = dlsym(dlopen(heap, RTLD_NOW | RTLD_LOCAL), "hf_memalign");
        memalign_of_heap = reinterpret_cast<memalign_function *>(found);
        if (found == nullptr)
            return 2;
    }
    return RUN_NAMED_CASE(cases, count, arguments);
}
