//! The order of elements along an axis: stable, NaN the largest, in time proportional to the number
//! of elements; less where only a few positions of the order are read.
//!
//! Elements become unsigned keys whose order is that of the elements, equal where the elements are.
//! Short rows are sorted by comparing; long ones by the digits of the keys, from the lowest on
//! (Knuth, volume 3, 5.2.5), passing over digits that are the same everywhere. `select` finds a
//! part of the order without the rest. Rows share the threads, and neighboring columns are read
//! together. Nothing here fails.
#![expect(unsafe_code, reason = "hands disjoint rows of a result to several threads")]

mod select;

use std::ops::{BitXor, Range};

use bytemuck::Pod;
use gt_ir::{DType, Type, attr::Order};
use half::{bf16, f16};

use super::{
    context::{Context, Target},
    slices::{Cut, cut},
};

/// Elements of a row up to which comparing is cheaper than counting digits.
const SHORT: usize = 512;
/// Bits of a digit.
const DIGIT: usize = 11;
/// Elements of one task.
const GRAIN: usize = 1 << 12;
/// Columns that are read together: their elements share lines of the cache.
const SIDE: usize = 16;

/// An element's key and where it stands.
trait Pair: Copy + Ord + Default + Send + Sync {
    type Key: Copy + Ord + BitXor<Output = Self::Key> + Send + Sync;
    /// Bits of the key.
    const BITS: usize;
    fn new(key: Self::Key, place: usize) -> Self;
    fn key(self) -> Self::Key;
    fn place(self) -> usize;
    /// The digit of the key that begins at this bit.
    fn digit(self, bit: usize) -> usize;
}

/// A key of at most 32 bits and a place below 2^32 in one word.
impl Pair for u64 {
    type Key = u32;
    const BITS: usize = 32;
    fn new(key: u32, place: usize) -> u64 {
        u64::from(key) << 32 | place as u64
    }
    fn key(self) -> u32 {
        (self >> 32) as u32
    }
    fn place(self) -> usize {
        self as u32 as usize
    }
    fn digit(self, bit: usize) -> usize {
        (self >> (32 + bit)) as usize & ((1 << DIGIT) - 1)
    }
}

impl Pair for (u64, u64) {
    type Key = u64;
    const BITS: usize = 64;
    fn new(key: u64, place: usize) -> (u64, u64) {
        (key, place as u64)
    }
    fn key(self) -> u64 {
        self.0
    }
    fn place(self) -> usize {
        self.1 as usize
    }
    fn digit(self, bit: usize) -> usize {
        (self.0 >> bit) as usize & ((1 << DIGIT) - 1)
    }
}

/// Rows to be ordered.
struct Rows<'a, T> {
    x: &'a [T],
    cut: Cut,
    /// The positions of the order that are written.
    part: Range<usize>,
    out: Target,
}

/// The positions along an axis in the order of the elements there. Only `part` of each row of the
/// result is written.
pub(super) fn argsort(
    context: &Context<'_>,
    order: Order,
    part: Range<usize>,
    ty: &Type,
    x: &[u8],
    out: &mut [i64],
) {
    let work = Work { context, order, part, ty, x, out: Target(out.as_mut_ptr().cast()) };
    match ty.dtype {
        DType::F32 => work.narrow(ordered32),
        DType::Bf16 => work.narrow(|v: bf16| ordered16(v.to_bits(), bf16::INFINITY.to_bits())),
        DType::F16 => work.narrow(|v: f16| ordered16(v.to_bits(), f16::INFINITY.to_bits())),
        DType::I32 => work.narrow(|v: i32| v as u32 ^ 1 << 31),
        DType::U8 | DType::Bool => work.narrow(|v: u8| v.into()),
        DType::F64 => work.wide(ordered64),
        DType::I64 => work.wide(|v: i64| v as u64 ^ 1 << 63),
    }
}

/// The same of a float of 16 bits, of a format with this infinity.
fn ordered16(bits: u16, infinity: u16) -> u32 {
    let magnitude = bits & 0x7fff;
    let bits = if magnitude == 0 { 0 } else { bits };
    let turned = bits ^ (((bits as i16 >> 15) as u16) | 1 << 15);
    if magnitude > infinity { u16::MAX.into() } else { turned.into() }
}

/// A float's bits in its order: zeros are equal, and so are all NaN, which come last.
fn ordered32(v: f32) -> u32 {
    let bits = (if v == 0.0 { 0.0 } else { v }).to_bits();
    let turned = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
    if v.is_nan() { u32::MAX } else { turned }
}

fn ordered64(v: f64) -> u64 {
    let bits = (if v == 0.0 { 0.0 } else { v }).to_bits();
    let turned = bits ^ (((bits as i64 >> 63) as u64) | 1 << 63);
    if v.is_nan() { u64::MAX } else { turned }
}

/// What is to be ordered, before its dtype is known to the compiler.
struct Work<'a> {
    context: &'a Context<'a>,
    order: Order,
    part: Range<usize>,
    ty: &'a Type,
    x: &'a [u8],
    out: Target,
}

impl Work<'_> {
    /// Elements with keys of 32 bits. A place that needs more has wide pairs.
    fn narrow<T: Pod + Sync>(&self, key: impl Fn(T) -> u32 + Sync) {
        if u32::try_from(self.ty.shape.sizes()[usize::from(self.order.axis)]).is_err() {
            return self.wide(|v: T| u64::from(key(v)));
        }
        let all = if self.order.descending { u32::MAX } else { 0 };
        self.rows().sort::<u64>(self.context, &|v| key(v) ^ all);
    }

    fn wide<T: Pod + Sync>(&self, key: impl Fn(T) -> u64 + Sync) {
        let all = if self.order.descending { u64::MAX } else { 0 };
        self.rows().sort::<(u64, u64)>(self.context, &|v| key(v) ^ all);
    }

    fn rows<T: Pod>(&self) -> Rows<'_, T> {
        let cut = cut(&self.ty.shape, usize::from(self.order.axis));
        Rows { x: bytemuck::cast_slice(self.x), cut, part: self.part.clone(), out: self.out }
    }
}

/// The memory of one task.
struct Room<T, P> {
    columns: Vec<T>,
    pairs: Vec<P>,
    other: Vec<P>,
}

impl<T: Pod + Sync> Rows<'_, T> {
    fn sort<P: Pair>(&self, context: &Context<'_>, key: &(impl Fn(T) -> P::Key + Sync)) {
        let Cut { outer, axis: n, inner } = self.cut;
        if outer * inner == 0 || self.part.is_empty() {
            return;
        }
        let n_threads = context.threads.count();
        if inner == 1
            && outer < n_threads
            && let Some(blocks) = select::blocks(n, &self.part, n_threads)
        {
            return (0..outer).for_each(|row| self.select_apart::<P>(context, row, blocks, key));
        }
        // A group is some columns that lie side by side.
        let side = inner.min(SIDE);
        let (groups, per_task) = (inner.div_ceil(side), (GRAIN / (n * side)).max(1));
        let n_groups = outer * groups;
        context.threads.run(n_groups.div_ceil(per_task), &|task, _| {
            let mut room = Room { columns: Vec::new(), pairs: Vec::new(), other: Vec::new() };
            for group in task * per_task..((task + 1) * per_task).min(n_groups) {
                let (at, first) = (group / groups * n * inner, group % groups * side);
                self.group::<P>(at + first, side.min(inner - first), key, &mut room);
            }
        });
    }

    /// Orders `side` columns that begin at `first`.
    fn group<P: Pair>(
        &self,
        first: usize,
        side: usize,
        key: &impl Fn(T) -> P::Key,
        room: &mut Room<T, P>,
    ) {
        let Cut { axis: n, inner, .. } = self.cut;
        if inner == 1 {
            self.row::<P>(first, &self.x[first..first + n], key, room);
            return;
        }
        let mut columns = std::mem::take(&mut room.columns);
        columns.resize(n * side, T::zeroed());
        for i in 0..n {
            let line = &self.x[first + i * inner..][..side];
            line.iter().enumerate().for_each(|(column, v)| columns[column * n + i] = *v);
        }
        for (column, x) in columns.chunks_exact(n).enumerate() {
            self.row::<P>(first + column, x, key, room);
        }
        room.columns = columns;
    }

    /// Orders one row, whose result begins at `first`.
    fn row<P: Pair>(
        &self,
        first: usize,
        x: &[T],
        key: &impl Fn(T) -> P::Key,
        room: &mut Room<T, P>,
    ) {
        let Room { pairs, other, .. } = room;
        let part = self.part.clone();
        if select::is_small(x.len(), part.end) {
            select::first(x, 0, part.end, key, pairs);
        } else {
            pairs.clear();
            pairs.extend(x.iter().enumerate().map(|(i, v)| P::new(key(*v), i)));
            if select::is_small(x.len(), part.len()) {
                select::middle(pairs, &part);
            } else {
                sort(pairs, other);
            }
        }
        self.write(first, &pairs[part]);
    }

    /// The first positions of a long row, from those of its blocks.
    fn select_apart<P: Pair>(
        &self,
        context: &Context<'_>,
        row: usize,
        n_blocks: usize,
        key: &(impl Fn(T) -> P::Key + Sync),
    ) {
        let n = self.cut.axis;
        let x = &self.x[row * n..][..n];
        let mut pairs: Vec<P> = select::apart(context, x, n_blocks, self.part.end, key);
        pairs.sort_unstable();
        self.write(row * n, &pairs[self.part.clone()]);
    }

    /// Writes the places of `part` of the row that begins at `first`.
    fn write<P: Pair>(&self, first: usize, pairs: &[P]) {
        for (i, pair) in self.part.clone().zip(pairs) {
            let at = self.out.address().cast::<i64>().wrapping_add(first + i * self.cut.inner);
            // SAFETY: the element is one of this row, which is this task's alone.
            unsafe { at.write(pair.place() as i64) };
        }
    }
}

/// Sorts pairs that are in the order of their places.
fn sort<P: Pair>(pairs: &mut Vec<P>, other: &mut Vec<P>) {
    if pairs.len() <= SHORT {
        return pairs.sort_unstable();
    }
    other.resize(pairs.len(), P::default());
    for (counts, bit) in counts(pairs).iter_mut().zip((0..P::BITS).step_by(DIGIT)) {
        if counts.contains(&pairs.len()) {
            continue;
        }
        let mut start = 0;
        counts.iter_mut().for_each(|count| start += std::mem::replace(count, start));
        for pair in pairs.iter() {
            let place = &mut counts[pair.digit(bit)];
            other[*place] = *pair;
            *place += 1;
        }
        std::mem::swap(pairs, other);
    }
}

/// How often each digit's values occur.
fn counts<P: Pair>(pairs: &[P]) -> Vec<[usize; 1 << DIGIT]> {
    let mut counts = vec![[0; 1 << DIGIT]; P::BITS.div_ceil(DIGIT)];
    for pair in pairs {
        for (counts, bit) in counts.iter_mut().zip((0..P::BITS).step_by(DIGIT)) {
            counts[pair.digit(bit)] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places<P: Pair>(keys: &[P::Key]) -> Vec<usize> {
        let mut pairs: Vec<P> = keys.iter().enumerate().map(|(i, k)| P::new(*k, i)).collect();
        sort(&mut pairs, &mut Vec::new());
        pairs.into_iter().map(P::place).collect()
    }

    fn by_comparing<K: Ord>(keys: &[K]) -> Vec<usize> {
        let mut places: Vec<usize> = (0..keys.len()).collect();
        places.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
        places
    }

    #[test]
    fn digits_sort_as_comparisons_do_and_keep_equal_ones_in_order() {
        for n in [0, 1, SHORT, SHORT + 1, 5000] {
            let noise = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            for mask in [u64::MAX, 0xff, 0xf << 40, 0] {
                let keys: Vec<u64> = (0..n as u64).map(|i| noise(i) & mask).collect();
                let narrow: Vec<u32> = keys.iter().map(|k| *k as u32).collect();
                assert_eq!(places::<(u64, u64)>(&keys), by_comparing(&keys));
                assert_eq!(places::<u64>(&narrow), by_comparing(&narrow));
            }
        }
    }

    #[test]
    fn keys_order_floats() {
        let rising = [f32::NEG_INFINITY, -2.0, -1e-40, 0.0, 1e-40, 3.0, f32::INFINITY, f32::NAN];
        assert!(rising.windows(2).all(|w| ordered32(w[0]) < ordered32(w[1])));
        assert!(rising.windows(2).all(|w| ordered64(w[0].into()) < ordered64(w[1].into())));
        assert_eq!((ordered32(-0.0), ordered64(-0.0)), (ordered32(0.0), ordered64(0.0)));
        assert_eq!(ordered32(-f32::NAN), ordered32(f32::NAN));
    }

    /// All neighbors, and those whose bits are far apart.
    #[test]
    fn keys_order_floats_of_two_bytes_as_wider_ones() {
        type Ordered = fn(u16) -> (u32, u32);
        let ordered: [Ordered; 2] = [
            |b| (ordered16(b, 0x7f80), ordered32(bf16::from_bits(b).to_f32())),
            |b| (ordered16(b, 0x7c00), ordered32(f16::from_bits(b).to_f32())),
        ];
        for (ordered, bits) in ordered.iter().flat_map(|o| (0..=u16::MAX).map(move |b| (o, b))) {
            let (key, wide) = ordered(bits);
            for other in [1, 0x100, 0x7fff, 0x8000].map(|by| bits.wrapping_add(by)) {
                let (other_key, other_wide) = ordered(other);
                assert_eq!(key.cmp(&other_key), wide.cmp(&other_wide), "{bits:x} {other:x}");
            }
        }
    }
}
