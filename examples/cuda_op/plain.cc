// The operator for whoever speaks DLPack or __cuda_array_interface__: CuPy, Numba, torch, its own
// results. Nothing of torch is needed.
#include "combine.h"

#include <pybind11/pybind11.h>
// After Python.h.
#include <homefree/python.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace
{

void check(cudaError_t error)
{
    if (error != cudaSuccess)
        throw std::runtime_error(std::string("cuda_op: ") + cudaGetErrorString(error));
}

cudaStream_t stream_of(std::uintptr_t number)
{
    return reinterpret_cast<cudaStream_t>(number);
}

// Work on `device` until the end of the block.
class On
{
  public:
    explicit On(int device)
    {
        check(cudaGetDevice(&before));
        check(cudaSetDevice(device));
    }
    On(const On &) = delete;
    On &operator=(const On &) = delete;
    ~On()
    {
        cudaSetDevice(before);
    }

  private:
    int before = 0;
};

void *allocate(hf_space_kind kind, int device, std::size_t size, cudaStream_t stream)
{
    void *data = nullptr;
    const int error = hf_space_alloc(&data, kind, device, size, 0, stream);
    if (error == -ENOMEM)
        throw std::bad_alloc();
    if (error != 0) {
        char why[256] = "";
        hf_space_reason(kind, device, why, sizeof why);
        throw std::runtime_error(why[0] != 0 ? why : "cuda_op: no memory of a device here");
    }
    return data;
}

// A device's memory, and the streams that use it. Whoever shares it holds a reference to one
// record; the last of them ends in destroy(), on any thread, with or without Python.
struct Block {
    void *data;
    cudaStream_t stream;
    bool shared; // with somebody who did not say which streams use it

    static void destroy(void *self) noexcept
    {
        const std::unique_ptr<Block> block(static_cast<Block *>(self));
        hf_space_free(block->data, block->shared ? HF_STREAM_ANY : block->stream);
    }
};

// What an array looks like, whoever owns it.
struct View {
    std::vector<int64_t> shape;
    char type; // 'f' or 'd'
    int device;
    void *data;

    std::size_t count() const
    {
        std::size_t result = 1;
        for (const int64_t length : shape)
            result *= static_cast<std::size_t>(length);
        return result;
    }
    std::size_t width() const
    {
        return type == 'f' ? sizeof(float) : sizeof(double);
    }
};

// A result.
class Array
{
  public:
    Array(View like, cudaStream_t stream) : view(std::move(like))
    {
        auto block = std::make_unique<Block>(Block{nullptr, stream, false});
        const std::size_t size = view.count() * view.width();
        block->data = view.data = allocate(HF_SPACE_DEVICE, view.device, size, stream);
        memory = hf_python_record(block.get(), "cuda_op", Block::destroy);
        if (memory == nullptr) {
            Block::destroy(block.release());
            throw py::error_already_set();
        }
        block.release();
    }
    Array(Array &&other) noexcept
        : view(std::move(other.view)), memory(std::exchange(other.memory, nullptr))
    {
    }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array()
    {
        if (memory != nullptr)
            hf_python_drop(memory);
    }

    // DLPack: the consumer names its stream, which shall wait for ours.
    py::object dlpack(const py::object &stream, const py::object &max_version)
    {
        const std::intptr_t wanted = stream.is_none() ? 0 : stream.cast<std::intptr_t>();
        if (wanted >= 0)
            share(stream_of(static_cast<std::uintptr_t>(wanted)));
        hf_dl_tensor tensor{};
        tensor.data = view.data;
        tensor.device = {HF_DL_CUDA, view.device};
        tensor.ndim = static_cast<int32_t>(view.shape.size());
        tensor.dtype = {HF_DL_FLOAT, static_cast<std::uint8_t>(8 * view.width()), 1};
        tensor.shape = view.shape.data();
        PyObject *capsule = hf_dlpack_export(memory, &tensor, 0, max_version.ptr());
        if (capsule == nullptr)
            throw py::error_already_set();
        return py::reinterpret_steal<py::object>(capsule);
    }

    // The interface of Numba and CuPy tells them our stream, and us nothing of theirs.
    py::dict cuda_array_interface()
    {
        block().shared = true;
        const auto stream = reinterpret_cast<std::uintptr_t>(block().stream);
        py::dict result;
        result["shape"] = shape();
        result["typestr"] = view.type == 'f' ? "<f4" : "<f8";
        result["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(view.data), false);
        result["strides"] = py::none();
        result["stream"] = stream != 0 ? stream : 1;
        result["version"] = 3;
        return result;
    }

    // A NumPy array in page-locked memory, which takes the copy without a detour.
    py::object to_host() const
    {
        const On device(view.device);
        const std::size_t size = view.count() * view.width();
        void *data = allocate(HF_SPACE_PINNED, 0, size, nullptr);
        hf_release *copy = hf_python_record(data, "cuda_op", hf_free);
        if (copy == nullptr) {
            hf_free(data);
            throw py::error_already_set();
        }
        const std::unique_ptr<hf_release, void (*)(hf_release *)> held(copy, hf_python_drop);
        check(cudaMemcpyAsync(data, view.data, size, cudaMemcpyDeviceToHost, block().stream));
        check(cudaStreamSynchronize(block().stream));
        const std::vector<Py_ssize_t> lengths(view.shape.begin(), view.shape.end());
        const char format[] = {view.type, 0};
        hf_buffer_layout layout{};
        layout.format = format;
        layout.itemsize = static_cast<Py_ssize_t>(view.width());
        layout.ndim = static_cast<int>(lengths.size());
        layout.shape = lengths.data();
        PyObject *array = hf_numpy_array(copy, data, &layout);
        if (array == nullptr)
            throw py::error_already_set();
        return py::reinterpret_steal<py::object>(array);
    }

    py::tuple shape() const
    {
        py::tuple result(view.shape.size());
        for (std::size_t i = 0; i < view.shape.size(); i++)
            result[i] = view.shape[i];
        return result;
    }

    template <typename T> T *data() const
    {
        return static_cast<T *>(view.data);
    }

    View view;

  private:
    Block &block() const
    {
        return *static_cast<Block *>(hf_release_pointer(memory));
    }

    // `stream` waits for what ours holds now, and the block is kept until `stream` is done with it.
    void share(cudaStream_t stream)
    {
        if (stream == block().stream)
            return;
        const On device(view.device);
        cudaEvent_t event;
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        cudaError_t error = cudaEventRecord(event, block().stream);
        if (error == cudaSuccess)
            error = cudaStreamWaitEvent(stream, event, 0);
        cudaEventDestroy(event);
        check(error);
        if (hf_space_use(view.data, stream) != 0)
            block().shared = true;
    }

    hf_release *memory = nullptr;
};

// ---- what others bring --------------------------------------------------------------------------

// An array of somebody's, which stays alive as long as this.
class Input
{
  public:
    Input(const py::object &from, std::uintptr_t stream) : held(nullptr, hf_python_drop)
    {
        if (py::hasattr(from, "__dlpack__"))
            take_dlpack(from, stream);
        else if (py::hasattr(from, "__cuda_array_interface__"))
            take_interface(from.attr("__cuda_array_interface__"), stream);
        else
            throw py::type_error("cuda_op takes arrays with __dlpack__ or "
                                 "__cuda_array_interface__, which CuPy, Numba and torch have");
    }

    View view;

  private:
    [[noreturn]] static void refuse(const char *what)
    {
        throw py::value_error(std::string("cuda_op takes row-major float32 or float64 arrays in a "
                                          "device's memory, ") +
                              what);
    }

    // `stream` waits for the producer's work: DLPack's producer sees to it.
    void take_dlpack(const py::object &from, std::uintptr_t stream)
    {
        if (from.attr("__dlpack_device__")().cast<std::pair<int, int>>().first != HF_DL_CUDA)
            refuse("not in the host's");
        hf_dl_tensor *tensor = nullptr;
        // DLPack calls the default stream 1.
        const py::object capsule =
            from.attr("__dlpack__")(py::arg("stream") = stream != 0 ? stream : 1);
        held.reset(hf_dlpack_consume(capsule.ptr(), &tensor, nullptr));
        if (held == nullptr)
            throw py::error_already_set();
        if (tensor->dtype.code != HF_DL_FLOAT || tensor->dtype.lanes != 1 ||
            (tensor->dtype.bits != 32 && tensor->dtype.bits != 64))
            refuse("not of another type");
        view.shape.assign(tensor->shape, tensor->shape + tensor->ndim);
        view.type = tensor->dtype.bits == 32 ? 'f' : 'd';
        view.device = tensor->device.id;
        view.data = static_cast<char *>(tensor->data) + tensor->byte_offset;
        int64_t step = 1;
        for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
            if (tensor->strides != nullptr && tensor->shape[i] > 1 && tensor->strides[i] != step)
                refuse("not strided ones");
            step *= tensor->shape[i];
        }
    }

    // Here the consumer sees to it: the producer names the stream to wait for.
    void take_interface(const py::dict &from, std::uintptr_t stream)
    {
        const auto type = from["typestr"].cast<std::string>();
        if (type != "<f4" && type != "<f8")
            refuse("not of another type");
        if (from.contains("strides") && !from["strides"].is_none())
            refuse("not strided ones");
        for (const py::handle length : from["shape"])
            view.shape.push_back(length.cast<int64_t>());
        view.type = type == "<f4" ? 'f' : 'd';
        view.data =
            reinterpret_cast<void *>(from["data"].cast<py::tuple>()[0].cast<std::uintptr_t>());
        cudaPointerAttributes where{};
        check(cudaPointerGetAttributes(&where, view.data));
        if (where.type != cudaMemoryTypeDevice && where.type != cudaMemoryTypeManaged)
            refuse("not in the host's");
        view.device = where.device;
        if (!from.contains("stream") || from["stream"].is_none())
            return;
        const auto theirs = from["stream"].cast<std::uintptr_t>();
        if (theirs != (stream != 0 ? stream : 1))
            check(cudaStreamSynchronize(stream_of(theirs)));
    }

    std::unique_ptr<hf_release, void (*)(hf_release *)> held;
};

template <typename F> void by_type(const View &view, F run)
{
    if (view.type == 'f')
        run(float());
    else
        run(double());
}

Array forward(const py::object &x_in, const py::object &y_in, std::uintptr_t number)
{
    const Input x(x_in, number), y(y_in, number);
    if (x.view.shape != y.view.shape || x.view.type != y.view.type ||
        x.view.device != y.view.device)
        throw py::value_error("cuda_op: x and y must have one shape, one type and one device");
    const On device(x.view.device);
    const cudaStream_t stream = stream_of(number);
    Array out(x.view, stream);
    by_type(x.view, [&](auto zero) {
        using T = decltype(zero);
        check(combine_forward(static_cast<const T *>(x.view.data),
                              static_cast<const T *>(y.view.data), out.data<T>(), x.view.count(),
                              stream));
    });
    return out;
}

std::pair<Array, Array> backward(const py::object &gradient_in, std::uintptr_t number)
{
    const Input gradient(gradient_in, number);
    const On device(gradient.view.device);
    const cudaStream_t stream = stream_of(number);
    Array of_x(gradient.view, stream), of_y(gradient.view, stream);
    by_type(gradient.view, [&](auto zero) {
        using T = decltype(zero);
        check(combine_backward(static_cast<const T *>(gradient.view.data), of_x.data<T>(),
                               of_y.data<T>(), gradient.view.count(), stream));
    });
    return {std::move(of_x), std::move(of_y)};
}

// A copy of a host's array, for those who have nobody else to make one.
Array to_device(const py::buffer &from, int index, std::uintptr_t number)
{
    const py::buffer_info info = from.request();
    if (info.format != "f" && info.format != "d")
        throw py::value_error("cuda_op takes float32 and float64");
    View view{{info.shape.begin(), info.shape.end()}, info.format[0], index, nullptr};
    Py_ssize_t step = info.itemsize;
    for (Py_ssize_t i = info.ndim - 1; i >= 0; i--) {
        if (info.shape[static_cast<std::size_t>(i)] > 1 &&
            info.strides[static_cast<std::size_t>(i)] != step)
            throw py::value_error("cuda_op takes row-major arrays");
        step *= info.shape[static_cast<std::size_t>(i)];
    }
    Array out(view, stream_of(number));
    const On device(index);
    check(cudaMemcpyAsync(out.view.data, info.ptr, view.count() * view.width(),
                          cudaMemcpyHostToDevice, stream_of(number)));
    check(cudaStreamSynchronize(stream_of(number)));
    return out;
}

int devices()
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

} // namespace

PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)
{
    m.doc() = "3*x - y on a CUDA device; streams are numbers, as in DLPack.";
    py::class_<Array>(m, "Array")
        .def_property_readonly("shape", &Array::shape)
        .def_property_readonly("__cuda_array_interface__", &Array::cuda_array_interface)
        .def("__dlpack_device__",
             [](const Array &self) {
                 return py::make_tuple(static_cast<int>(HF_DL_CUDA), self.view.device);
             })
        .def(
            "__dlpack__",
            [](Array &self, const py::object &stream, const py::object &max_version,
               const py::args &, const py::kwargs &) { return self.dlpack(stream, max_version); },
            py::arg("stream") = py::none(), py::arg("max_version") = py::none())
        .def("to_host", &Array::to_host, "A NumPy array in page-locked memory.");
    m.def("forward", &forward, py::arg("x"), py::arg("y"), py::arg("stream") = 0, "3*x - y");
    m.def("backward", &backward, py::arg("gradient"), py::arg("stream") = 0,
          "The gradients of x and y.");
    m.def("to_device", &to_device, py::arg("array"), py::arg("device") = 0, py::arg("stream") = 0,
          "A copy of an array of the host's.");
    m.def("devices", &devices, "The number of devices; 0 without a driver.");
}
