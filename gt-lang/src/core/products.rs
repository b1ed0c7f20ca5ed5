//! Diagonals, products of tensors beside the matrix product, distances, and parts replaced by
//! lists of positions. Each is made of movements, products and sums.

use gt_ir::{DType, OpError};

use super::DynTensor;
use super::arg::resolve_axis;
use super::index::{Index, step};

impl DynTensor {
    /// The tensor laid out again and again, as NumPy's `tile`: [`DynTensor::repeat`], with ones for
    /// the leading axes that `times` does not name.
    #[must_use]
    #[track_caller]
    pub fn tile(&self, times: impl AsRef<[usize]>) -> DynTensor {
        let times = times.as_ref();
        let missing = self.rank().saturating_sub(times.len());
        let all: Vec<usize> =
            std::iter::repeat_n(1, missing).chain(times.iter().copied()).collect();
        self.repeat(all)
    }

    /// The diagonal of the last two axes as one last axis: PyTorch's `diagonal(offset, -2, -1)`. A
    /// positive offset is above the main diagonal.
    #[must_use]
    #[track_caller]
    pub fn diagonal(&self, offset: i64) -> DynTensor {
        let rank = self.rank();
        if rank < 2 && self.error().is_none() {
            return self.record_with(|ty| {
                Err(OpError::new(format!("diagonal: {ty} is no matrix"))
                    .hint("it needs two axes or more; `diag` makes a matrix of a vector"))
            });
        }
        let (rows, columns) = (self.size(-2) as i64, self.size(-1) as i64);
        let (down, right) = (offset.saturating_neg().max(0), offset.max(0));
        let length = (rows - down).min(columns - right).max(0);
        let flat = self.flatten(-2, -1);
        if length == 0 {
            return flat.narrow(-1, 0, 0);
        }
        let first = down * columns + right;
        let last = first + (length - 1) * (columns + 1);
        flat.slice((Index::Ellipsis, step(first..last + 1, columns + 1)))
    }

    /// The sum of the diagonal of the last two axes.
    #[must_use]
    #[track_caller]
    pub fn trace(&self) -> DynTensor {
        self.diagonal(0).sum(-1)
    }

    /// The slices along `axis`, without it.
    #[must_use]
    #[track_caller]
    pub fn unbind(&self, axis: i64) -> Vec<DynTensor> {
        if let Err(error) = resolve_axis("unbind", axis, &self.ty()) {
            return vec![self.record_with(|_| Err(error))];
        }
        if self.size(axis) == 0 && self.error().is_none() {
            return Vec::new();
        }
        self.split(1, axis).iter().map(|part| part.squeeze(axis)).collect()
    }

    /// The cross product of vectors of three elements along `axis`; the other axes broadcast.
    #[must_use]
    #[track_caller]
    pub fn cross(&self, other: &DynTensor, axis: i64) -> DynTensor {
        if self.size(axis) != 3 || other.size(axis) != 3 {
            return self.record_with(|ty| {
                let message =
                    format!("cross: axis {axis} of {ty} and {} is not 3 long", other.ty());
                Err(OpError::new(message).hint("the cross product is one of vectors in space"))
            });
        }
        let turned = |x: &DynTensor, by: i64| x.roll(-by, axis);
        turned(self, 1) * turned(other, 2) - turned(self, 2) * turned(other, 1)
    }

    /// The Kronecker product: each element of this times the whole other tensor, in its place.
    #[must_use]
    #[track_caller]
    pub fn kron(&self, other: &DynTensor) -> DynTensor {
        let rank = self.rank().max(other.rank());
        let padded = |x: &DynTensor| {
            let mut sizes = vec![1; rank - x.rank()];
            sizes.extend(x.sizes());
            sizes
        };
        let (a, b) = (padded(self), padded(other));
        let outer: Vec<usize> = a.iter().flat_map(|&n| [n, 1]).collect();
        let inner: Vec<usize> = b.iter().flat_map(|&n| [1, n]).collect();
        // A size beyond all shapes is the error of the product.
        let joined = |(m, n): (&usize, &usize)| m.saturating_mul(*n).min(i64::MAX as usize);
        let whole: Vec<usize> = a.iter().zip(&b).map(joined).collect();
        (self.reshape(&outer) * other.reshape(&inner)).reshape(&whole)
    }

    /// The sum of products over pairs of axes, `axes[i]` of this with `others[i]` of the other; the
    /// remaining axes of this come first. PyTorch's `tensordot` of lists of axes.
    #[must_use]
    #[track_caller]
    pub fn tensordot(&self, other: &DynTensor, axes: &[i64], others: &[i64]) -> DynTensor {
        let ends = |x: &DynTensor, axes: &[i64]| -> Vec<i64> {
            let rank = x.rank() as i64;
            axes.iter().map(|&a| if a < 0 { a + rank } else { a }).collect()
        };
        let (ours, theirs) = (ends(self, axes), ends(other, others));
        let size = |x: &DynTensor, at: &[i64]| -> Vec<usize> {
            at.iter().map(|&axis| x.size(axis)).collect()
        };
        if size(self, &ours) != size(other, &theirs) {
            return self.record_with(|ty| {
                let message = format!(
                    "tensordot: axes {axes:?} of {ty} and {others:?} of {} differ in size",
                    other.ty()
                );
                Err(OpError::new(message).hint("as many axes of both, of equal sizes"))
            });
        }
        let rest = |x: &DynTensor, at: &[i64]| -> Vec<i64> {
            (0..x.rank() as i64).filter(|axis| !at.contains(axis)).collect()
        };
        let (rows, columns) = (rest(self, &ours), rest(other, &theirs));
        let product = |x: &DynTensor, at: &[i64]| size(x, at).iter().product::<usize>();
        let inner = product(self, &ours);
        let order = |first: &[i64], then: &[i64]| [first, then].concat();
        let left = self.permute(order(&rows, &ours)).reshape([product(self, &rows), inner]);
        let right =
            other.permute(order(&theirs, &columns)).reshape([inner, product(other, &columns)]);
        let whole = [size(self, &rows), size(other, &columns)].concat();
        left.matmul(&right).reshape(&whole)
    }

    /// The distances by the `p`-norm between all pairs of rows, `[.., m, d]` and `[.., n, d]` to
    /// `[.., m, n]`. The gradient of a distance of 0 is 0.
    #[must_use]
    #[track_caller]
    pub fn cdist(&self, other: &DynTensor, p: f64) -> DynTensor {
        (self.unsqueeze(-2) - other.unsqueeze(-3)).norm_p(p, -1)
    }

    /// This tensor with the elements, or slices, at lists of positions of its first axes replaced
    /// by `values`; the lists broadcast, and positions must differ from each other. Negative
    /// positions count from the end. PyTorch's `index_put`.
    #[must_use]
    #[track_caller]
    pub fn index_put(&self, positions: &[&DynTensor], values: &DynTensor) -> DynTensor {
        self.put(positions, values, DynTensor::index_copy)
    }

    /// [`DynTensor::index_put`] that adds: positions may occur several times. PyTorch's
    /// `index_put(.., accumulate=True)`.
    #[must_use]
    #[track_caller]
    pub fn index_put_accumulate(&self, positions: &[&DynTensor], values: &DynTensor) -> DynTensor {
        self.put(positions, values, DynTensor::index_add)
    }

    #[track_caller]
    fn put(
        &self,
        positions: &[&DynTensor],
        values: &DynTensor,
        write: fn(&DynTensor, i64, &DynTensor, &DynTensor) -> DynTensor,
    ) -> DynTensor {
        let sizes = self.sizes();
        let Some(rest) = sizes.get(positions.len()..).filter(|_| !positions.is_empty()) else {
            return self.record_with(|ty| {
                let message = format!("index_put: {} lists of positions for {ty}", positions.len());
                Err(OpError::new(message).hint("one list for each of the first axes"))
            });
        };
        let n: usize = sizes[..positions.len()].iter().product();
        let from_start = positions.iter().zip(&sizes).map(|(&list, &size)| {
            // Small integers would wrap.
            let is_int = list.dtype().is_int();
            let list = if is_int { list.to_dtype(DType::I64) } else { list.clone() };
            list.lt(0).where_(&(&list + size), &list)
        });
        let from_start: Vec<DynTensor> = from_start.collect();
        let all = || from_start.iter().zip(&sizes);
        // The place in all of these axes as one. A position beyond its axis is beyond all of them.
        let place = all().map(|(at, size)| (at.clone(), *size));
        let place = place.reduce(|(place, _), (at, size)| (place * size + at, size));
        let Some((mut place, _)) = place else { return self.clone() };
        if from_start.len() > 1 {
            let inside = all().map(|(at, size)| at.ge(0).logical_and(&at.lt(*size)));
            let inside = inside.reduce(|a, b| a.logical_and(&b));
            place = inside.map_or(place.clone(), |inside| inside.where_(&place, n as i64));
        }
        let rows = self.reshape([&[n], rest].concat());
        let values = values.expand([&place.sizes()[..], rest].concat());
        let values = values.reshape([&[place.numel()], rest].concat());
        write(&rows, 0, &place.reshape([place.numel()]), &values).reshape(self.shape())
    }
}
