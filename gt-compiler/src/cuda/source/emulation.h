#ifdef GT_HOST_EMULATION
// A block on the host: its threads are fibers that take turns at barriers, in an order that changes from one barrier to the next.
#include <cmath>
#include <cstring>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>
#define __global__
#define __device__ static inline
#define __shared__ static thread_local
#define __launch_bounds__(n)

struct Dim { unsigned x; };
static thread_local Dim blockIdx, threadIdx, blockDim, gridDim;

struct Fiber { ucontext_t context; bool done; };
static thread_local std::vector<Fiber> fibers;
static thread_local ucontext_t scheduler;
static thread_local unsigned long long mailbox[1024];

static inline void __syncthreads() {
    const unsigned me = threadIdx.x;
    swapcontext(&fibers[me].context, &scheduler);
    threadIdx.x = me;
}
static inline int __syncthreads_or(int predicate) {
    static thread_local int any;
    any = 0;
    __syncthreads();
    any |= predicate;
    __syncthreads();
    const int out = any;
    __syncthreads();
    return out;
}
static inline void __syncwarp() { __syncthreads(); }
// All threads of a block shuffle together.
template <class T>
static T shuffle_from(T value, unsigned lane) {
    const unsigned me = threadIdx.x;
    memcpy(&mailbox[me], &value, sizeof value);
    __syncthreads();
    const unsigned from = me / 32 * 32 + lane % 32;
    memcpy(&value, &mailbox[from < blockDim.x ? from : me], sizeof value);
    __syncthreads();
    return value;
}
template <class T>
static T __shfl_down_sync(unsigned, T value, unsigned delta) { return shuffle_from(value, threadIdx.x % 32 + delta); }
static inline unsigned __ballot_sync(unsigned, bool predicate) {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
        const bool set = shuffle_from(predicate, lane);
        bits |= unsigned(set && threadIdx.x / 32 * 32 + lane < blockDim.x) << lane;
    }
    return bits;
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
static inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long old, unsigned long long value) {
    return __sync_val_compare_and_swap(at, old, value);
}
template <class To, class From>
static To same_bits(From x) { To out; memcpy(&out, &x, sizeof out); return out; }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }

template <class... P, size_t... I>
static void call(void (*kernel)(P...), const unsigned long long* args, std::index_sequence<I...>) { kernel((P)args[I]...); }
template <class... P>
static void call(void (*kernel)(P...), const unsigned long long* args) { call(kernel, args, std::index_sequence_for<P...>()); }

// A launch of a kernel whose threads never wait for each other.
template <class K>
static void run_apart(K kernel, unsigned grid, unsigned block, const unsigned long long* args) {
    gridDim.x = grid, blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) call(kernel, args);
}

struct Launch { void (*call)(const void*, const unsigned long long*); const void* kernel; const unsigned long long* args; };
static thread_local Launch current;
static void fiber_main() {
    const unsigned me = threadIdx.x;
    current.call(current.kernel, current.args);
    fibers[me].done = true;
    for (;;) swapcontext(&fibers[me].context, &scheduler);
}
// A launch of a kernel with barriers.
template <class K>
static void run_together(K kernel, unsigned grid, unsigned block, const unsigned long long* args) {
    constexpr size_t STACK = 32 << 10;
    std::vector<char> stacks(block * STACK);
    gridDim.x = grid, blockDim.x = block;
    current = {[](const void* k, const unsigned long long* a) { call((K)k, a); }, (const void*)kernel, args};
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
        fibers.assign(block, Fiber());
        for (unsigned t = 0; t < block; ++t) {
            getcontext(&fibers[t].context);
            fibers[t].context.uc_stack.ss_sp = &stacks[t * STACK];
            fibers[t].context.uc_stack.ss_size = STACK;
            makecontext(&fibers[t].context, fiber_main, 0);
        }
        unsigned running = block;
        for (unsigned round = 0; running > 0; ++round) {
            running = 0;
            for (unsigned i = 0; i < block; ++i) {
                const unsigned t = round % 2 ? block - 1 - i : i;
                if (fibers[t].done) continue;
                threadIdx.x = t;
                swapcontext(&scheduler, &fibers[t].context);
                running += !fibers[t].done;
            }
        }
    }
}
#endif
