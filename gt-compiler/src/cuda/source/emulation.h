#ifdef GT_HOST_EMULATION
// A block on the host: its threads are fibers that take turns at barriers, in an order that changes from one barrier to the next. What a
// device leaves undefined ends the process with a word: threads of a block that wait at different places or not at all, packs that are not
// aligned. What one thread may not know of another is told by order: gt_emulation_order(1) turns that of blocks and of threads around, and the
// results have to be the same. It does not see races within one turn of a thread, nor shared memory that is read before it is written.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

[[noreturn]] static inline void undefined(const char* what, int line) {
    fprintf(stderr, "block %u, thread %u, line %d: %s\n", blockIdx.x, threadIdx.x, line, what);
    abort();
}
template <class P>
static inline void aligned(const void* at, int line = __builtin_LINE()) {
    if ((uintptr_t)at % alignof(P)) undefined("a pack is not aligned", line);
}

static bool turned_around;
extern "C" void gt_emulation_order(unsigned turned) { turned_around = turned != 0; }

// `line` is where a thread waits, in which barrier or shuffle.
struct Fiber { ucontext_t context; bool done; int line; };
static thread_local std::vector<Fiber> fibers;
static thread_local ucontext_t scheduler;
static thread_local unsigned long long mailbox[1024];

static inline void wait_at(int line) {
    const unsigned me = threadIdx.x;
    fibers[me].line = line;
    swapcontext(&fibers[me].context, &scheduler);
    threadIdx.x = me;
}
static inline void __syncthreads(int line = __builtin_LINE()) { wait_at(line); }
// All threads of a block shuffle together. A lane beyond the warp is one's own; what a lane that no thread has would give is anything.
template <class T>
static T shuffle_from(T value, unsigned mask, unsigned lane, int line) {
    if (mask != ~0u) undefined("a shuffle of some lanes only", line);
    const unsigned me = threadIdx.x, from = lane < 32 ? me / 32 * 32 + lane : me;
    memcpy(&mailbox[me], &value, sizeof value);
    wait_at(line);
    if (from < blockDim.x) memcpy(&value, &mailbox[from], sizeof value);
    else memset(&value, 0x5a, sizeof value);
    wait_at(line);
    return value;
}
template <class T>
static T __shfl_down_sync(unsigned mask, T value, unsigned delta, int line = __builtin_LINE()) {
    return shuffle_from(value, mask, threadIdx.x % 32 + delta, line);
}
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

// The library's functions are as far off as a device's may be (units in the last place, as CUDA's manual says), up or down by the bits of the
// result: what has to hold on a device holds here. Values that are exact there stay so.
template <class F>
static F off(F x, unsigned units) {
    if (!std::isfinite(x) || std::fabs(x) < F(1e-30) || std::fabs(x) == 1) return x;
    unsigned long long bits = 0;
    memcpy(&bits, &x, sizeof x);
    const F towards = (bits * 0x9e3779b97f4a7c15ull >> 40) & 1 ? F(INFINITY) : F(-INFINITY);
    for (unsigned u = 0; u < units; ++u) x = std::nextafter(x, towards);
    return x;
}
#define expf(x) off(expf(x), 2)
#define exp2f(x) off(exp2f(x), 2)
#define logf(x) off(logf(x), 1)
#define sinf(x) off(sinf(x), 2)
#define cosf(x) off(cosf(x), 2)
#define tanhf(x) off(tanhf(x), 2)
#define erff(x) off(erff(x), 2)
#define powf(x, y) off(powf(x, y), 4)
#define exp(x) off(exp(x), 1)
#define exp2(x) off(exp2(x), 1)
#define log(x) off(log(x), 1)
#define sin(x) off(sin(x), 2)
#define cos(x) off(cos(x), 2)
#define tanh(x) off(tanh(x), 2)
#define erf(x) off(erf(x), 2)
#define pow(x, y) off(pow(x, y), 2)

// The i-th of n blocks or threads to have its turn.
static inline unsigned turn_of(unsigned i, unsigned n, bool around) { return around ? n - 1 - i : i; }

// A launch of a kernel whose threads never wait for each other.
template <class K>
static void run_apart(K kernel, unsigned grid, unsigned block, const unsigned long long* args) {
    gridDim.x = grid, blockDim.x = block;
    for (unsigned b = 0; b < grid; ++b)
        for (unsigned t = 0; t < block; ++t) {
            blockIdx.x = turn_of(b, grid, turned_around), threadIdx.x = turn_of(t, block, turned_around);
            call(kernel, args);
        }
}

struct Launch { void (*call)(const void*, const unsigned long long*); const void* kernel; const unsigned long long* args; };
static thread_local Launch current;
static void fiber_main() {
    const unsigned me = threadIdx.x;
    current.call(current.kernel, current.args);
    fibers[me].done = true;
    for (;;) swapcontext(&fibers[me].context, &scheduler);
}
static void begin_fibers(std::vector<char>& stacks, unsigned block) {
    const size_t stack = stacks.size() / block;
    fibers.assign(block, Fiber());
    for (unsigned t = 0; t < block; ++t) {
        getcontext(&fibers[t].context);
        fibers[t].context.uc_stack.ss_sp = &stacks[t * stack];
        fibers[t].context.uc_stack.ss_size = stack;
        makecontext(&fibers[t].context, fiber_main, 0);
    }
}
// Whether threads wait: then all of them do, at one place.
static bool all_wait(unsigned block) {
    for (unsigned t = 1; t < block; ++t) {
        threadIdx.x = t;
        if (fibers[t].done != fibers[0].done) undefined("some threads of the block have ended, others wait", fibers[t].line);
        if (!fibers[t].done && fibers[t].line != fibers[0].line) undefined("the first thread waits elsewhere", fibers[t].line);
    }
    return !fibers[0].done;
}
// A launch of a kernel with barriers.
template <class K>
static void run_together(K kernel, unsigned grid, unsigned block, const unsigned long long* args) {
    std::vector<char> stacks(size_t(block) << 15);
    gridDim.x = grid, blockDim.x = block;
    current = {[](const void* k, const unsigned long long* a) { call((K)k, a); }, (const void*)kernel, args};
    for (unsigned b = 0; b < grid; ++b) {
        blockIdx.x = turn_of(b, grid, turned_around);
        begin_fibers(stacks, block);
        bool around = turned_around;
        do {
            for (unsigned i = 0; i < block; ++i) {
                threadIdx.x = turn_of(i, block, around);
                swapcontext(&scheduler, &fibers[threadIdx.x].context);
            }
            around = !around;
        } while (all_wait(block));
    }
}
#endif
