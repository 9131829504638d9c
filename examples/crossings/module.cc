/*
 * module.cc - the Python face of the module `crossings`, and what crosses between it and Python.
 *
 * Compiled once, like all of the module but its name (name.cc).
 *
 * The functions that the rows call are in a plain table (methods.h says why). What pybind11 makes
 * is made on demand, by define_functions() and define_owner(): then a row sees pybind11's own
 * crossings only if it is about them.
 */
#include "methods.h"

#include "crossings.h"

#include <cstdlib>
#include <cstring>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

namespace py = pybind11;

namespace crossings
{

namespace
{

/* ---- an object for Python to own ------------------------------------------------------------- */

/* Its parts come from libstdc++, libc and CPython; its destructor runs where Python runs it
 * (reference count, collector, interpreter exit) and frees them all. */
class Owner
{
  public:
    explicit Owner(bool says) : announces(says)
    {
        text.assign(1100, '.');
        path = realpath("/dev/../dev/null", nullptr);
        raw = PyMem_RawMalloc(1000);
        memset(raw, 'r', 1000);
        live++;
    }

    Owner(const Owner &) = delete;
    Owner &operator=(const Owner &) = delete;

    ~Owner()
    {
        const bool good = whole();
        free(raw);
        free(path);
        std::string().swap(text);
        live--;
        if (!announces)
            return;
        const char *line = good ? "object destroyed\n" : "object damaged\n";
        if (write(STDOUT_FILENO, line, strlen(line)) < 0)
            _exit(EXIT_FAILURE);
    }

    bool whole() const
    {
        const char *bytes = static_cast<const char *>(raw);
        return text == std::string(1100, '.') && strcmp(path, "/dev/null") == 0 &&
               bytes[0] == 'r' && bytes[999] == 'r';
    }

    static int live;

  private:
    bool announces;
    std::string text;
    char *path;
    void *raw;
};

int Owner::live = 0;

/* ---- what pybind11 makes --------------------------------------------------------------------- */

/* This module, which sys.modules keeps. */
PyObject *this_module;

py::module_ self()
{
    return py::reinterpret_borrow<py::module_>(this_module);
}

/* A class with nothing but its objects' life: no signature, no scope's name in its own. */
void define_owner()
{
    self().attr("Owner") =
        py::class_<Owner>(py::handle(), "Owner", py::dynamic_attr(), py::module_local());
}

/* Python owns the result. */
PyObject *new_owner(PyObject *, PyObject *says)
{
    return py::cast(new Owner(says == Py_True), py::return_value_policy::take_ownership)
        .release()
        .ptr();
}

PyObject *owner_whole(PyObject *, PyObject *object)
{
    return PyBool_FromLong(py::handle(object).cast<const Owner &>().whole());
}

PyObject *owners_live(PyObject *, PyObject *)
{
    return PyLong_FromLong(Owner::live);
}

std::string reversed(const std::vector<std::string> &words, const std::string &separator)
{
    std::string result;
    for (auto word = words.rbegin(); word != words.rend(); ++word)
        result += (result.empty() ? "" : separator) + *word;
    return result;
}

/* pybind11 writes the function's signature into a string, and frees what strdup gives it. */
void define_functions()
{
    self().def("reversed", reversed, py::arg("words"), py::arg("separator") = ", ",
               "The words in reverse order, joined by the separator.");
}

/* ---- NumPy ----------------------------------------------------------------------------------- */

/* An array over a block of the module's malloc that NumPy is told to own: it frees the block. */
PyObject *owned_array(PyObject *, PyObject *number)
{
    using py::detail::npy_api;
    const Py_ssize_t count = PyLong_AsSsize_t(number);
    if (PyErr_Occurred())
        return nullptr;
    const npy_api &numpy = npy_api::get();
    auto *values = static_cast<double *>(malloc(static_cast<std::size_t>(count) * sizeof(double)));
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = static_cast<double>(i) / 2;
    PyObject *array = numpy.PyArray_NewFromDescr_(
        numpy.PyArray_Type_, numpy.PyArray_DescrFromType_(npy_api::NPY_DOUBLE_), 1, &count, nullptr,
        values, npy_api::NPY_ARRAY_WRITEABLE_, nullptr);
    if (array != nullptr)
        py::detail::array_proxy(array)->flags |= npy_api::NPY_ARRAY_OWNDATA_;
    return array;
}

PyMethodDef functions[] = {
    CROSSINGS_METHOD(append),
    CROSSINGS_METHOD(insert),
    CROSSINGS_METHOD(extract),
    CROSSINGS_METHOD(take_texts),
    CROSSINGS_METHOD(give_tables),
    CROSSINGS_METHOD(take_strdup),
    CROSSINGS_METHOD(take_realpath),
    CROSSINGS_METHOD(take_getline),
    CROSSINGS_METHOD(take_asprintf),
    CROSSINGS_METHOD(take_scandir),
    CROSSINGS_METHOD(take_unlisted),
    CROSSINGS_METHOD(give_to_grow),
    CROSSINGS_METHOD(give_to_free),
    CROSSINGS_METHOD(keep_until_exit),
    CROSSINGS_METHOD(define_owner),
    CROSSINGS_METHOD(define_functions),
    CROSSINGS_BLOCK_METHODS,
    {"new_owner", new_owner, METH_O, nullptr},
    {"owner_whole", owner_whole, METH_O, nullptr},
    {"owners_live", owners_live, METH_NOARGS, nullptr},
    {"owned_array", owned_array, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

} // namespace crossings

#ifdef Py_GIL_DISABLED
PYBIND11_MODULE(crossings, module, py::mod_gil_not_used())
#else
PYBIND11_MODULE(crossings, module)
#endif
{
    crossings::this_module = module.ptr();
    if (PyModule_AddFunctions(module.ptr(), crossings::functions) != 0)
        throw py::error_already_set();
}
