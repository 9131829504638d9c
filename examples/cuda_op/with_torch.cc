// The operator for torch's tensors on a CUDA device. Only the headers that are needed.
#include "combine.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>
// After Python.h.
#include <homefree/homefree.h>

#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace
{

void check(cudaError_t error)
{
    if (error != cudaSuccess)
        throw std::runtime_error(std::string("cuda_op: ") + cudaGetErrorString(error));
}

// A tensor over memory of homefree's space for this device, which torch frees, on whatever thread
// lets go last. As with torch's own memory, it belongs to the stream that is current now; work on
// another one needs hf_space_use().
at::Tensor empty_like(const at::Tensor &like, cudaStream_t stream)
{
    void *data = nullptr;
    const int error =
        hf_space_alloc(&data, HF_SPACE_DEVICE, like.get_device(), like.nbytes(), 0, stream);
    if (error == -ENOMEM)
        throw std::bad_alloc();
    if (error != 0)
        throw std::runtime_error("cuda_op: homefree has no memory of this device");
    const auto release = [stream](void *block) { hf_space_free(block, stream); };
    return at::from_blob(data, like.sizes(), release, like.options());
}

template <typename F> auto by_type(const at::Tensor &tensor, F run)
{
    if (tensor.is_cuda() && tensor.layout() == at::kStrided) {
        if (tensor.scalar_type() == at::kDouble)
            return run(double());
        if (tensor.scalar_type() == at::kFloat)
            return run(float());
    }
    throw std::invalid_argument("cuda_op takes CUDA tensors of float32 or float64, not " +
                                tensor.toString());
}

at::Tensor forward(const at::Tensor &x_in, const at::Tensor &y_in)
{
    if (!x_in.options().type_equal(y_in.options()) || x_in.device() != y_in.device())
        throw std::invalid_argument("cuda_op: x and y must have one type and one device");
    return by_type(x_in, [&](auto zero) {
        using T = decltype(zero);
        const c10::cuda::CUDAGuard guard(x_in.device());
        const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
        const std::vector<at::Tensor> both = at::broadcast_tensors({x_in, y_in});
        const at::Tensor x = both[0].contiguous(), y = both[1].contiguous();
        at::Tensor out = empty_like(x, stream);
        check(combine_forward(x.data_ptr<T>(), y.data_ptr<T>(), out.data_ptr<T>(),
                              static_cast<std::size_t>(x.numel()), stream));
        return out;
    });
}

std::tuple<at::Tensor, at::Tensor> backward(const at::Tensor &gradient_in)
{
    return by_type(gradient_in, [&](auto zero) {
        using T = decltype(zero);
        const c10::cuda::CUDAGuard guard(gradient_in.device());
        const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
        const at::Tensor gradient = gradient_in.contiguous();
        at::Tensor of_x = empty_like(gradient, stream), of_y = empty_like(gradient, stream);
        check(combine_backward(gradient.data_ptr<T>(), of_x.data_ptr<T>(), of_y.data_ptr<T>(),
                               static_cast<std::size_t>(gradient.numel()), stream));
        return std::make_tuple(of_x, of_y);
    });
}

} // namespace

PYBIND11_MODULE(HOMEFREE_MODULE_NAME, m)
{
    m.def("forward", &forward, "3*x - y");
    m.def("backward", &backward, "The gradients of x and y.");
}
