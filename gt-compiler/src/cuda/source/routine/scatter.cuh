// Adding to rows that indices name, without atomic operations: a block owns the rows that are `part` modulo `parts`. It goes through all
// indices in order, lists those of its rows, and adds what belongs to them in the order of the list.

constexpr u32 THREADS = 256, EACH = 8, LIST = THREADS * EACH;

struct Entry { u32 from, row; };

// Lists the entries at `start..` of `n` whose rows the block owns. Gives their number.
__device__ u32 collect(Entry* list, const i64* index, u64 stride, u32 start, u32 n, u32 size, u32 parts, u32 part, u64* error) {
    __shared__ u32 counts[THREADS], groups[THREADS / 32];
    const u32 me = threadIdx.x, group = me / 32;
    Entry own[EACH];
    u32 count = 0;
    for (u32 u = 0; u < EACH; ++u) {
        const u32 from = start + me * EACH + u;
        if (from >= n) break;
        const i64 row = index[from * stride];
        checked(row, size, error);
        if (u64(row) < size && u32(row) % parts == part) own[count++] = {from, u32(row)};
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
    for (u32 k = 0; k < count; ++k) list[at + k] = own[k];
    __syncthreads();
    return all;
}
