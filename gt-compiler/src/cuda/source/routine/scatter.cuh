// Adding to rows that indices name, without atomic operations: a block owns the rows that are `part` modulo `parts`. It goes through all
// indices in order, lists those of its rows, and adds what belongs to them in the order of the list.

constexpr u32 THREADS = 256, EACH = 8, LIST = THREADS * EACH;

struct Entry { u32 from, row; };

// Lists the entries at `start..` of `n` whose rows the block owns. Gives their number.
__device__ u32 collect(Entry* list, const i64* index, u64 stride, u32 start, u32 n, u32 size, u32 parts, u32 part, u64* error) {
    __shared__ u32 counts[THREADS], groups[THREADS / 32];
    const u32 me = threadIdx.x, group = me / 32;
    i64 rows[EACH]; // in registers: every subscript is a constant
    u32 count = 0, owned = 0;
    #pragma unroll
    for (u32 u = 0; u < EACH; ++u) {
        const u32 from = start + me * EACH + u;
        rows[u] = from < n ? index[from * stride] : 0;
    }
    #pragma unroll
    for (u32 u = 0; u < EACH; ++u) {
        if (start + me * EACH + u >= n) break;
        checked(rows[u], size, error);
        const bool own = u64(rows[u]) < size && u32(rows[u]) % parts == part;
        owned |= u32(own) << u, count += own;
    }
    counts[me] = count;
    __syncthreads();
    if (me < THREADS / 32) {
        u32 sum = 0;
        for (u32 t = 0; t < 32; ++t) sum += counts[me * 32 + t];
        groups[me] = sum;
    }
    __syncthreads();
    u32 at = 0, all = 0;
    for (u32 g = 0; g < THREADS / 32; ++g) {
        if (g < group) at += groups[g];
        all += groups[g];
    }
    for (u32 t = group * 32; t < me; ++t) at += counts[t];
    #pragma unroll
    for (u32 u = 0; u < EACH; ++u)
        if (owned >> u & 1u) list[at++] = {start + me * EACH + u, u32(rows[u])};
    __syncthreads();
    return all;
}
