// Forward and backward of 3*x - y. Only the headers that are needed: <torch/extension.h> would make
// the compiler read four times as much.
#include <ATen/core/Tensor.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace
{

// A tensor over memory of this module's; torch frees it, on whatever thread lets go last.
at::Tensor empty_like(const at::Tensor &like)
{
    void *data = std::malloc(like.nbytes() + 1);
    if (data == nullptr)
        throw std::bad_alloc();
    return at::from_blob(data, like.sizes(), std::free, like.options());
}

template <typename T, typename F> at::Tensor map(const at::Tensor &x, F each)
{
    at::Tensor result = empty_like(x);
    T *out = result.data_ptr<T>();
    for (int64_t i = 0; i < x.numel(); i++)
        out[i] = each(i);
    return result;
}

[[noreturn]] void refuse(const at::Tensor &tensor)
{
    throw std::invalid_argument("torch_op takes CPU tensors of float32 or float64, not " +
                                tensor.toString());
}

template <typename F> auto by_type(const at::Tensor &tensor, F run)
{
    if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided)
        refuse(tensor);
    if (tensor.scalar_type() == at::kDouble)
        return run(double());
    if (tensor.scalar_type() == at::kFloat)
        return run(float());
    refuse(tensor);
}

at::Tensor forward(const at::Tensor &x_in, const at::Tensor &y_in)
{
    if (!x_in.options().type_equal(y_in.options()))
        throw std::invalid_argument("torch_op: x and y must have one type");
    return by_type(x_in, [&](auto zero) {
        using T = decltype(zero);
        // libtorch allocated this vector, and it is freed here.
        const std::vector<at::Tensor> both = at::broadcast_tensors({x_in, y_in});
        const at::Tensor x = both[0].contiguous(), y = both[1].contiguous();
        const T *xs = x.data_ptr<T>(), *ys = y.data_ptr<T>();
        return map<T>(x, [=](int64_t i) { return 3 * xs[i] - ys[i]; });
    });
}

std::tuple<at::Tensor, at::Tensor> backward(const at::Tensor &gradient_in)
{
    return by_type(gradient_in, [&](auto zero) {
        using T = decltype(zero);
        const at::Tensor gradient = gradient_in.contiguous();
        const T *gs = gradient.data_ptr<T>();
        return std::make_tuple(map<T>(gradient, [=](int64_t i) { return 3 * gs[i]; }),
                               map<T>(gradient, [=](int64_t i) { return -gs[i]; }));
    });
}

} // namespace

PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)
{
    m.def("forward", &forward, "3*x - y");
    m.def("backward", &backward, "The gradients of x and y.");
}
