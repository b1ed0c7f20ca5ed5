// Random numbers by counter: Philox4x32-10, to the bit as on the CPU: additions, multiplications and roots in a fixed order.

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

// Natural logarithm of a normal positive f64 (FreeBSD's e_log.c), as the CPU's libm.
__device__ f64 log_of64(f64 x) {
    const u64 bits = u64(__double_as_longlong(x));
    const u32 high = u32(bits >> 32) + (0x3ff00000u - 0x3fe6a09eu);
    const f64 k = f64(i32(high >> 20) - 0x3ff);
    x = __longlong_as_double(i64(u64((high & 0x000fffffu) + 0x3fe6a09eu) << 32 | u32(bits)));
    const f64 f = x - 1.0, half_square = 0.5 * f * f, s = f / (2.0 + f), z = s * s, w = z * z;
    const f64 even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const f64 odd = z * (6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    const f64 r = odd + even;
    return s * (half_square + r) + k * 1.90821492927058770002e-10 - half_square + f + k * 6.93147180369123816490e-01;
}

// Cosine and sine of x + y, |x| at most pi/4 (FreeBSD's k_cos.c and k_sin.c).
__device__ f64 near_cos(f64 x, f64 y) {
    const f64 z = x * x, w = z * z;
    const f64 r = z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05))
        + w * w * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
    const f64 half = 0.5 * z, rest = 1.0 - half;
    return rest + (((1.0 - rest) - half) + (z * r - x * y));
}
__device__ f64 near_sin(f64 x, f64 y, bool has_rest) {
    const f64 z = x * x, w = z * z, v = z * x, s1 = -1.66666666666666324348e-01;
    const f64 r = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06)
        + z * w * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
    return has_rest ? x - ((z * (0.5 * y - v * r) - y) - v * s1) : x + v * (s1 + z * r);
}

// x, from 0 to 2 pi, less the nearest multiple of pi/2, in two parts (FreeBSD's e_rem_pio2.c).
__device__ u32 quadrant_of(f64 x, f64& y0, f64& y1) {
    const u32 high = u32(u64(__double_as_longlong(x)) >> 32);
    const f64 part1 = 1.57079632673412561417e+00, rest1 = 6.07710050650619224932e-11;
    const bool is_multiple = high == 0x3ff921fbu || high == 0x400921fbu || high == 0x4012d97cu || high == 0x401921fbu;
    if (!is_multiple) {
        const u32 n = high <= 0x4002d97cu ? 1 : high <= 0x400f6a7au ? 2 : high <= 0x4015fdbcu ? 3 : 4;
        const f64 z = x - f64(n) * part1;
        y0 = z - f64(n) * rest1;
        y1 = (z - y0) - f64(n) * rest1;
        return n;
    }
    // Close to a multiple so much cancels that more of pi/2 is needed.
    const f64 n = (x * 6.36619772367581382433e-01 + 6755399441055744.0) - 6755399441055744.0;
    f64 r = x - n * part1, w = n * rest1;
    y0 = r - w;
    const i32 exponent = i32(high >> 20);
    if (exponent - i32(u64(__double_as_longlong(y0)) >> 52 & 0x7ff) > 16) {
        f64 t = r;
        w = n * 6.07710050630396597660e-11;
        r = t - w;
        w = n * 2.02226624879595063154e-21 - ((t - r) - w);
        y0 = r - w;
        if (exponent - i32(u64(__double_as_longlong(y0)) >> 52 & 0x7ff) > 49) {
            t = r;
            w = n * 2.02226624871116645580e-21;
            r = t - w;
            w = n * 8.47842766036889956997e-32 - ((t - r) - w);
            y0 = r - w;
        }
    }
    y1 = (r - y0) - w;
    return u32(n);
}

// Cosine of x, from 0 to 2 pi, or its sine (where `odd`), as the CPU's libm.
__device__ f64 turn64(f64 x, bool odd) {
    const u32 high = u32(u64(__double_as_longlong(x)) >> 32);
    if (high <= 0x3fe921fbu) {
        if (high < (odd ? 0x3e500000u : 0x3e46a09eu)) return odd ? x : 1.0;
        return odd ? near_sin(x, 0.0, false) : near_cos(x, 0.0);
    }
    f64 y0, y1;
    const u32 n = quadrant_of(x, y0, y1);
    const f64 value = (n & 1u) != u32(odd) ? near_sin(y0, y1, true) : near_cos(y0, y1);
    const bool minus = odd ? (n & 3u) >= 2 : (n & 3u) == 1 || (n & 3u) == 2;
    return minus ? -value : value;
}

// Element `i` of two.
__device__ f64 normal64(Words w, u32 i) {
    const f64 radius = sqrt(-2.0 * log_of64(1.0 - uniform64(word64(w, 0))));
    const f64 angle = 2.0 * 3.14159265358979323846 * uniform64(word64(w, 1));
    return radius * turn64(angle, i != 0);
}

// An integer in low..high: the high half of a product maps 64 random bits to the range.
__device__ i64 integer(Words w, u32 i, i64 low, i64 high) {
    const u64 range = high > low ? u64(high) - u64(low) : 1;
    return i64(u64(low) + __umul64hi(word64(w, i), range));
}

// An integer as a float of 16 bits: by way of the upper half of its f64, as on the CPU.
__device__ f32 coarse(i64 x) { return f32(__longlong_as_double(__double_as_longlong(f64(x)) & ~0xffffffffll)); }
