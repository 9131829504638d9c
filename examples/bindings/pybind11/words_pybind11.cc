/* The library through pybind11. */
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "library/words.hh"

#include <cstdlib>
#include <cstring>

namespace py = pybind11;

/* An array over the library's memory; the capsule frees it with the last view. */
static py::array lengths(const Words &list)
{
    std::int64_t *numbers = list.lengths();
    return py::array_t<std::int64_t>(static_cast<py::ssize_t>(list.count()), numbers,
                                     py::capsule(numbers, std::free));
}

/* CPython allocates a copy; the library frees it. */
static void add(Words &list, const char *word)
{
    auto *copy = static_cast<char *>(PyMem_RawMalloc(std::strlen(word) + 1));
    if (copy == nullptr)
        throw std::bad_alloc();
    list.take(std::strcpy(copy, word));
}

PYBIND11_MODULE(HOMEFREE_MODULE_NAME, module)
{
    py::class_<Words>(module, "Words", "A list of words.")
        .def(py::init<const std::string &>())
        .def("__len__", &Words::count)
        .def("join", &Words::join)
        .def("lengths", lengths)
        .def("each", &Words::each)
        .def("add", add);
}
