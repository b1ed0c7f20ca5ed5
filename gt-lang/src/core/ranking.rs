//! What orders elements or counts them: running extrema, places in a sorted list, quantiles,
//! histograms, different values. Each is made of sorts, comparisons and sums.

use std::cmp::Ordering;

use gt_ir::{DType, Op, OpError, attr::Axis};

use super::DynTensor;
use super::arg::resolve_axis;
use crate::error::Result;

impl DynTensor {
    /// The largest of the elements of `axis` up to and with each, and where it stands, the last of
    /// equals; NaN counts as the largest.
    #[must_use]
    #[track_caller]
    pub fn cummax(&self, axis: i64) -> (DynTensor, DynTensor) {
        self.running(axis, Op::CumMax)
    }

    /// The smallest of the elements of `axis` up to and with each, and where it stands, the last of
    /// equals; NaN counts as the smallest.
    #[must_use]
    #[track_caller]
    pub fn cummin(&self, axis: i64) -> (DynTensor, DynTensor) {
        self.running(axis, Op::CumMin)
    }

    /// The extrema, and the last place up to each whose element is the extremum of its own place.
    #[track_caller]
    fn running(&self, axis: i64, op: fn(Axis) -> Op) -> (DynTensor, DynTensor) {
        if let Some(line) = self.line(axis) {
            let (values, places) = line.running(0, op);
            return (values.reshape(()), places.reshape(()));
        }
        let (x, values) = (self.detach(), self.along(axis, op, &[]));
        let is_extremum = x.eq(&values.detach()).logical_or(&x.isnan());
        let places = is_extremum.where_(&x.positions(op(Axis(0)).name(), axis), 0);
        (values, places.along(axis, Op::CumMax, &[]))
    }

    /// The place of each element along `axis`, as `i64`.
    #[track_caller]
    fn positions(&self, op: &str, axis: i64) -> DynTensor {
        let at = match resolve_axis(op, axis, &self.ty()) {
            Ok(at) => at,
            Err(error) => return self.record_with(|_| Err(error)),
        };
        let mut sizes = vec![1; self.rank()];
        sizes[at] = self.size(axis);
        let line = self.on_own(|| DynTensor::arange(0, sizes[at] as i64, 1, DType::I64));
        line.reshape(&sizes).expand(self.shape().sizes())
    }

    /// How many elements of a sorted vector are less than each of `values`: where these would be
    /// put. With `right`, how many are no greater. NaN counts as the largest. PyTorch's
    /// `searchsorted`; `bucketize` is the same with the vector second.
    ///
    /// The places are found by halving, so there are as many steps as the vector's size has bits.
    #[must_use]
    #[track_caller]
    #[doc(alias = "bucketize")]
    pub fn searchsorted(&self, values: &DynTensor, right: bool) -> DynTensor {
        if self.rank() != 1 {
            return self.record_with(|ty| {
                let error = OpError::new(format!("searchsorted: {ty} is no vector"));
                Err(error.hint("the tensor with the sorted elements has one axis"))
            });
        }
        let n = self.numel() as i64;
        let mut place = values.zeros_like().to_dtype(DType::I64);
        let mut stride = 1_i64 << (64 - n.leading_zeros());
        while stride > 0 {
            let next = &place + stride;
            if n > 0 {
                let found = self.index_select(0, &(&next - 1).minimum(n - 1));
                // NaN is the largest: nothing is greater, and no number at least as large.
                let behind = if right { found.gt(values) } else { found.ge(values) };
                let behind = behind.logical_or(&next.gt(n));
                place = behind.where_(&place, &next);
            }
            stride /= 2;
        }
        place
    }

    /// The number below which the share `q` of the elements of `axis` lies, between two elements in
    /// proportion: PyTorch's `quantile`. NaN where there is one. The axis disappears.
    #[must_use]
    #[track_caller]
    pub fn quantile(&self, q: f64, axis: i64) -> DynTensor {
        if let Some(line) = self.line(axis) {
            return line.quantile(q, 0);
        }
        if let Err(error) = resolve_axis("quantile", axis, &self.ty()) {
            return self.record_with(|_| Err(error));
        }
        let n = self.size(axis);
        if !(0.0..=1.0).contains(&q) || n == 0 {
            return self.record_with(|ty| {
                let message = format!("quantile: the share {q} of axis {axis} of {ty}");
                Err(OpError::new(message)
                    .hint("shares lie between 0 and 1, of one element or more"))
            });
        }
        let rank = q * (n - 1) as f64;
        let (low, high) = (rank.floor(), rank.ceil());
        let sorted = self.sort(axis, false).0;
        let at = |rank: f64| sorted.narrow(axis, rank as i64, 1).squeeze(axis);
        let value = at(low).lerp(&at(high), rank - low);
        // NaN is the largest, so the last element tells.
        let last = at((n - 1) as f64);
        last.isnan().where_(&last, &value)
    }

    /// The `k`-th smallest element along `axis`, counted from 1, and where it stands, the
    /// first of equals first. The axis disappears.
    #[must_use]
    #[track_caller]
    pub fn kthvalue(&self, k: usize, axis: i64) -> (DynTensor, DynTensor) {
        if let Some(line) = self.line(axis) {
            return line.kthvalue(k, 0);
        }
        if let Err(error) = resolve_axis("kthvalue", axis, &self.ty()) {
            let fault = self.record_with(|_| Err(error));
            return (fault.clone(), fault);
        }
        if k == 0 || k > self.size(axis) {
            let fault = self.record_with(|ty| {
                let message =
                    format!("kthvalue: there is no element {k} along axis {axis} of {ty}");
                Err(OpError::new(message).hint("the smallest is element 1"))
            });
            return (fault.clone(), fault);
        }
        let place = self.argsort(axis, false).narrow(axis, k as i64 - 1, 1);
        (self.gather(axis, &place).squeeze(axis), place.squeeze(axis))
    }

    /// The most frequent element along `axis`, the smallest of several, and where it stands, the
    /// last of equals; each NaN counts by itself. The axis disappears.
    #[must_use]
    #[track_caller]
    pub fn mode(&self, axis: i64) -> (DynTensor, DynTensor) {
        if let Some(line) = self.line(axis) {
            return line.mode(0);
        }
        let n = self.size(axis);
        if n == 0 {
            let fault = self.record_with(|ty| {
                resolve_axis("mode", axis, ty)?;
                let message = format!("mode: axis {axis} of {ty} has no elements");
                Err(OpError::new(message).hint("the most frequent is one of them"))
            });
            return (fault.clone(), fault);
        }
        let (sorted, order) = self.detach().sort(axis, false);
        let (early, late) = (sorted.narrow(axis, 0, n - 1), sorted.narrow(axis, 1, n - 1));
        let at = sorted.positions("mode", axis);
        // Where each run of equals begins, so how long it is up to each element.
        let begins = early.ne(&late).where_(&at.narrow(axis, 1, n - 1), 0);
        let begins = DynTensor::cat([at.narrow(axis, 0, 1), begins], axis);
        let longest = (at - begins.cummax(axis).0).argmax(axis).unsqueeze(axis);
        let place = order.gather(axis, &longest);
        (self.gather(axis, &place).squeeze(axis), place.squeeze(axis))
    }

    /// How often each of the classes `0..classes` occurs, as `i64`. A class beyond is an error of
    /// the next read. PyTorch's `bincount`, whose size depends on the values, with its size given.
    #[must_use]
    #[track_caller]
    pub fn bincount(&self, classes: usize) -> DynTensor {
        let ones = self.ones_like().to_dtype(DType::I64);
        self.counted(&ones, classes)
    }

    /// The sum of the weights of each of the classes `0..classes`.
    #[must_use]
    #[track_caller]
    pub fn bincount_with(&self, weights: &DynTensor, classes: usize) -> DynTensor {
        self.counted(weights, classes)
    }

    #[track_caller]
    fn counted(&self, weights: &DynTensor, classes: usize) -> DynTensor {
        let none = self.on_own(|| DynTensor::zeros([classes], weights.dtype()));
        none.index_add(0, &self.flatten_all(), &weights.flatten_all())
    }

    /// How many elements lie in each of `bins` equal parts of `low..=high`, in this tensor's dtype;
    /// those outside do not count. PyTorch's `histc` with its bounds given.
    #[must_use]
    #[track_caller]
    pub fn histc(&self, bins: usize, low: f64, high: f64) -> DynTensor {
        // NaN is no bound.
        if bins == 0 || low.partial_cmp(&high) != Some(Ordering::Less) {
            return self.record_with(|_| {
                let message = format!("histc: {bins} parts of {low} to {high}");
                Err(OpError::new(message).hint("one part or more, and the lower bound first"))
            });
        }
        let x = self.detach();
        let inside = x.ge(low).logical_and(&x.le(high));
        let part =
            ((&x - low) * (bins as f64 / (high - low))).floor().clamp(0.0, (bins - 1) as f64);
        let part = inside.where_(&part, 0.0).to_dtype(DType::I64);
        part.bincount_with(&inside.to_dtype(self.dtype()), bins)
    }

    /// The different elements in order, the place among them of each element, and how often each
    /// occurs: PyTorch's `unique` with both of its flags. How many there are is part of the shapes,
    /// so this waits for the tensor.
    ///
    /// # Errors
    /// The tensor cannot be computed.
    #[track_caller]
    pub fn unique(&self) -> Result<Unique> {
        let (sorted, order) = self.detach().flatten_all().sort(0, false);
        let n = sorted.numel();
        let mut fresh = sorted.ones_like().to_dtype(DType::Bool);
        if n > 1 {
            let (early, late) = (sorted.narrow(0, 0, n - 1), sorted.narrow(0, 1, n - 1));
            fresh = DynTensor::cat([fresh.narrow(0, 0, 1), early.ne(&late)], 0);
        }
        let values = sorted.masked_select(&fresh)?;
        let numbered = fresh.cumsum(0) - 1;
        let inverse = numbered.zeros_like().index_copy(0, &order, &numbered);
        let counts = inverse.bincount(values.numel());
        Ok(Unique { values, inverse: inverse.reshape(self.shape()), counts })
    }
}

/// What [`DynTensor::unique`] finds.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The different elements, the smallest first.
    pub values: DynTensor,
    /// For each element its place among the values.
    pub inverse: DynTensor,
    /// How often each value occurs.
    pub counts: DynTensor,
}
