// Random numbers by counter: Philox4x32-10, as on the CPU, to the bit where it uses additions and multiplications in a fixed order.

struct Words { u32 at[4]; };

__device__ Words philox(u64 seed, u64 index) {
    u32 a = u32(index), b = u32(index >> 32), c = 0, d = 0, k0 = u32(seed), k1 = u32(seed >> 32);
    for (u32 round = 0; round < 10; ++round) {
        const u64 p0 = 0xd2511f53ull * a, p1 = 0xcd9e8d57ull * c;
        a = u32(p1 >> 32) ^ b ^ k0, b = u32(p1);
        c = u32(p0 >> 32) ^ d ^ k1, d = u32(p0);
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    return {{a, b, c, d}};
}

// Two words as one; `i` is 0 or 1.
__device__ u64 word64(Words w, u32 i) { return u64(w.at[2 * i]) << 32 | w.at[2 * i + 1]; }

// The top bits of a word as a fraction below 1: exact in a float of that precision.
__device__ f32 uniform(u32 word, u32 bits) { return f32(word >> (32 - bits)) / f32(1u << bits); }
__device__ f64 uniform64(u64 word) { return f64(word >> 11) * 0x1p-53; }

// Natural logarithm of a normal positive float (Cephes).
__device__ f32 log_of(f32 x) {
    const u32 bits = __float_as_uint(x);
    i32 exponent = i32(bits >> 23) - 126;
    f32 m = __uint_as_float((bits & 0x007fffffu) | 0x3f000000u);
    if (m < 0.707106769f) exponent -= 1, m += m;
    x = m - 1.0f;
    const f32 z = x * x;
    f32 p = 7.0376836e-2f;
    p = p * x + -1.151461e-1f;
    p = p * x + 1.1676999e-1f;
    p = p * x + -1.2420141e-1f;
    p = p * x + 1.4249323e-1f;
    p = p * x + -1.6668058e-1f;
    p = p * x + 2.0000715e-1f;
    p = p * x + -2.4999994e-1f;
    p = p * x + 3.333333e-1f;
    const f32 e = f32(exponent);
    f32 y = p * x * z;
    y += e * -2.1219444e-4f;
    y -= 0.5f * z;
    return (x + y) + e * 0.6933594f;
}

// Sine (where `odd`) or cosine of a word taken as a fraction of a full turn.
__device__ f32 turn(u32 word, bool odd) {
    const u32 quadrant = word >> 30;
    const f32 r = (f32((word << 2) >> 9) * (1.0f / 8388608.0f) - 0.5f) * 1.57079632679f;
    const f32 z = r * r;
    const f32 sine = ((-1.9515296e-4f * z + 8.332161e-3f) * z - 1.6666655e-1f) * z * r + r;
    const f32 cosine = ((2.4433157e-5f * z - 1.3887316e-3f) * z + 4.1666646e-2f) * z * z - 0.5f * z + 1.0f;
    const f32 value = (quadrant & 1u) != u32(odd) ? sine : cosine;
    const bool minus = odd ? quadrant >= 2 : quadrant == 1 || quadrant == 2;
    return minus ? -value : value;
}

// Element `i` of four, by Box and Muller: words 0 and 1 make elements 0 and 1, words 2 and 3 the others.
__device__ f32 normal(Words w, u32 i) {
    const f32 radius = sqrtf(-2.0f * log_of(f32((w.at[i & 2] >> 8) + 1) * (1.0f / 16777216.0f)));
    return radius * turn(w.at[(i & 2) + 1], i & 1);
}

// Element `i` of two.
__device__ f64 normal64(Words w, u32 i) {
    const f64 radius = sqrt(-2.0 * log(1.0 - uniform64(word64(w, 0))));
    const f64 angle = 2.0 * 3.14159265358979323846 * uniform64(word64(w, 1));
    return radius * (i == 0 ? cos(angle) : sin(angle));
}

// An integer in low..high: the high half of a product maps 64 random bits to the range.
__device__ i64 integer(Words w, u32 i, i64 low, i64 high) {
    const u64 range = high > low ? u64(high) - u64(low) : 1;
    return i64(u64(low) + __umul64hi(word64(w, i), range));
}

// An integer as a float of 16 bits: by way of the upper half of its f64, as on the CPU.
__device__ f32 coarse(i64 x) { return f32(__longlong_as_double(__double_as_longlong(f64(x)) & ~0xffffffffll)); }
