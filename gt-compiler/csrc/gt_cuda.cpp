// What gt_cuda.h promises, on libtorch's allocator and streams and the CUDA runtime.
//
// Every function is one lambda in guarded(): it turns exceptions into a status and a message. Kernels are loaded by the runtime's library
// functions, so no symbol of the driver is needed to link or load this file; without a driver every call is a plain error.

#include "shim.h"

#include <ATen/cuda/MemPool.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_addmm_activation.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace allocator = c10::cuda::CUDACachingAllocator;
using namespace gt_cuda;

namespace {

void copy(const gt_cuda_stream* stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  c10::cuda::CUDAGuard guard(index_of(stream->device));
  CHECKED(cudaMemcpyAsync(to, from, bytes, kind, handle_of(stream)));
}

// For memory checkers: with GT_CUDA_MEMCHECK each block is an allocation of its own, of just the size asked for, where the caching allocator
// would cut many out of one, so that an access beyond one is seen.
bool checks_memory() {
  static const bool wanted = std::getenv("GT_CUDA_MEMCHECK") != nullptr;
  return wanted;
}

void* take(const gt_cuda_stream* stream, size_t bytes) {
  if (!checks_memory()) return allocator::raw_alloc_with_stream(bytes, handle_of(stream));
  void* address = nullptr;
  CHECKED(cudaMalloc(&address, bytes));
  return address;
}

// The streams of this process, each lent to one at a time. They stay: their number is that of those ever lent at once, and libtorch keeps a
// workspace for cuBLAS with each.
class Streams {
 public:
  cudaStream_t take(c10::DeviceIndex device, bool high_priority) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto& stream : all) {
      if (!stream.lent && stream.device == device && stream.high_priority == high_priority) {
        stream.lent = true;
        return stream.handle;
      }
    }
    int least = 0, greatest = 0;
    CHECKED(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t made = nullptr;
    // Not ordered with the legacy stream, whose work would be illegal during a capture.
    CHECKED(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, high_priority ? greatest : least));
    all.push_back({made, device, high_priority, true});
    return made;
  }

  void give_back(cudaStream_t handle) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto& stream : all) {
      if (stream.handle == handle) stream.lent = false;
    }
  }

 private:
  struct Stream {
    cudaStream_t handle;
    c10::DeviceIndex device;
    bool high_priority, lent;
  };

  std::mutex mutex;
  std::vector<Stream> all;
};

// Never destroyed, since what it holds may be given back while the process ends.
Streams& streams() {
  static Streams* const all = new Streams;
  return *all;
}

struct Event {
  int32_t device;
  cudaEvent_t event = nullptr;
};

cudaEvent_t event_of(void* event) {
  return static_cast<Event*>(event)->event;
}

struct Module {
  int32_t device;
  cudaLibrary_t library = nullptr;
};

// Allocations of libtorch between two points on one stream go to a pool of their own.
struct Pool {
  c10::DeviceIndex device;
  c10::MempoolId_t id;

  Pool(c10::DeviceIndex device, cudaStream_t stream)
      : device(device), id(at::cuda::MemPool::graph_pool_handle(false)) {
    allocator::beginAllocateToPool(device, id, [stream](cudaStream_t other) { return other == stream; });
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void close() {
    if (open) {
      open = false;
      allocator::endAllocateToPool(device, id);
    }
  }

  ~Pool() {
    try {
      close();
      allocator::releasePool(device, id);
    } catch (...) {
      // The pool stays until the process ends; there is nobody to tell.
    }
  }

 private:
  bool open = true;
};

struct Capture {
  gt_cuda_stream stream;
  std::unique_ptr<Pool> pool;
};

struct Graph {
  int32_t device = 0;
  std::unique_ptr<Pool> pool;
  cudaGraphExec_t executable = nullptr;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Destroyed before its pool is released. Relaxed, so that another thread's capture does not forbid it.
  ~Graph() {
    if (executable == nullptr) return;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
    static_cast<void>(cudaGraphExecDestroy(executable));
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
  }
};

// A view of memory that stays the caller's. Strides of dimensions of one element say nothing: they become those a plain matrix has, since
// libtorch copies what does not look like one.
at::Tensor matrix(uint64_t address, int64_t batch, int64_t rows, int64_t columns, const int64_t strides[3],
                  const at::TensorOptions& options) {
  int64_t row = strides[1], column = strides[2];
  if (columns == 1) column = 1;
  if (rows == 1) row = column == 1 ? columns : 1;
  const std::array<int64_t, 3> sizes = {batch, rows, columns}, steps = {strides[0], row, column};
  return at::for_blob(at_address(address), sizes).strides(steps).options(options).target_device(options.device()).make_tensor();
}

}  // namespace

const char* gt_cuda_message(void) {
  return message.c_str();
}

int32_t gt_cuda_device_count(int32_t* count) {
  return guarded([&] {
    int n = 0;
    CHECKED(cudaGetDeviceCount(&n));
    *count = n;
  });
}

int32_t gt_cuda_open(int32_t device, gt_cuda_properties* properties) {
  return guarded([&] {
    int n = 0;
    CHECKED(cudaGetDeviceCount(&n));
    TORCH_CHECK(device >= 0 && device < n, "there are ", n, " CUDA devices");
    // libtorch looks for its CUDA part once: when it is asked for a seed, a gradient or a device first.
    TORCH_CHECK(at::detail::getCUDAHooks().hasCUDA(),
                "libtorch was used before its CUDA part was loaded: open the device before anything else that uses libtorch");
    // Guards ask the driver by way of a library that is loaded at the first question, and end the process where it cannot be: ask here first.
    static_cast<void>(c10::cuda::hasPrimaryContext(index_of(device)));
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    const auto guard = on(device);
    cudaDeviceProp found{};
    CHECKED(cudaGetDeviceProperties(&found, device));
    *properties = gt_cuda_properties{};
    std::snprintf(properties->name, sizeof(properties->name), "%s", found.name);
    properties->major = found.major;
    properties->minor = found.minor;
    properties->multiprocessors = found.multiProcessorCount;
    properties->total_bytes = found.totalGlobalMem;
  });
}

int32_t gt_cuda_synchronize_device(int32_t device) {
  return guarded([&] {
    const auto guard = on(device);
    CHECKED(cudaDeviceSynchronize());
  });
}

int32_t gt_cuda_last_error(int32_t device) {
  return guarded([&] {
    const auto guard = on(device);
    CHECKED(cudaPeekAtLastError());
  });
}

int32_t gt_cuda_precision(int32_t tf32, int32_t deterministic) {
  return guarded([&] {
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    const std::unique_lock<std::shared_mutex> alone(settings);
    at::Context& context = at::globalContext();
    if (tf32 != 0) context.setAllowTF32CuBLAS(true);
    // Sums of halves are kept in f32 to the end, as everywhere else.
    context.setAllowFP16ReductionCuBLAS(false);
    context.setAllowBF16ReductionCuBLAS(false);
    context.setDeterministicCuDNN(deterministic != 0);
    // Warnings, not errors: libtorch would refuse every product where the environment has no CUBLAS_WORKSPACE_CONFIG, though cuBLAS gives
    // equal bits without it where each workspace serves one stream, as libtorch's do.
    context.setDeterministicAlgorithms(deterministic != 0, true);
    context.setDeterministicFillUninitializedMemory(false);
  });
}

int32_t gt_cuda_stream_take(int32_t device, int32_t high_priority, gt_cuda_stream* stream) {
  return guarded([&] {
    const auto guard = on(device);
    const cudaStream_t handle = streams().take(index_of(device), high_priority != 0);
    const auto known = c10::cuda::getStreamFromExternal(handle, index_of(device));
    *stream = gt_cuda_stream{known.pack3().stream_id, handle, device};
  });
}

int32_t gt_cuda_stream_give_back(const gt_cuda_stream* stream) {
  return guarded([&] { streams().give_back(handle_of(stream)); });
}

int32_t gt_cuda_stream_synchronize(const gt_cuda_stream* stream) {
  return guarded([&] {
    const auto guard = on(stream->device);
    CHECKED(cudaStreamSynchronize(handle_of(stream)));
  });
}

int32_t gt_cuda_event_create(int32_t device, int32_t timed, void** event) {
  return guarded([&] {
    const auto guard = on(device);
    auto created = std::make_unique<Event>(Event{device});
    CHECKED(cudaEventCreateWithFlags(&created->event, timed != 0 ? cudaEventDefault : cudaEventDisableTiming));
    *event = created.release();
  });
}

int32_t gt_cuda_event_destroy(void* event) {
  return guarded([&] {
    const std::unique_ptr<Event> destroyed(static_cast<Event*>(event));
    const auto guard = on(destroyed->device);
    CHECKED(cudaEventDestroy(destroyed->event));
  });
}

int32_t gt_cuda_event_record(void* event, const gt_cuda_stream* stream) {
  return guarded([&] {
    const auto guard = on(stream->device);
    CHECKED(cudaEventRecord(event_of(event), handle_of(stream)));
  });
}

int32_t gt_cuda_stream_wait(const gt_cuda_stream* stream, void* event) {
  return guarded([&] {
    const auto guard = on(stream->device);
    CHECKED(cudaStreamWaitEvent(handle_of(stream), event_of(event), 0));
  });
}

int32_t gt_cuda_event_synchronize(void* event) {
  return guarded([&] {
    const auto guard = on(static_cast<Event*>(event)->device);
    CHECKED(cudaEventSynchronize(event_of(event)));
  });
}

int32_t gt_cuda_event_elapsed(void* from, void* to, float* milliseconds) {
  return guarded([&] {
    const auto guard = on(static_cast<Event*>(to)->device);
    CHECKED(cudaEventElapsedTime(milliseconds, event_of(from), event_of(to)));
  });
}

int32_t gt_cuda_alloc(const gt_cuda_stream* stream, size_t bytes, uint64_t* address) {
  return guarded([&] {
    const auto guard = on(stream->device);
    *address = reinterpret_cast<uintptr_t>(take(stream, bytes));
  });
}

int32_t gt_cuda_free(uint64_t address) {
  return guarded([&] {
    if (checks_memory()) {
      CHECKED(cudaFree(at_address(address)));
    } else {
      allocator::raw_delete(at_address(address));
    }
  });
}

int32_t gt_cuda_memory_of(int32_t device, gt_cuda_memory* memory) {
  return guarded([&] {
    const auto stats = allocator::getDeviceStats(index_of(device));
    const auto& live = stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    const auto& reserved = stats.reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    *memory = gt_cuda_memory{static_cast<uint64_t>(live.current), static_cast<uint64_t>(reserved.current),
                             static_cast<uint64_t>(live.peak)};
  });
}

int32_t gt_cuda_trim(int32_t device) {
  return guarded([&] {
    const auto guard = on(device);
    allocator::emptyCache();
  });
}

int32_t gt_cuda_host_alloc(int32_t device, size_t bytes, void** address) {
  return guarded([&] {
    const auto guard = on(device);
    CHECKED(cudaHostAlloc(address, bytes, cudaHostAllocPortable));
  });
}

int32_t gt_cuda_host_free(int32_t device, void* address) {
  return guarded([&] {
    const auto guard = on(device);
    CHECKED(cudaFreeHost(address));
  });
}

int32_t gt_cuda_upload(const gt_cuda_stream* stream, const void* from, uint64_t to, size_t bytes) {
  return guarded([&] { copy(stream, at_address(to), from, bytes, cudaMemcpyHostToDevice); });
}

int32_t gt_cuda_download(const gt_cuda_stream* stream, uint64_t from, void* to, size_t bytes) {
  return guarded([&] { copy(stream, to, at_address(from), bytes, cudaMemcpyDeviceToHost); });
}

int32_t gt_cuda_copy(const gt_cuda_stream* stream, uint64_t from, uint64_t to, size_t bytes) {
  return guarded([&] { copy(stream, at_address(to), at_address(from), bytes, cudaMemcpyDeviceToDevice); });
}

int32_t gt_cuda_module_load(int32_t device, const void* image, void** module) {
  return guarded([&] {
    const auto guard = on(device);
    auto loaded = std::make_unique<Module>(Module{device});
    CHECKED(cudaLibraryLoadData(&loaded->library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
    *module = loaded.release();
  });
}

int32_t gt_cuda_module_unload(void* module) {
  return guarded([&] {
    const std::unique_ptr<Module> unloaded(static_cast<Module*>(module));
    const auto guard = on(unloaded->device);
    CHECKED(cudaLibraryUnload(unloaded->library));
  });
}

int32_t gt_cuda_module_function(void* module, const char* name, void** function) {
  return guarded([&] {
    const auto* loaded = static_cast<Module*>(module);
    const auto guard = on(loaded->device);
    cudaKernel_t kernel = nullptr;
    CHECKED(cudaLibraryGetKernel(&kernel, loaded->library, name));
    *function = kernel;
  });
}

int32_t gt_cuda_launch(const gt_cuda_stream* stream, void* function, uint32_t grid, uint32_t block,
                       const uint64_t* arguments, size_t n_arguments) {
  return guarded([&] {
    // What a kernel may take: 4,096 bytes.
    constexpr size_t most = 512;
    TORCH_CHECK(n_arguments <= most, "a kernel of ", n_arguments, " arguments, but at most ", most, " can be passed");
    std::array<void*, most> pointers;
    for (size_t i = 0; i < n_arguments; i++) pointers[i] = const_cast<uint64_t*>(arguments + i);
    const auto guard = on(stream->device);
    CHECKED(cudaLaunchKernel(function, dim3(grid), dim3(block), pointers.data(), 0, handle_of(stream)));
  });
}

int32_t gt_cuda_multiply(const gt_cuda_stream* stream, const gt_cuda_product* p) {
  return guarded([&] {
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
    const std::shared_lock<std::shared_mutex> shared(settings);
    const c10::cuda::CUDAStreamGuard guard(stream_of(stream));
    const auto device = c10::Device(c10::DeviceType::CUDA, index_of(stream->device));
    const auto options = at::TensorOptions().device(device).dtype(scalar_type(p->dtype)).requires_grad(false);
    const int64_t dense[3] = {p->m * p->n, p->n, 1};
    const c10::InferenceMode no_autograd;
    std::optional<at::NoTF32Guard> full;
    if (p->dtype != 4) full.emplace();
    const at::Tensor lhs = matrix(p->lhs, p->batch, p->m, p->k, p->lhs_strides, options);
    const at::Tensor rhs = matrix(p->rhs, p->batch, p->k, p->n, p->rhs_strides, options);
    at::Tensor out = matrix(p->out, p->batch, p->m, p->n, dense, options);
    if (p->batch == 1) {
      at::Tensor plain = out.select(0, 0);
      const at::Tensor a = lhs.select(0, 0), b = rhs.select(0, 0);
      if (p->bias == 0) {
        at::mm_out(plain, a, b);
      } else {
        const int64_t step[3] = {p->n, p->n, 1};
        const at::Tensor bias = matrix(p->bias, 1, 1, p->n, step, options).select(0, 0).select(0, 0);
        // Each one call of cuBLASLt with an epilogue, where the operands' layout allows it.
        if (p->activation != 0) {
          at::_addmm_activation_out(plain, bias, a, b, 1, 1, /*use_gelu=*/p->activation == 2);
        } else {
          at::addmm_out(plain, bias, a, b);
        }
      }
    } else {
      at::bmm_out(out, lhs, rhs);
    }
  });
}

int32_t gt_cuda_capture_begin(const gt_cuda_stream* stream, void** capture) {
  return guarded([&] {
    const auto guard = on(stream->device);
    auto begun = std::make_unique<Capture>();
    begun->stream = *stream;
    begun->pool = std::make_unique<Pool>(index_of(stream->device), handle_of(stream));
    // Of this thread only: others may allocate and load meanwhile.
    CHECKED(cudaStreamBeginCapture(handle_of(stream), cudaStreamCaptureModeThreadLocal));
    *capture = begun.release();
  });
}

int32_t gt_cuda_capture_end(void* capture, void** graph) {
  return guarded([&] {
    const std::unique_ptr<Capture> begun(static_cast<Capture*>(capture));
    const auto guard = on(begun->stream.device);
    cudaGraph_t recorded = nullptr;
    const cudaError_t status = cudaStreamEndCapture(handle_of(&begun->stream), &recorded);
    begun->pool->close();
    check(status, "cudaStreamEndCapture");
    TORCH_CHECK(recorded != nullptr, "the capture recorded nothing that can be a graph");
    auto made = std::make_unique<Graph>();
    made->device = begun->stream.device;
    made->pool = std::move(begun->pool);
    const cudaError_t instantiated = cudaGraphInstantiate(&made->executable, recorded, 0);
    const cudaError_t destroyed = cudaGraphDestroy(recorded);
    check(instantiated, "cudaGraphInstantiate");
    check(destroyed, "cudaGraphDestroy");
    *graph = made.release();
  });
}

int32_t gt_cuda_graph_launch(void* graph, const gt_cuda_stream* stream) {
  return guarded([&] {
    const auto guard = on(stream->device);
    CHECKED(cudaGraphLaunch(static_cast<Graph*>(graph)->executable, handle_of(stream)));
  });
}

int32_t gt_cuda_graph_destroy(void* graph) {
  return guarded([&] {
    const std::unique_ptr<Graph> destroyed(static_cast<Graph*>(graph));
    const auto guard = on(destroyed->device);
  });
}
