// A tensor that holds its allocator, for Python.
#include "allocator.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <vector>

namespace py = pybind11;

namespace
{

// The memory of a tensor. Whoever shares it holds a reference to one record, and the last of them
// ends here: on whatever thread, with or without Python.
struct Storage {
    std::shared_ptr<Allocator> home;
    std::size_t bytes;
    void *data;

    static void destroy(void *self) noexcept
    {
        const std::unique_ptr<Storage> storage(static_cast<Storage *>(self));
        storage->home->release(storage->data, storage->bytes);
    }
};

class Tensor
{
  public:
    Tensor(std::vector<int64_t> lengths, std::shared_ptr<Allocator> allocator)
        : shape(std::move(lengths))
    {
        std::size_t bytes = sizeof(float);
        for (const int64_t length : shape)
            if (length < 1 || __builtin_mul_overflow(bytes, length, &bytes))
                throw std::invalid_argument(
                    "the lengths in shape are 1 or more, and fit in memory");
        auto storage = std::make_unique<Storage>(Storage{std::move(allocator), bytes, nullptr});
        storage->data = storage->home->allocate(bytes);
        memory = hf_python_record(storage.get(), "tensor", Storage::destroy);
        if (memory == nullptr) {
            Storage::destroy(storage.release());
            throw py::error_already_set();
        }
        const Storage *made = storage.release();
        if (made->home->is_hosts())
            std::fill_n(static_cast<float *>(made->data), bytes / sizeof(float), 0.0f);
    }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    ~Tensor()
    {
        hf_python_drop(memory);
    }

    hf_dl_device device() const
    {
        return storage().home->device();
    }

    // `stream`: a number as in DLPack, which is the consumer's; -1 asks for no order.
    py::object dlpack(const py::object &stream, const py::object &max_version)
    {
        const std::intptr_t number = stream.is_none() ? 0 : stream.cast<std::intptr_t>();
        if (number != -1)
            storage().home->share(storage().data, reinterpret_cast<void *>(number));
        hf_dl_tensor tensor{};
        tensor.data = storage().data;
        tensor.device = device();
        tensor.ndim = static_cast<int32_t>(shape.size());
        tensor.dtype = {HF_DL_FLOAT, 32, 1};
        tensor.shape = shape.data();
        PyObject *capsule = hf_dlpack_export(memory, &tensor, 0, max_version.ptr());
        if (capsule == nullptr)
            throw py::error_already_set();
        return py::reinterpret_steal<py::object>(capsule);
    }

  private:
    const Storage &storage() const
    {
        return *static_cast<const Storage *>(hf_release_pointer(memory));
    }

    std::vector<int64_t> shape;
    hf_release *memory;
};

} // namespace

PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)
{
    m.doc() = "Tensors of float32 that hold their allocator.";
    py::class_<Allocator, std::shared_ptr<Allocator>>(m, "Allocator")
        .def(py::init(&allocator_of), py::arg("space") = "host", py::arg("trace") = false,
             py::arg("device") = 0, py::arg("stream") = py::none(),
             "The allocator of a space; with trace it says what comes back.")
        .def_property_readonly("live", [](const Allocator &self) { return self.live.load(); })
        .def_property_readonly("returned",
                               [](const Allocator &self) { return self.returned.load(); });
    py::class_<Tensor>(m, "Tensor")
        .def(py::init<std::vector<int64_t>, std::shared_ptr<Allocator>>(), py::arg("shape"),
             py::arg("allocator").none(false),
             "Zeros, in memory of the allocator; a device's memory is not filled.")
        .def("__dlpack_device__",
             [](const Tensor &self) {
                 const hf_dl_device device = self.device();
                 return py::make_tuple(device.type, device.id);
             })
        .def(
            "__dlpack__",
            [](Tensor &self, const py::object &stream, const py::object &max_version,
               const py::args &, const py::kwargs &) { return self.dlpack(stream, max_version); },
            py::arg("stream") = py::none(), py::arg("max_version") = py::none());
}
