// Commits the fault that its argument names, says "survived", and ends. Each side of a crossing is
// a function of its own, whose name the report must show.
#include "../support/cases.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>

namespace
{

// Hides from the compiler what a pointer points to.
template <typename T> T *hide(T *ptr)
{
    __asm__ volatile("" : "+r"(ptr));
    return ptr;
}

__attribute__((noinline)) void *take_malloc()
{
    return hide(std::malloc(24));
}

__attribute__((noinline)) void *take_new()
{
    return hide(::operator new(40));
}

__attribute__((noinline)) void *take_array()
{
    return hide(::operator new[](40));
}

__attribute__((noinline)) void *take_aligned()
{
    return hide(::operator new(64, std::align_val_t(64)));
}

__attribute__((noinline)) void give_free(void *ptr)
{
    std::free(hide(ptr));
    __asm__ volatile("");
}

__attribute__((noinline)) void give_delete(void *ptr)
{
    ::operator delete(hide(ptr));
    __asm__ volatile("");
}

__attribute__((noinline)) void give_delete_array(void *ptr)
{
    ::operator delete[](hide(ptr));
    __asm__ volatile("");
}

__attribute__((noinline)) void give_delete_sized(void *ptr, std::size_t size)
{
    ::operator delete(hide(ptr), size);
    __asm__ volatile("");
}

__attribute__((noinline)) void give_realloc(void *ptr)
{
    std::free(std::realloc(hide(ptr), 100));
    __asm__ volatile("");
}

void overrun()
{
    char *block = static_cast<char *>(take_malloc());
    std::memset(block, 1, 40);
    give_free(block);
}

void overrun_by_one()
{
    char *block = static_cast<char *>(take_malloc());
    std::memset(block, 1, 25);
    give_free(block);
}

// The linker may have made an entry of the program's for all uses of its address.
void free_by_address()
{
    using function = void(void *);
    auto *found = reinterpret_cast<function *>(dlsym(RTLD_DEFAULT, "free"));
    if (found != hide(&std::free))
        hide (&std::free)(take_malloc());
    hide(found)(take_new());
}

void double_free()
{
    void *block = take_malloc();
    give_free(block);
    give_delete(block);
}

void interior_free()
{
    char *block = static_cast<char *>(take_malloc());
    give_free(block + 8);
    give_free(block);
}

void stack_free()
{
    char local[64];
    give_free(local);
}

void static_free()
{
    static char data[64];
    give_free(data);
}

const named_case faults[] = {
    {"none", [] { give_free(take_malloc()); }},
    {"new-free", [] { give_free(take_new()); }},
    {"free-by-address", free_by_address},
    {"new-realloc", [] { give_realloc(take_new()); }},
    {"malloc-delete", [] { give_delete(take_malloc()); }},
    {"array-new-delete", [] { give_delete(take_array()); }},
    {"new-delete-array", [] { give_delete_array(take_new()); }},
    {"aligned-delete", [] { give_delete(take_aligned()); }},
    {"sized-delete", [] { give_delete_sized(take_new(), 44); }},
    {"double-free", double_free},
    {"overrun", overrun},
    {"overrun-by-one", overrun_by_one},
    {"interior-free", interior_free},
    {"stack-free", stack_free},
    {"static-free", static_free},
    {"unmapped-free", [] { give_free(reinterpret_cast<void *>(std::uintptr_t{4096})); }},
};

} // namespace

NAMED_CASES_MAIN(faults)
