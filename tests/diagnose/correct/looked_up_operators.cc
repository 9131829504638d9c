/*
 * Gets the C++ runtime's operators from dlsym(3), by the handle of the runtime, and mixes their
 * calls with calls by name, in pairs that fit. The runtime's operator new[] jumps to operator new,
 * and operator delete[] to operator delete.
 */
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <new>

namespace
{

template <typename Function> Function *look_up(void *library, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(library, name));
}

} // namespace

int main()
{
    /* Any function of the runtime tells where it is. */
    Dl_info info;
    if (dladdr(dlsym(RTLD_DEFAULT, "__cxa_throw"), &info) == 0)
        return 1;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr)
        return 2;
    auto *make = look_up<void *(std::size_t)>(library, "_Znwm");
    auto *make_array = look_up<void *(std::size_t)>(library, "_Znam");
    auto *try_array =
        look_up<void *(std::size_t, const std::nothrow_t &)>(library, "_ZnamRKSt9nothrow_t");
    auto *destroy = look_up<void(void *)>(library, "_ZdlPv");
    auto *destroy_sized = look_up<void(void *, std::size_t)>(library, "_ZdlPvm");
    auto *destroy_array = look_up<void(void *)>(library, "_ZdaPv");
    auto *destroy_array_sized = look_up<void(void *, std::size_t)>(library, "_ZdaPvm");
    for (std::size_t size = 10; size < 20000; size *= 3) {
        ::operator delete[](make_array(size));
        ::operator delete[](try_array(size, std::nothrow));
        ::operator delete(make(size));
        destroy(::operator new(size));
        destroy_sized(::operator new(size), size);
        destroy_array(::operator new[](size));
        destroy_array_sized(::operator new[](size), size);
        destroy_array(make_array(size));
        destroy_array_sized(try_array(size, std::nothrow), size);
        destroy(make(size));
    }
    std::puts("all right");
    return dlclose(library);
}
