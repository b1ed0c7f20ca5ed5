// Places in the order of the elements there. Every exchange puts what comes first at the lower place, so places beyond the end need no element: they would
// stay where they are (Batcher 1968, in the form that only ascends).

constexpr u32 THREADS = 256, CHUNK = 1024;

// Whether a at i comes before b at j: of equals the first, NaN as the largest.
template <bool DESCENDING, class T>
__device__ bool before(T a, i64 i, T b, i64 j) {
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan != b_nan) return DESCENDING ? a_nan : b_nan;
    if (!a_nan && a < b) return !DESCENDING;
    if (!a_nan && b < a) return DESCENDING;
    return i < j;
}

template <bool DESCENDING, class X>
__device__ void exchange(const X* x, u64 step, i64* low, i64* high) {
    const i64 i = *low, j = *high;
    if (before<DESCENDING>(get(x[u64(j) * step]), j, get(x[u64(i) * step]), i)) *low = j, *high = i;
}

// A block's chunk of a row: its first place, and how many there are.
struct Chunk { u64 row, first; u32 count; };

__device__ Chunk chunk_of(u64 n) {
    const u64 chunks = (n + CHUNK - 1) / CHUNK, first = blockIdx.x % chunks * CHUNK;
    return {blockIdx.x / chunks, first, u32(n - first < CHUNK ? n - first : CHUNK)};
}

// Sorts what the first places hold, or ends a merge: windows from `from` places on, whose halves are first turned towards each other, or are not.
template <bool DESCENDING, bool MERGE, class X>
__device__ void chunk(const X* x, u64 step, i64* out, u64 first, u32 count) {
    __shared__ i64 places[CHUNK];
    for (u32 e = threadIdx.x; e < count; e += THREADS) places[e] = MERGE ? out[(first + e) * step] : i64(first + e);
    for (u32 k = MERGE ? CHUNK : 2; k <= CHUNK; k *= 2) {
        for (u32 j = k / 2; j > 0; j /= 2) {
            const bool turn = !MERGE && j == k / 2;
            __syncthreads();
            for (u32 t = threadIdx.x; t < CHUNK / 2; t += THREADS) {
                const u32 base = t / j * 2 * j, at = t % j, low = base + at;
                const u32 high = turn ? base + k - 1 - at : low + j;
                if (high < count) exchange<DESCENDING>(x, step, places + low, places + high);
            }
        }
    }
    __syncthreads();
    for (u32 e = threadIdx.x; e < count; e += THREADS) out[(first + e) * step] = places[e];
}

