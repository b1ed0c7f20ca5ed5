// Attention by libtorch: FlashAttention for halves on devices that have it, else the memory-efficient kernels of CUTLASS.
//
// Both make their results in memory of their own, from where they are copied; during a capture that memory is the graph's.

#include "shim.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <optional>
#include <tuple>

using namespace gt_cuda;

namespace {

// Bytes that addresses and rows of operands are multiples of.
constexpr int64_t ALIGNED = 16;
constexpr int64_t SUMS = 32;

// Equal bits in every run, if that is what gt_cuda_precision was told: the kernels' own choice where libtorch is strict.
struct Strict {
  std::unique_lock<std::shared_mutex> alone{settings};
  const bool wanted = at::globalContext().deterministicAlgorithms();

  Strict() {
    if (wanted) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  Strict(const Strict&) = delete;
  Strict& operator=(const Strict&) = delete;
  ~Strict() {
    if (wanted) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  }
};

struct Call {
  const gt_cuda_attention& a;
  at::TensorOptions options;
  bool flash;

  at::Tensor tensor(uint64_t address, int64_t rows, const int64_t strides[4]) const {
    const std::array<int64_t, 4> sizes = {a.batch, a.heads, rows, a.width};
    const std::array<int64_t, 4> steps = {strides[0], strides[1], strides[2], strides[3]};
    return at::for_blob(at_address(address), sizes).strides(steps).options(options).target_device(options.device()).make_tensor();
  }

  // As the kernels take it: rows of elements beside each other, each where a load of 16 bytes may begin.
  at::Tensor operand(uint64_t address, int64_t rows, const int64_t strides[4]) const {
    const at::Tensor given = tensor(address, rows, strides);
    const int64_t bytes = static_cast<int64_t>(given.element_size());
    bool fits = strides[3] == 1 && address % ALIGNED == 0;
    for (int64_t d = 0; d < 3; d++) fits = fits && (given.size(d) == 1 || strides[d] * bytes % ALIGNED == 0);
    return fits ? given : given.clone(at::MemoryFormat::Contiguous);
  }

  // A result: a row of all heads lies together.
  at::Tensor dense(uint64_t address, int64_t rows) const {
    const int64_t strides[4] = {rows * a.heads * a.width, a.width, a.heads * a.width, 1};
    return tensor(address, rows, strides);
  }

  at::Tensor sums() const {
    const int64_t length = flash ? a.length : (a.length + SUMS - 1) / SUMS * SUMS;
    const std::array<int64_t, 3> sizes = {a.batch, a.heads, length};
    return at::for_blob(at_address(a.sums), sizes).options(options.dtype(at::kFloat)).target_device(options.device()).make_tensor();
  }

  void forward() const {
    const at::Tensor q = operand(a.query, a.length, a.query_strides);
    const at::Tensor k = operand(a.key, a.positions, a.key_strides);
    const at::Tensor v = operand(a.value, a.positions, a.value_strides);
    at::Tensor out, logs;
    const std::shared_lock<std::shared_mutex> shared(settings);
    if (flash) {
      const auto made = at::_scaled_dot_product_flash_attention(q, k, v, 0.0, a.causal != 0, false, a.scale);
      std::tie(out, logs) = std::tie(std::get<0>(made), std::get<1>(made));
    } else {
      const auto made = at::_scaled_dot_product_efficient_attention(q, k, v, std::nullopt, true, 0.0, a.causal != 0, a.scale);
      std::tie(out, logs) = std::tie(std::get<0>(made), std::get<1>(made));
    }
    dense(a.out, a.length).copy_(out);
    sums().copy_(logs);
  }

  void backward() const {
    const at::Tensor q = operand(a.query, a.length, a.query_strides);
    const at::Tensor k = operand(a.key, a.positions, a.key_strides);
    const at::Tensor v = operand(a.value, a.positions, a.value_strides);
    const at::Tensor grad = operand(a.grad, a.length, a.grad_strides);
    const at::Tensor out = dense(a.out, a.length);
    // What dropout would need, which there is none of.
    const at::Tensor nothing, seed = at::empty({2}, options.dtype(flash ? at::kUInt64 : at::kLong));
    at::Tensor dq, dk, dv;
    const Strict strict;
    if (flash) {
      std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_backward(
          grad, q, k, v, out, sums(), nothing, nothing, a.length, a.positions, 0.0, a.causal != 0, seed, seed, a.scale);
    } else {
      std::tie(dq, dk, dv, std::ignore) = at::_scaled_dot_product_efficient_attention_backward(
          grad, q, k, v, nothing, out, sums(), seed, seed, 0.0, {true, true, true, false}, a.causal != 0, a.scale);
    }
    dense(a.grads[0], a.length).copy_(dq);
    dense(a.grads[1], a.positions).copy_(dk);
    dense(a.grads[2], a.positions).copy_(dv);
  }
};

}  // namespace

int32_t gt_cuda_attend(const gt_cuda_stream* stream, const gt_cuda_attention* attention) {
  return guarded([&] {
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
    const c10::cuda::CUDAStreamGuard guard(stream_of(stream));
    const c10::InferenceMode no_autograd;
    int major = 0;
    CHECKED(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, stream->device));
    const auto type = scalar_type(attention->dtype);
    const auto device = c10::Device(c10::DeviceType::CUDA, index_of(stream->device));
    const Call call{*attention, at::TensorOptions().device(device).dtype(type).requires_grad(false),
                    type != at::kFloat && major >= 8};
    if (attention->backward != 0) {
      call.backward();
    } else {
      call.forward();
    }
  });
}
