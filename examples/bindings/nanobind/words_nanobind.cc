/* The library through nanobind. */
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>

#include "library/words.hh"

#include <cstdlib>
#include <cstring>

namespace nb = nanobind;
using Array = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

/* An array over the library's memory; the capsule frees it with the last view. */
static Array lengths(const Words &list)
{
    std::int64_t *numbers = list.lengths();
    const nb::capsule owner(numbers, [](void *block) noexcept { std::free(block); });
    return Array(numbers, {list.count()}, owner);
}

/* CPython allocates a copy; the library frees it. */
static void add(Words &list, const char *word)
{
    auto *copy = static_cast<char *>(PyMem_RawMalloc(std::strlen(word) + 1));
    if (copy == nullptr)
        throw std::bad_alloc();
    list.take(std::strcpy(copy, word));
}

NB_MODULE(HOMEFREE_MODULE_NAME, module)
{
    nb::class_<Words>(module, "Words", "A list of words.")
        .def(nb::init<const std::string &>())
        .def("__len__", &Words::count)
        .def("join", &Words::join)
        .def("lengths", lengths)
        .def("each", &Words::each)
        .def("add", add);
}
