// A module of pybind11's with a global variable. TYPES says whether its type is in the table of the
// interpreter or in one of its own.
#include <pybind11/pybind11.h>
#include <stdexcept>

namespace py = pybind11;

struct Thing {
};
struct Failure : std::runtime_error {
    using runtime_error::runtime_error;
};

static int calls;

PYBIND11_MODULE(NAME, module)
{
    py::class_<Thing>(module, "Thing" TYPES).def(py::init<>());
    py::register_local_exception<Failure>(module, "Failure");
    module.def("count", [] { return ++calls; });
    module.def("call", [](const py::function &function) { return function(); });
    module.def("fail", [] { throw Failure("as asked"); });
}
