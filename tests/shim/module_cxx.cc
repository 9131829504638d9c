/*
 * A C++ extension module as a user builds one: it links the shim; the operators below are the ones
 * that the linker found there.
 */
#include "module_cxx.h"

#include <new>
#include <stdexcept>

namespace
{

void *allocate(std::size_t size, std::size_t alignment, bool array, bool nothrow)
{
    const auto align = static_cast<std::align_val_t>(alignment);
    if (alignment == 0) {
        if (nothrow)
            return array ? operator new[](size, std::nothrow) : operator new(size, std::nothrow);
        return array ? operator new[](size) : operator new(size);
    }
    if (nothrow)
        return array ? operator new[](size, align, std::nothrow) :
                     operator new(size, align, std::nothrow);
    return array ? operator new[](size, align) : operator new(size, align);
}

void release(void *ptr, std::size_t size, std::size_t alignment, form form)
{
    const auto align = static_cast<std::align_val_t>(alignment);
    switch (form) {
    case d_plain:
        return operator delete(ptr);
    case v_plain:
        return operator delete[](ptr);
    case d_sized:
        return operator delete(ptr, size);
    case v_sized:
        return operator delete[](ptr, size);
    case d_nothrow:
        return operator delete(ptr, std::nothrow);
    case v_nothrow:
        return operator delete[](ptr, std::nothrow);
    case d_aligned:
        return operator delete(ptr, align);
    case v_aligned:
        return operator delete[](ptr, align);
    case d_sized_aligned:
        return operator delete(ptr, size, align);
    case v_sized_aligned:
        return operator delete[](ptr, size, align);
    case d_aligned_nothrow:
        return operator delete(ptr, align, std::nothrow);
    case v_aligned_nothrow:
        return operator delete[](ptr, align, std::nothrow);
    case forms:
        break;
    }
}

std::string text(std::size_t length)
{
    return std::string(length, 'm');
}

std::string *new_text(std::size_t length)
{
    return new std::string(length, 'm');
}

std::vector<std::string> list(std::size_t count)
{
    std::vector<std::string> result;
    for (std::size_t i = 0; i < count; i++)
        result.push_back(std::string(100, 'm') + std::to_string(i));
    return result;
}

struct derived : base {
    explicit derived(int start) : held(start), padding(1000, 'd')
    {
    }
    int value() const override
    {
        return held;
    }
    int held;
    std::string padding;
};

std::unique_ptr<base> object(int value)
{
    return std::make_unique<derived>(value);
}

std::shared_ptr<base> shared_object(int value)
{
    return std::make_shared<derived>(value);
}

std::function<int(int)> function(int captured)
{
    const std::string padding(100, 'f');
    return [captured, padding](int added) { return captured + added; };
}

std::unique_ptr<std::ostringstream> stream(const char *start)
{
    auto result = std::make_unique<std::ostringstream>();
    *result << start;
    return result;
}

void throw_error(const std::string &message)
{
    throw std::runtime_error(message);
}

void grow(std::string &target, std::size_t times)
{
    for (std::size_t i = 0; i < times; i++)
        target.append("module");
}

void grow_list(std::vector<std::string> &target, std::size_t count)
{
    for (std::size_t i = 0; i < count; i++)
        target.emplace_back(100, 'm');
}

void destroy(std::string *target)
{
    delete target;
}

void drop(std::unique_ptr<base>)
{
}

struct keeper {
    ~keeper()
    {
        delete[] static_cast<char *>(kept);
        if (gone != nullptr)
            gone("module's static object");
    }
    void *kept = nullptr;
    void (*gone)(const char *stage) = nullptr;
    std::string own = std::string(1000, 'k');
};
keeper at_exit;

void keep_until_exit(void *from_host, void (*gone)(const char *stage))
{
    at_exit.kept = from_host;
    at_exit.gone = gone;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const module_cxx *module_cxx_functions()
{
    static const module_cxx functions = {
        allocate, release,     text, new_text,  list,    object, shared_object,   function,
        stream,   throw_error, grow, grow_list, destroy, drop,   keep_until_exit,
    };
    return &functions;
}
