// ops.h - what a library of operators includes. A function becomes an operator by one line:
//
//     OPERATOR(repeat, "Repeats a text.", "text", "times");
//
// The types of its parameters and its result are read from the function itself: std::string, double
// and std::vector<double> are known. Between libraries, and to Python, only C types pass: `op` and
// `op_value` below, so that a library of operators may be built by another compiler than this one.
#ifndef OPS_H
#define OPS_H

#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

extern "C" {

enum op_kind { OP_TEXT = 1, OP_NUMBER = 2, OP_NUMBERS = 3 };

// A value on its way. Arguments stay the caller's. The memory of a result is the caller's too: it
// comes from malloc, whichever library's that is, and anybody's free() takes it.
struct op_value {
    op_kind kind;
    std::size_t size; // bytes of a text, elements of numbers
    void *data;       // char *, double *; a single number lies here too, as an array of 1
};

// What an operator is: all of it lives in the library that registers it, until that is unloaded.
struct op {
    const char *name, *doc;
    op_kind result;
    std::size_t parameters;
    const char *const *names;
    const op_kind *kinds;
    // Result: 0; -1 when the operator threw: `result` is a text then, type and what().
    int (*call)(const op_value *arguments, op_value *result);
};

// In libops.so. The registry keeps the pointer.
void ops_register(const op *what);
void ops_unregister(const op *what);
}

namespace ops
{

template <typename T> struct Kind;
template <> struct Kind<std::string> {
    static constexpr op_kind kind = OP_TEXT;
    static std::string from(const op_value &value)
    {
        return std::string(static_cast<const char *>(value.data), value.size);
    }
    static const void *data(const std::string &value, std::size_t &count, std::size_t &bytes)
    {
        count = bytes = value.size();
        return value.data();
    }
};
template <> struct Kind<double> {
    static constexpr op_kind kind = OP_NUMBER;
    static double from(const op_value &value)
    {
        return *static_cast<const double *>(value.data);
    }
    static const void *data(const double &value, std::size_t &count, std::size_t &bytes)
    {
        count = 1;
        bytes = sizeof value;
        return &value;
    }
};
template <> struct Kind<std::vector<double>> {
    static constexpr op_kind kind = OP_NUMBERS;
    static std::vector<double> from(const op_value &value)
    {
        const double *first = static_cast<const double *>(value.data);
        return std::vector<double>(first, first + value.size);
    }
    static const void *data(const std::vector<double> &value, std::size_t &count,
                            std::size_t &bytes)
    {
        count = value.size();
        bytes = count * sizeof(double);
        return value.data();
    }
};

template <typename T> using Plain = std::decay_t<T>;

template <typename T> void give(const T &value, op_value *result)
{
    std::size_t bytes = 0;
    const void *data = Kind<T>::data(value, result->size, bytes);
    result->kind = Kind<T>::kind;
    result->data = std::malloc(bytes + 1);
    if (result->data == nullptr)
        throw std::bad_alloc();
    if (bytes > 0)
        std::memcpy(result->data, data, bytes);
}

// One operator: registered when the library's static objects are made, which is when it is loaded.
template <auto function> class Operator;
template <typename R, typename... P, R (*function)(P...)> class Operator<function>
{
  public:
    template <typename... Names>
    Operator(const char *name, const char *doc, Names... parameters)
        : names{parameters...}, what{name,  doc, Kind<Plain<R>>::kind, sizeof...(P), names,
                                     kinds, call}
    {
        static_assert(sizeof...(Names) == sizeof...(P), "name every parameter of the operator");
        ops_register(&what);
    }
    Operator(const Operator &) = delete;
    Operator &operator=(const Operator &) = delete;
    ~Operator()
    {
        ops_unregister(&what);
    }

  private:
    template <std::size_t... I> static R apply(const op_value *arguments, std::index_sequence<I...>)
    {
        return function(Kind<Plain<P>>::from(arguments[I])...);
    }
    static int call(const op_value *arguments, op_value *result)
    {
        try {
            give<Plain<R>>(apply(arguments, std::index_sequence_for<P...>()), result);
            return 0;
        } catch (const std::exception &error) {
            char *type = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, nullptr);
            give((type != nullptr ? type : "an exception") + std::string(": ") + error.what(),
                 result);
            std::free(type); // libstdc++ had it from libc
            return -1;
        }
    }

    const char *names[sizeof...(P)];
    static constexpr op_kind kinds[] = {Kind<Plain<P>>::kind...};
    op what;
};

} // namespace ops

#define OPERATOR(function, ...) \
    static const ops::Operator<&function> function##_operator(#function, __VA_ARGS__)

#endif
