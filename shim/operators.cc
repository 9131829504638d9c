/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A C++ module's hidden operator new and delete. They live in a file of their own, and in C++,
 * because [new.delete] requires exceptions: a C module references none of these names, so its
 * linker leaves out this archive member, and libstdc++ with it.
 *
 * Owns `process`, written once while the module is loaded; no lock. Callable at any stage. The
 * mangled names are assembler labels (see module.h), so that <new>'s declarations, which are not
 * hidden, do not decide the visibility.
 */
#include <homefree/homefree.h>

#include <dlfcn.h>
#include <new>

namespace
{

void *allocate(size_t size, size_t alignment)
{
    /* [new.delete.single]: size 0 returns a distinct pointer, as hf_malloc does. */
    return alignment == 0 ? hf_malloc(size) : hf_memalign(alignment, size);
}

void *allocate_or_throw(size_t size, size_t alignment)
{
    for (;;) {
        void *ptr = allocate(size, alignment);
        if (__builtin_expect(ptr != nullptr, 1))
            return ptr;
        std::new_handler handler = std::get_new_handler();
        if (handler == nullptr)
            throw std::bad_alloc();
        handler();
    }
}

void *allocate_or_null(size_t size, size_t alignment) noexcept
{
    try {
        return allocate_or_throw(size, alignment);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

} // namespace

#define HIDDEN extern "C" __attribute__((visibility("hidden")))

/* Parameters follow the mangled name; a nothrow_t arrives as an address that is not used. */
#define HF_NEW_0_0(symbol)                                   \
    HIDDEN void *shim##symbol(size_t size) __asm__(#symbol); \
    void *shim##symbol(size_t size)                          \
    {                                                        \
        return allocate_or_throw(size, 0);                   \
    }
#define HF_NEW_1_0(symbol)                                                          \
    HIDDEN void *shim##symbol(size_t size, const void *) noexcept __asm__(#symbol); \
    void *shim##symbol(size_t size, const void *) noexcept                          \
    {                                                                               \
        return allocate_or_null(size, 0);                                           \
    }
#define HF_NEW_0_1(symbol)                                                     \
    HIDDEN void *shim##symbol(size_t size, size_t alignment) __asm__(#symbol); \
    void *shim##symbol(size_t size, size_t alignment)                          \
    {                                                                          \
        return allocate_or_throw(size, alignment);                             \
    }
#define HF_NEW_1_1(symbol)                                                   \
    HIDDEN void *shim##symbol(size_t size, size_t alignment,                 \
                              const void *) noexcept __asm__(#symbol);       \
    void *shim##symbol(size_t size, size_t alignment, const void *) noexcept \
    {                                                                        \
        return allocate_or_null(size, alignment);                            \
    }
#define HF_NEW(symbol, nothrow, aligned) HF_NEW_##nothrow##_##aligned(symbol)
#include "shim/functions.def"

/*
 * A foreign pointer goes to its allocator's own operator if that one distinguishes the forms, and
 * otherwise to the process's operator of the same form, not to free(): a program may have replaced
 * it with one that keeps books, and checkers distinguish the forms. The shim's own
 * operators are hidden, so dlsym() in the module finds the process's. They are looked up while the
 * module is loaded, because a later lookup could block on the loader's lock. If there is none (only
 * a static C++ runtime), free() is used.
 */
namespace
{

struct process_operators {
#define HF_DELETE(symbol, parameters, ...) void(*symbol) parameters;
#include "shim/functions.def"
} process;

__attribute__((constructor(101))) void find_process_operators()
{
    const hf_dlsym_function find = hf_dlsym();
#define HF_DELETE(symbol, parameters, ...) \
    process.symbol = reinterpret_cast<void(*) parameters>(find(RTLD_DEFAULT, #symbol));
#include "shim/functions.def"
}

} // namespace

#define HF_DELETE(symbol, parameters, arguments, call, form, alignment)    \
    HIDDEN void shim##symbol parameters noexcept __asm__(#symbol);         \
    void shim##symbol parameters noexcept                                  \
    {                                                                      \
        if (hf_owns(ptr)) {                                                \
            call;                                                          \
        } else if (!hf_delete_foreign(ptr, HF_DELETE_##form, alignment)) { \
            if (process.symbol != nullptr)                                 \
                process.symbol arguments;                                  \
            else                                                           \
                call;                                                      \
        }                                                                  \
    }
#include "shim/functions.def"
