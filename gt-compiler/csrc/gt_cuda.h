// What the engine needs of libtorch on CUDA, as plain C.
//
// Guarantees: every function gives a status, whose message gt_cuda_message() holds for the thread until its next call; no C++ exception
// leaves a function; the thread's current device and stream are after a call what they were before, and no other device is woken than the one
// concerned (the runtime makes a context of hundreds of megabytes on whichever is current); work is enqueued on the stream given and nothing
// waits unless its name says so; functions may be called on any thread, those of one stream by one thread at a time.
//
// It is built as a shared library of its own that the program carries and loads when it is asked for a CUDA device: libtorch_cuda.so names
// cuBLAS, cuDNN, NCCL and others as libraries it cannot be loaded without, so a program linked with it would not start on a machine that has
// none. So one program runs on the CPU everywhere, and on CUDA where the libraries are. Loading it before libtorch is asked about CUDA is
// what makes libtorch see its CUDA part.
#ifndef GT_CUDA_H
#define GT_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GT_CUDA_API __attribute__((visibility("default")))

typedef enum {
  GT_CUDA_OK = 0,
  // The call was refused, or earlier work failed.
  GT_CUDA_FAILED = 1,
  // No memory was left on the device, cached memory given back included.
  GT_CUDA_OUT_OF_MEMORY = 2,
} gt_cuda_status;

// A stream, by the number libtorch knows it by and its handle.
typedef struct {
  int64_t id;
  void* handle;
  int32_t device;
} gt_cuda_stream;

typedef struct {
  char name[256];
  int32_t major, minor, multiprocessors;
  uint64_t total_bytes;
} gt_cuda_properties;

// Bytes.
typedef struct {
  uint64_t live, reserved, peak;
} gt_cuda_memory;

// out[b] = lhs[b] * rhs[b]. Strides are in elements: of the batch, of rows, of columns; the result is contiguous.
typedef struct {
  uint64_t lhs, rhs, out;
  int64_t batch, m, n, k;
  int64_t lhs_strides[3], rhs_strides[3];
  // 0: f32, 1: f64, 2: f16, 3: bf16, 4: f32 whose operands may be rounded to tf32.
  int32_t dtype;
  // What becomes of the sums where there is a bias. 0: nothing, 1: relu, 2: gelu by the tanh formula.
  int32_t activation;
  // A row of n elements that is added to each row of a product of one batch; 0 for none.
  uint64_t bias;
} gt_cuda_product;

// softmax(query key^T * scale) value over [batch, heads, length, width], or its gradient. Strides are in elements.
// The result and the gradients of the operands lie as [batch, length, heads, width].
typedef struct {
  uint64_t query, key, value;
  // Made by a forward call, read by a backward one: the result, and the logarithms of the sums of exponentials, f32[batch, heads, length], its
  // last size rounded up to a multiple of 32.
  uint64_t out, sums;
  // Of a backward call: the gradient of the result, and where those of query, key and value go.
  uint64_t grad, grads[3];
  int64_t batch, heads, length, positions, width;
  int64_t query_strides[4], key_strides[4], value_strides[4], grad_strides[4];
  double scale;
  // As of a product: f32, f16 or bf16.
  int32_t dtype;
  // Whether no query sees a later position; then there are as many queries as positions.
  int32_t causal;
  int32_t backward;
} gt_cuda_attention;

// Why the last call of this thread gave something else than GT_CUDA_OK.
GT_CUDA_API const char* gt_cuda_message(void);

GT_CUDA_API int32_t gt_cuda_device_count(int32_t* count);
// Makes the device ready for use; the first call of all.
GT_CUDA_API int32_t gt_cuda_open(int32_t device, gt_cuda_properties* properties);
GT_CUDA_API int32_t gt_cuda_synchronize_device(int32_t device);
// What earlier work left behind, without waiting for any.
GT_CUDA_API int32_t gt_cuda_last_error(int32_t device);
// How libtorch computes in this process: with products in tf32 possible (each says whether it wants that), and with equal bits preferred to speed.
GT_CUDA_API int32_t gt_cuda_precision(int32_t tf32, int32_t deterministic);

// A stream that nobody else has until it is given back, which is when nothing runs on it. Not one of libtorch's pool, which lends each to many:
// what one of them captures would record what another launches.
GT_CUDA_API int32_t gt_cuda_stream_take(int32_t device, int32_t high_priority, gt_cuda_stream* stream);
GT_CUDA_API int32_t gt_cuda_stream_give_back(const gt_cuda_stream* stream);
GT_CUDA_API int32_t gt_cuda_stream_synchronize(const gt_cuda_stream* stream);

GT_CUDA_API int32_t gt_cuda_event_create(int32_t device, int32_t timed, void** event);
GT_CUDA_API int32_t gt_cuda_event_destroy(void* event);
GT_CUDA_API int32_t gt_cuda_event_record(void* event, const gt_cuda_stream* stream);
// Work enqueued on the stream from now on waits for the event as last recorded.
GT_CUDA_API int32_t gt_cuda_stream_wait(const gt_cuda_stream* stream, void* event);
GT_CUDA_API int32_t gt_cuda_event_synchronize(void* event);
GT_CUDA_API int32_t gt_cuda_event_elapsed(void* from, void* to, float* milliseconds);

GT_CUDA_API int32_t gt_cuda_alloc(const gt_cuda_stream* stream, size_t bytes, uint64_t* address);
GT_CUDA_API int32_t gt_cuda_free(uint64_t address);
GT_CUDA_API int32_t gt_cuda_memory_of(int32_t device, gt_cuda_memory* memory);
GT_CUDA_API int32_t gt_cuda_trim(int32_t device);
// Page-locked host memory.
GT_CUDA_API int32_t gt_cuda_host_alloc(int32_t device, size_t bytes, void** address);
GT_CUDA_API int32_t gt_cuda_host_free(int32_t device, void* address);

// Between host and device the host's side is page-locked, and stays untouched until the copy has run.
GT_CUDA_API int32_t gt_cuda_upload(const gt_cuda_stream* stream, const void* from, uint64_t to, size_t bytes);
GT_CUDA_API int32_t gt_cuda_download(const gt_cuda_stream* stream, uint64_t from, void* to, size_t bytes);
GT_CUDA_API int32_t gt_cuda_copy(const gt_cuda_stream* stream, uint64_t from, uint64_t to, size_t bytes);

// A cubin; the runtime reads as many bytes as it says it has. Unloading is for when nothing of it runs any more.
GT_CUDA_API int32_t gt_cuda_module_load(int32_t device, const void* image, void** module);
GT_CUDA_API int32_t gt_cuda_module_unload(void* module);
GT_CUDA_API int32_t gt_cuda_module_function(void* module, const char* name, void** function);
// The arguments are 64-bit words, as many as the kernel has parameters.
GT_CUDA_API int32_t gt_cuda_launch(const gt_cuda_stream* stream, void* function, uint32_t grid, uint32_t block,
                                   const uint64_t* arguments, size_t n_arguments);
GT_CUDA_API int32_t gt_cuda_multiply(const gt_cuda_stream* stream, const gt_cuda_product* product);
GT_CUDA_API int32_t gt_cuda_attend(const gt_cuda_stream* stream, const gt_cuda_attention* attention);

// What libtorch allocates on the stream during a capture comes from a pool that lives as long as the graph.
GT_CUDA_API int32_t gt_cuda_capture_begin(const gt_cuda_stream* stream, void** capture);
// Ends the capture and consumes it, whatever the outcome.
GT_CUDA_API int32_t gt_cuda_capture_end(void* capture, void** graph);
GT_CUDA_API int32_t gt_cuda_graph_launch(void* graph, const gt_cuda_stream* stream);
GT_CUDA_API int32_t gt_cuda_graph_destroy(void* graph);

#ifdef __cplusplus
}
#endif

#endif
