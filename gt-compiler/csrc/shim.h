// What the files of the shim share: statuses and messages, guards, and libtorch's settings.
#ifndef GT_CUDA_SHIM_H
#define GT_CUDA_SHIM_H

#include "gt_cuda.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <array>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <string>

namespace gt_cuda {

inline thread_local std::string message;

inline int32_t fail(gt_cuda_status status, const char* what) noexcept {
  try {
    message = what;
  } catch (...) {
    message.clear();
  }
  return status;
}

// Runs one call. An error of the runtime that is not sticky is cleared, so that the next call does not report it again.
template <class F>
int32_t guarded(F&& call) noexcept {
  try {
    call();
    return GT_CUDA_OK;
  } catch (const c10::OutOfMemoryError& error) {
    static_cast<void>(cudaGetLastError());
    return fail(GT_CUDA_OUT_OF_MEMORY, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    static_cast<void>(cudaGetLastError());
    return fail(GT_CUDA_FAILED, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(GT_CUDA_FAILED, error.what());
  } catch (...) {
    return fail(GT_CUDA_FAILED, "an exception of an unknown kind");
  }
}

// The runtime's own words, and which call they are about.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorMemoryAllocation) {
    C10_THROW_ERROR(OutOfMemoryError, std::string(call) + ": " + cudaGetErrorString(status));
  }
  C10_THROW_ERROR(Error, std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

#define CHECKED(call) check(call, #call)

inline c10::DeviceIndex index_of(int32_t device) {
  return static_cast<c10::DeviceIndex>(device);
}

inline cudaStream_t handle_of(const gt_cuda_stream* stream) {
  return static_cast<cudaStream_t>(stream->handle);
}

inline c10::cuda::CUDAGuard on(int32_t device) {
  return c10::cuda::CUDAGuard(index_of(device));
}

inline void* at_address(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

inline c10::cuda::CUDAStream stream_of(const gt_cuda_stream* stream) {
  return c10::cuda::CUDAStream::unpack3(stream->id, index_of(stream->device), c10::DeviceType::CUDA);
}

// libtorch's warnings are for its users: of settings it has newer names for, and of the environment (see gt_cuda_precision).
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

inline at::ScalarType scalar_type(int32_t dtype) {
  constexpr std::array<at::ScalarType, 5> types = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kFloat};
  TORCH_CHECK(dtype >= 0 && dtype < 5, "libtorch multiplies no matrices of dtype number ", dtype);
  return types[static_cast<size_t>(dtype)];
}

// libtorch's settings are those of the process. Whoever computes with them as gt_cuda_precision made them shares them; whoever changes them, be it
// for a call, has them alone.
inline std::shared_mutex settings;

}  // namespace gt_cuda

#endif
