// The export module: names and types for Python, and nothing that would need a test in C++.
#include "words.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sstream>

namespace py = pybind11;

PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)
{
    m.doc() = "Counts the words of a text.";
    py::class_<words::Index>(m, "Index")
        .def(py::init<>())
        .def(
            "read",
            [](words::Index &index, const std::string &text) {
                std::istringstream stream(text);
                index.read(stream);
            },
            py::arg("text"), "Adds every word of the text.")
        .def("count", &words::Index::count, py::arg("word"), "How often a word was read.")
        .def("common", &words::Index::common, py::arg("wanted"), "The words read most often.");
}
