//! Running sums and products, sorting, the largest few, medians, permutations and draws without
//! replacement; windows.

use gt_ir::attr::{Fold, Order, Window};
use gt_ir::{DType, Op, OpError, Shape, Type};

use super::DynTensor;
use super::arg::{keepdim, resolve_axis};

impl DynTensor {
    /// The sums of the elements of `axis` up to and with each; integers and `bool` sum to `i64`.
    #[must_use]
    #[track_caller]
    pub fn cumsum(&self, axis: i64) -> DynTensor {
        self.along(axis, Op::CumSum, &[])
    }

    /// The products of the elements of `axis` up to and with each; integers and `bool` multiply to
    /// `i64`.
    #[must_use]
    #[track_caller]
    pub fn cumprod(&self, axis: i64) -> DynTensor {
        self.along(axis, Op::CumProd, &[])
    }

    /// The positions along `axis` in the order of the elements there, as `i64`; equal ones stay in
    /// order, NaN counts as the largest.
    #[must_use]
    #[track_caller]
    pub fn argsort(&self, axis: i64, descending: bool) -> DynTensor {
        if let Some(line) = self.line(axis) {
            return line.argsort(0, descending).reshape(());
        }
        self.record_with(|ty| {
            let axis = resolve_axis("argsort", axis, ty)? as u8;
            Ok(Op::ArgSort(Order { axis, descending }))
        })
    }

    /// The elements along `axis` in order, and where they stood.
    #[must_use]
    #[track_caller]
    pub fn sort(&self, axis: i64, descending: bool) -> (DynTensor, DynTensor) {
        let places = self.argsort(axis, descending);
        (self.gather(axis, &places), places)
    }

    /// The `k` largest elements along `axis`, the largest first, and where they stand. There must
    /// be as many.
    #[must_use]
    #[track_caller]
    pub fn topk(&self, k: usize, axis: i64) -> (DynTensor, DynTensor) {
        let places = self.largest("topk", k, axis);
        (self.gather(axis, &places), places)
    }

    /// Where the `k` largest elements along `axis` stand, for the operation `op`.
    #[track_caller]
    fn largest(&self, op: &str, k: usize, axis: i64) -> DynTensor {
        if let Some(line) = self.line(axis) {
            return line.largest(op, k, 0).reshape(());
        }
        let order = self.record_with(|ty| {
            let at = resolve_axis(op, axis, ty)?;
            let size = ty.shape.sizes()[at];
            if k > size {
                let message = format!(
                    "{op}: the {k} largest of axis {at} are asked for, but {ty} has {size} there"
                );
                return Err(OpError::new(message).hint("take at most as many as the axis has"));
            }
            Ok(Op::ArgSort(Order { axis: at as u8, descending: true }))
        });
        order.narrow(axis, 0, k)
    }

    /// The middle element along `axis`, the lower one of two, and where it stands; the first NaN if
    /// there is one. The axis disappears.
    #[must_use]
    #[track_caller]
    pub fn median(&self, axis: i64) -> (DynTensor, DynTensor) {
        if let Some(line) = self.line(axis) {
            return line.median(0);
        }
        let middle = (self.size(axis).saturating_sub(1) / 2) as i64;
        let mut place = self.argsort(axis, false).narrow(axis, middle, 1);
        if self.dtype().is_float() {
            let unknown = self.isnan();
            let first = unknown.to_dtype(DType::U8).argmax(axis).unsqueeze(axis);
            place = unknown.any(keepdim(axis)).where_(&first, &place);
        }
        (self.gather(axis, &place).squeeze(axis), place.squeeze(axis))
    }

    /// The numbers `0..n` in random order, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn randperm(n: usize) -> DynTensor {
        DynTensor::rand([n], DType::F32).argsort(0, false)
    }

    /// `n` different classes drawn from the weights along the last axis: PyTorch's `multinomial`
    /// without replacement. By the largest `n` of `log(weight)` plus Gumbel noise (Efraimidis and
    /// Spirakis 2006).
    #[must_use]
    #[track_caller]
    pub fn multinomial_without_replacement(&self, n: usize) -> DynTensor {
        let noise = self.rand_like().log().neg().log().neg();
        self.log().add(&noise).largest("multinomial_without_replacement", n, -1)
    }

    /// Windows of `size` elements along `axis`, one every `step`: the axis counts windows, a new
    /// last axis their elements.
    #[must_use]
    #[track_caller]
    pub fn unfold(&self, axis: i64, size: usize, step: usize) -> DynTensor {
        self.unfold_dilated(axis, size, step, 1)
    }

    /// As [`DynTensor::unfold`], with the elements of a window `dilation` apart.
    #[must_use]
    #[track_caller]
    pub fn unfold_dilated(
        &self,
        axis: i64,
        size: usize,
        step: usize,
        dilation: usize,
    ) -> DynTensor {
        if let Some(line) = self.line(axis) {
            return line.unfold_dilated(0, size, step, dilation).squeeze(0);
        }
        self.record_with(|ty| {
            let axis = resolve_axis("unfold", axis, ty)? as u8;
            let [size, step, dilation] = [size, step, dilation].map(|n| n as u64);
            let window = Window { axis, size, step, dilation };
            Ok(Op::Unfold(window))
        })
    }

    /// Windows added up where they came from, what [`DynTensor::unfold`] took apart of an axis of
    /// `len` elements: PyTorch's `fold`, along one axis.
    #[must_use]
    #[track_caller]
    pub fn fold(&self, axis: i64, step: usize, len: usize) -> DynTensor {
        self.fold_dilated(axis, step, 1, len)
    }

    /// As [`DynTensor::fold`], with the elements of a window `dilation` apart.
    #[must_use]
    #[track_caller]
    pub fn fold_dilated(&self, axis: i64, step: usize, dilation: usize, len: usize) -> DynTensor {
        self.record_with(|ty| {
            let size = ty.shape.sizes().last().copied().unwrap_or(0);
            let without_last = ty.shape.dims().take(ty.shape.rank().saturating_sub(1));
            let whole = Type { shape: Shape::collect(without_last)?, ..*ty };
            let axis = resolve_axis("fold", axis, &whole)? as u8;
            let [size, step, dilation, len] = [size, step, dilation, len].map(|n| n as u64);
            Ok(Op::Fold(Fold { window: Window { axis, size, step, dilation }, len }))
        })
    }
}
