//! The order of elements along an axis: stable, NaN the largest, in time proportional to the number
//! of elements.
//!
//! Elements become unsigned keys whose order is that of the elements, equal where the elements are.
//! Short rows are sorted by comparing; long ones by the digits of the keys, from the lowest on
//! (Knuth, volume 3, 5.2.5), passing over digits that are the same everywhere. Rows share the
//! threads. Nothing here fails.
#![expect(unsafe_code, reason = "hands disjoint rows of a result to several threads")]

use bytemuck::Pod;
use gt_ir::{DType, Type, attr::Order};
use half::{bf16, f16};

use super::{
    context::{Context, Target},
    slices::cut,
};

/// Elements of a row up to which comparing is cheaper than counting digits.
const SHORT: usize = 512;
/// Bits of a digit.
const DIGIT: usize = 11;
/// Elements of one task.
const GRAIN: usize = 1 << 12;

/// An element's key and where it stands.
trait Pair: Copy + Ord + Default + Send {
    /// Bits of the key.
    const BITS: usize;
    fn new(key: u64, place: usize) -> Self;
    fn place(self) -> usize;
    /// The digit of the key that begins at this bit.
    fn digit(self, bit: usize) -> usize;
}

/// A key of at most 32 bits and a place below 2^32 in one word.
impl Pair for u64 {
    const BITS: usize = 32;
    fn new(key: u64, place: usize) -> u64 {
        key << 32 | place as u64
    }
    fn place(self) -> usize {
        self as u32 as usize
    }
    fn digit(self, bit: usize) -> usize {
        (self >> (32 + bit)) as usize & ((1 << DIGIT) - 1)
    }
}

impl Pair for (u64, u64) {
    const BITS: usize = 64;
    fn new(key: u64, place: usize) -> (u64, u64) {
        (key, place as u64)
    }
    fn place(self) -> usize {
        self.1 as usize
    }
    fn digit(self, bit: usize) -> usize {
        (self.0 >> bit) as usize & ((1 << DIGIT) - 1)
    }
}

/// The positions along an axis in the order of the elements there.
pub(super) fn argsort(context: &Context<'_>, order: Order, ty: &Type, x: &[u8], out: &mut [i64]) {
    match ty.dtype {
        DType::F32 => typed(context, order, ty, x, out, |v: f32| ordered32(v)),
        DType::Bf16 => typed(context, order, ty, x, out, |v: bf16| ordered32(v.to_f32())),
        DType::F16 => typed(context, order, ty, x, out, |v: f16| ordered32(v.to_f32())),
        DType::I32 => typed(context, order, ty, x, out, |v: i32| u64::from(v as u32 ^ 1 << 31)),
        DType::U8 | DType::Bool => typed(context, order, ty, x, out, |v: u8| u64::from(v)),
        DType::F64 => typed(context, order, ty, x, out, |v: f64| ordered64(v)),
        DType::I64 => typed(context, order, ty, x, out, |v: i64| v as u64 ^ 1 << 63),
    }
}

/// A float's bits in its order: zeros are equal, and so are all NaN, which come last.
fn ordered32(v: f32) -> u64 {
    let bits = (if v == 0.0 { 0.0 } else { v }).to_bits();
    let negative = bits >> 31 == 1;
    u64::from(if v.is_nan() {
        u32::MAX
    } else if negative {
        !bits
    } else {
        bits | 1 << 31
    })
}

fn ordered64(v: f64) -> u64 {
    let bits = (if v == 0.0 { 0.0 } else { v }).to_bits();
    let negative = bits >> 63 == 1;
    if v.is_nan() {
        u64::MAX
    } else if negative {
        !bits
    } else {
        bits | 1 << 63
    }
}

fn typed<T: Pod + Sync>(
    context: &Context<'_>,
    order: Order,
    ty: &Type,
    x: &[u8],
    out: &mut [i64],
    key: impl Fn(T) -> u64 + Sync,
) {
    let x: &[T] = bytemuck::cast_slice(x);
    let n = ty.shape.sizes()[usize::from(order.axis)];
    if ty.dtype.size() > 4 || u32::try_from(n).is_err() {
        let all = if order.descending { u64::MAX } else { 0 };
        rows::<T, (u64, u64)>(context, order, ty, x, out, &|v| key(v) ^ all);
    } else {
        let all = if order.descending { u64::from(u32::MAX) } else { 0 };
        rows::<T, u64>(context, order, ty, x, out, &|v| key(v) ^ all);
    }
}

fn rows<T: Pod + Sync, P: Pair>(
    context: &Context<'_>,
    order: Order,
    ty: &Type,
    x: &[T],
    out: &mut [i64],
    key: &(dyn Fn(T) -> u64 + Sync),
) {
    let cut = cut(&ty.shape, usize::from(order.axis));
    let (n_rows, n, inner) = (cut.outer * cut.inner, cut.axis, cut.inner);
    let per_task = (GRAIN / n.max(1)).max(1);
    let target = Target(out.as_mut_ptr().cast());
    context.threads.run(n_rows.div_ceil(per_task), &|task, _| {
        let (mut pairs, mut other): (Vec<P>, Vec<P>) = (Vec::with_capacity(n), Vec::new());
        for row in task * per_task..((task + 1) * per_task).min(n_rows) {
            let first = row / inner * n * inner + row % inner;
            pairs.clear();
            pairs.extend((0..n).map(|i| P::new(key(x[first + i * inner]), i)));
            sort(&mut pairs, &mut other);
            for (i, pair) in pairs.iter().enumerate() {
                let at = target.address().cast::<i64>().wrapping_add(first + i * inner);
                // SAFETY: the element is one of this row, which is this task's alone.
                unsafe { at.write(pair.place() as i64) };
            }
        }
    });
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

    fn places<P: Pair>(keys: &[u64]) -> Vec<usize> {
        let mut pairs: Vec<P> = keys.iter().enumerate().map(|(i, k)| P::new(*k, i)).collect();
        sort(&mut pairs, &mut Vec::new());
        pairs.into_iter().map(P::place).collect()
    }

    #[test]
    fn digits_sort_as_comparisons_do_and_keep_equal_ones_in_order() {
        for n in [0, 1, SHORT, SHORT + 1, 5000] {
            let noise = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            for mask in [u64::MAX, 0xff, 0xf << 40, 0] {
                let keys: Vec<u64> = (0..n as u64).map(|i| noise(i) & mask).collect();
                let narrow: Vec<u64> = keys.iter().map(|k| k & 0xffff_ffff).collect();
                let by_comparing = |keys: &[u64]| {
                    let mut places: Vec<usize> = (0..n).collect();
                    places.sort_by_key(|i| keys[*i]);
                    places
                };
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
}
