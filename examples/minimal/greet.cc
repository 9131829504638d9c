#include <pybind11/pybind11.h>

PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)
{
    m.def("greet", [](const std::string &name) { return "Hello, " + name + "!"; });
}
