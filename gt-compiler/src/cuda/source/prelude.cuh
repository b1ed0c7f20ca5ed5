// Element types, memory and arithmetic of generated kernels.
//
// An element lies in a register as on the CPU: bf16 and f16 as an f32 that is exactly one of them, u8 as an i32 in 0..=255, bool as bool. Integers
// wrap, floats that become integers truncate and saturate (NaN gives 0), a maximum or minimum of NaN is NaN and of two zeros the positive is the larger.

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

struct bf16 { u16 bits; };
struct f16 { u16 bits; };
struct bool8 { u8 bits; };

// N elements that move by one access.
template <class T, u32 N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack { T at[N]; };

#ifndef GT_HOST_EMULATION
template <class P>
__device__ void aligned(const void*) {}
#endif

template <u32 N, class T>
__device__ Pack<T, N> load(const T* from) {
    aligned<Pack<T, N>>(from);
    return *(const Pack<T, N>*)from;
}

template <u32 N, class T>
__device__ void store(T* to, const Pack<T, N>& pack) {
    aligned<Pack<T, N>>(to);
    *(Pack<T, N>*)to = pack;
}

// The first `n` elements; the others are not touched.
template <u32 N, class T>
__device__ Pack<T, N> load_some(const T* from, u64 n) {
    if (n >= N) return load<N>(from);
    Pack<T, N> pack = {};
    for (u32 u = 0; u < N; ++u)
        if (u < n) pack.at[u] = from[u];
    return pack;
}

template <u32 N, class T>
__device__ void store_some(T* to, const Pack<T, N>& pack, u64 n) {
    if (n >= N) return store<N>(to, pack);
    for (u32 u = 0; u < N; ++u)
        if (u < n) to[u] = pack.at[u];
}

// An f32 as the nearest bf16 and f16, half to even.
__device__ u16 bf16_bits(f32 x) {
#if __CUDA_ARCH__ >= 800
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const u32 bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return u16((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

__device__ u16 f16_bits(f32 x) {
#ifdef __CUDA_ARCH__
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const u32 all = __float_as_uint(x), sign = all >> 16 & 0x8000u, bits = all & 0x7fffffffu;
    if (x != x) return 0x7fff;
    if (bits >= 0x477ff000u) return u16(sign | 0x7c00u);
    if (bits >= 0x38800000u) return u16(sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13);
    return u16(sign | (__float_as_uint(__uint_as_float(bits) + 0.5f) - 0x3f000000u));
#endif
}

__device__ f32 f16_value(u16 bits) {
#ifdef __CUDA_ARCH__
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
#else
    const u32 sign = u32(bits & 0x8000) << 16, rest = u32(bits & 0x7fff) << 13;
    const u32 scaled = __float_as_uint(__uint_as_float(rest) * 0x1p112f);
    return __uint_as_float(sign | (rest >= 0x0f800000u ? rest | 0x7f800000u : scaled));
#endif
}

__device__ f32 round_bf16(f32 x) { return __uint_as_float(u32(bf16_bits(x)) << 16); }
__device__ f32 round_f16(f32 x) { return f16_value(f16_bits(x)); }

// Between memory and registers.
__device__ f32 get(f32 x) { return x; }
__device__ f64 get(f64 x) { return x; }
__device__ i32 get(i32 x) { return x; }
__device__ i64 get(i64 x) { return x; }
__device__ i32 get(u8 x) { return x; }
__device__ bool get(bool8 x) { return x.bits != 0; }
__device__ f32 get(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ f32 get(f16 x) { return f16_value(x.bits); }

__device__ void put(f32& to, f32 x) { to = x; }
__device__ void put(f64& to, f64 x) { to = x; }
__device__ void put(i32& to, i32 x) { to = x; }
__device__ void put(i64& to, i64 x) { to = x; }
__device__ void put(u8& to, i32 x) { to = u8(x); }
__device__ void put(bool8& to, bool x) { to.bits = x; }
__device__ void put(bf16& to, f32 x) { to.bits = bf16_bits(x); }
__device__ void put(f16& to, f32 x) { to.bits = f16_bits(x); }

__device__ f32 infinity() { return __uint_as_float(0x7f800000u); }

// Integers that wrap.
__device__ i32 wrap_add(i32 a, i32 b) { return i32(u32(a) + u32(b)); }
__device__ i64 wrap_add(i64 a, i64 b) { return i64(u64(a) + u64(b)); }
__device__ i32 wrap_sub(i32 a, i32 b) { return i32(u32(a) - u32(b)); }
__device__ i64 wrap_sub(i64 a, i64 b) { return i64(u64(a) - u64(b)); }
__device__ i32 wrap_mul(i32 a, i32 b) { return i32(u32(a) * u32(b)); }
__device__ i64 wrap_mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }
__device__ i32 wrap_abs(i32 a) { return a < 0 ? wrap_sub(0, a) : a; }
__device__ i64 wrap_abs(i64 a) { return a < 0 ? wrap_sub(i64(0), a) : a; }

// A negative exponent gives 0 except for the bases 1 and -1.
__device__ i64 wrap_pow(i64 x, i64 y) {
    if (y < 0) return x == 1 ? 1 : x == -1 ? 1 - 2 * (y & 1) : 0;
    i64 out = 1;
    for (; y > 0; y >>= 1, x = wrap_mul(x, x))
        if (y & 1) out = wrap_mul(out, x);
    return out;
}

// A divisor of 0 leaves x; by -1 nothing is left, which hardware may not know of the smallest integer.
template <class T>
__device__ T wrap_fmod(T x, T y) {
    return y == 0 ? x : y == -1 ? T(0) : T(x % y);
}

// A count that is negative, or not below the number of bits, leaves 0 or the sign.
__device__ i32 left_shift(i32 x, i32 n) { return u32(n) < 32 ? i32(u32(x) << n) : 0; }
__device__ i64 left_shift(i64 x, i64 n) { return u64(n) < 64 ? i64(u64(x) << n) : 0; }
__device__ i32 right_shift(i32 x, i32 n) { return x >> (u32(n) < 32 ? n : 31); }
__device__ i64 right_shift(i64 x, i64 n) { return x >> (u64(n) < 64 ? n : 63); }

__device__ i32 maximum(i32 a, i32 b) { return a < b ? b : a; }
__device__ i64 maximum(i64 a, i64 b) { return a < b ? b : a; }
__device__ i32 minimum(i32 a, i32 b) { return a < b ? a : b; }
__device__ i64 minimum(i64 a, i64 b) { return a < b ? a : b; }
__device__ f64 maximum(f64 a, f64 b) {
    if (a != a || b != b) return a + b;
    return a < b || (a == b && __double_as_longlong(a) < 0) ? b : a;
}
__device__ f64 minimum(f64 a, f64 b) {
    if (a != a || b != b) return a + b;
    return b < a || (a == b && __double_as_longlong(b) < 0) ? b : a;
}
__device__ f32 maximum(f32 a, f32 b) {
#if __CUDA_ARCH__ >= 800
    f32 out;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
    return out;
#else
    if (a != a || b != b) return a + b;
    return a < b || (a == b && i32(__float_as_uint(a)) < 0) ? b : a;
#endif
}
__device__ f32 minimum(f32 a, f32 b) {
#if __CUDA_ARCH__ >= 800
    f32 out;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
    return out;
#else
    if (a != a || b != b) return a + b;
    return b < a || (a == b && i32(__float_as_uint(b)) < 0) ? b : a;
#endif
}

// Floats as integers.
__device__ i64 to_i64(f64 x) {
    if (x != x) return 0;
    return x >= 0x1p63 ? 0x7fffffffffffffffll : x < -0x1p63 ? -0x7fffffffffffffffll - 1 : i64(x);
}
__device__ i32 to_i32(f64 x) {
    if (x != x) return 0;
    return x >= 0x1p31 ? 0x7fffffff : x <= -0x1p31 ? -0x7fffffff - 1 : i32(x);
}
__device__ i64 to_i64(f32 x) {
    if (x != x) return 0;
    return x >= 0x1p63f ? 0x7fffffffffffffffll : x < -0x1p63f ? -0x7fffffffffffffffll - 1 : i64(x);
}
__device__ i32 to_i32(f32 x) {
    if (x != x) return 0;
    return x >= 0x1p31f ? 0x7fffffff : x < -0x1p31f ? -0x7fffffff - 1 : i32(x);
}
__device__ i32 to_u8(i32 x) { return x < 0 ? 0 : x > 255 ? 255 : x; }

// An index inside 0..size. Another becomes 0 and is noted in the error words, if it is the first: 1, and the index.
__device__ u64 checked(i64 index, u64 size, u64* error) {
    if (u64(index) < size) return u64(index);
    if (atomicCAS(error, 0ull, 1ull) == 0) error[1] = u64(index);
    return 0;
}
