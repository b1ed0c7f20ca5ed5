// Sums of chunks lie in the result until it is written there.

struct Axis {
    u64 len, inner, chunk, n_chunks;
};

// Where a line begins: neighboring threads have neighboring lines.
__device__ u64 line_of(Axis axis, u64 n) {
    return n / axis.inner * (axis.len * axis.inner) + n % axis.inner;
}
__device__ u64 count_of(Axis axis, u64 c) {
    return c + 1 < axis.n_chunks ? axis.chunk : axis.len - c * axis.chunk;
}

__device__ f64 joined(f64 a, f64 b) { return a + b; }
__device__ i64 joined(i64 a, i64 b) { return wrap_add(a, b); }
__device__ f64 multiplied(f64 a, f64 b) { return a * b; }
__device__ i64 multiplied(i64 a, i64 b) { return wrap_mul(a, b); }

// A sum in the places of a chunk's first elements.
__device__ void keep(f32* at, u64 apart, f64 sum) {
    const u64 bits = u64(__double_as_longlong(sum));
    at[0] = __uint_as_float(u32(bits));
    at[apart] = __uint_as_float(u32(bits >> 32));
}
__device__ void keep(f64* at, u64, f64 sum) { *at = sum; }
__device__ void keep(i64* at, u64, i64 sum) { *at = sum; }
__device__ f64 kept(const f32* at, u64 apart) {
    const u64 bits = u64(__float_as_uint(at[0])) | u64(__float_as_uint(at[apart])) << 32;
    return __longlong_as_double(i64(bits));
}
__device__ f64 kept(const f64* at, u64) { return *at; }
__device__ i64 kept(const i64* at, u64) { return *at; }

template <class W, class T>
__device__ void chunk_sum(Axis axis, const T* x, T* out, u64 i) {
    const u64 c = i % axis.n_chunks;
    const u64 at = line_of(axis, i / axis.n_chunks) + c * axis.chunk * axis.inner;
    // Nobody asks for the last one's sum, and it may have one place only.
    if (c + 1 == axis.n_chunks) return;
    W sum = 0;
    for (u64 j = 0; j < axis.chunk; ++j) sum = joined(sum, W(x[at + j * axis.inner]));
    keep(out + at, axis.inner, sum);
}

template <class W, class T>
__device__ void sums_before(Axis axis, const T* x, T* out, u64 i) {
    const u64 line = line_of(axis, i);
    W before = 0;
    for (u64 c = 0; c + 1 < axis.n_chunks; ++c) {
        T* at = out + line + c * axis.chunk * axis.inner;
        const W sum = kept(at, axis.inner);
        keep(at, axis.inner, before);
        before = joined(before, sum);
    }
    const u64 c = axis.n_chunks - 1, at = line + c * axis.chunk * axis.inner;
    if (count_of(axis, c) == 1) {
        out[at] = T(joined(before, joined(W(0), W(x[at]))));
    } else {
        keep(out + at, axis.inner, before);
    }
}

template <class W, class T>
__device__ void all_sums(Axis axis, const T* x, T* out, u64 i) {
    const u64 c = i % axis.n_chunks, n = count_of(axis, c);
    const u64 at = line_of(axis, i / axis.n_chunks) + c * axis.chunk * axis.inner;
    if (n == 1 && c + 1 == axis.n_chunks) return;
    const W before = kept(out + at, axis.inner);
    W sum = 0;
    for (u64 j = 0; j < n; ++j) {
        sum = joined(sum, W(x[at + j * axis.inner]));
        out[at + j * axis.inner] = T(joined(before, sum));
    }
}

template <class W, class T>
__device__ void alone(Axis axis, const T* x, T* out, u64 i) {
    const u64 at = line_of(axis, i);
    W sum = 0;
    for (u64 j = 0; j < axis.len; ++j) {
        sum = joined(sum, W(x[at + j * axis.inner]));
        out[at + j * axis.inner] = T(joined(W(0), sum));
    }
}

template <class W, class T>
__device__ void products(Axis axis, const T* x, T* out, u64 i) {
    const u64 at = line_of(axis, i);
    W product = 1;
    for (u64 j = 0; j < axis.len; ++j) {
        product = multiplied(product, W(x[at + j * axis.inner]));
        out[at + j * axis.inner] = T(product);
    }
}
