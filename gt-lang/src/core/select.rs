//! Parts chosen by truth, extrema with their places, and small matrices: what needs several
//! instructions each.

use gt_ir::{DType, OpError};

use super::{Arg, DynTensor};
use crate::error::Result;

impl DynTensor {
    /// The elements where `mask` (a `bool` tensor; the two broadcast) is true, in row-major order,
    /// as a vector: PyTorch's `masked_select`. How many there are is part of the result's shape, so
    /// this waits for the mask.
    ///
    /// # Errors
    /// The mask cannot be computed, or the shapes do not broadcast.
    #[track_caller]
    pub fn masked_select(&self, mask: &DynTensor) -> Result<DynTensor> {
        let shape = self.shape().broadcast(&mask.shape()).unwrap_or_else(|| self.shape());
        let places = mask.expand(shape.sizes()).flatten_all().nonzero()?.squeeze(-1);
        Ok(self.expand(shape.sizes()).flatten_all().index_select(0, &places))
    }

    /// The positions of elements that are not zero, `[n, rank]`, in row-major order: PyTorch's
    /// `nonzero`. Waits for this tensor.
    ///
    /// # Errors
    /// The tensor cannot be computed.
    #[track_caller]
    pub fn nonzero(&self) -> Result<DynTensor> {
        let truth = self.flatten_all().to_dtype(DType::Bool);
        let n = truth.sum(..).item()? as usize;
        // Stable: those that are true, in their order, then the others.
        let mut flat = truth.argsort(0, true).narrow(0, 0, n);
        let mut columns = Vec::new();
        for &size in self.shape().sizes().iter().rev() {
            // Exact as long as there are fewer elements than an `f64` counts.
            let rows =
                flat.to_dtype(DType::F64).div(size.max(1) as f64).floor().to_dtype(DType::I64);
            columns.insert(0, flat.sub(&rows.mul(size as i64)));
            flat = rows;
        }
        match columns.is_empty() {
            true => Ok(self.on_own(|| DynTensor::zeros([n, 0], DType::I64))),
            false => Ok(DynTensor::stack(&columns, -1)),
        }
    }

    /// All elements as one axis.
    #[track_caller]
    pub(super) fn flatten_all(&self) -> DynTensor {
        self.reshape([self.numel()])
    }

    /// The largest elements along `axis` and where they stand, the first of equals: PyTorch's `max`
    /// of an axis. All of a gradient goes there.
    #[must_use]
    #[track_caller]
    pub fn max_along(&self, axis: i64) -> (DynTensor, DynTensor) {
        self.picked(axis, self.argmax(axis))
    }

    /// The smallest elements along `axis` and where they stand, the first of equals: PyTorch's
    /// `min` of an axis. All of a gradient goes there.
    #[must_use]
    #[track_caller]
    pub fn min_along(&self, axis: i64) -> (DynTensor, DynTensor) {
        self.picked(axis, self.argmin(axis))
    }

    #[track_caller]
    fn picked(&self, axis: i64, places: DynTensor) -> (DynTensor, DynTensor) {
        if self.rank() == 0 {
            return (self.gather(axis, &places), places);
        }
        let axis = if axis < 0 { axis + self.rank() as i64 } else { axis };
        (self.gather(axis, &places.unsqueeze(axis)).squeeze(axis), places)
    }

    /// `n` numbers from `start` to `end`, both included, at equal distances.
    #[must_use]
    #[track_caller]
    pub fn linspace(start: f64, end: f64, n: usize, dtype: DType) -> DynTensor {
        let step = (end - start) / (n.max(2) - 1) as f64;
        let places = DynTensor::arange(0, n as i64, 1, DType::F64);
        // From the nearer end, so that both are exact.
        let (front, back) =
            (places.mul(step).add(start), places.sub((n.max(1) - 1) as f64).mul(step).add(end));
        places.lt(n as f64 / 2.0).where_(&front, &back).to_dtype(dtype)
    }

    /// Ones on the diagonal of an `n` by `n` matrix, zeros elsewhere.
    #[must_use]
    #[track_caller]
    pub fn eye(n: usize, dtype: DType) -> DynTensor {
        let places = DynTensor::arange(0, n as i64, 1, DType::I64);
        places.unsqueeze(-1).eq(&places).to_dtype(dtype)
    }

    /// A matrix with this vector on the diagonal, or the diagonal of this matrix.
    #[must_use]
    #[track_caller]
    pub fn diag(&self) -> DynTensor {
        match *self.shape().sizes() {
            // `false` promotes to no other dtype.
            [n] => {
                self.on_own(|| DynTensor::eye(n, DType::Bool)).where_(&self.unsqueeze(-1), false)
            }
            [rows, columns] => {
                let n = rows.min(columns) as i64;
                let places = self.on_own(|| DynTensor::arange(0, n, 1, DType::I64));
                self.reshape([rows * columns]).index_select(0, &places.mul(columns as i64 + 1))
            }
            _ => self.record_with(|ty| {
                Err(OpError::new(format!("diag: takes a vector or a matrix, but got {ty}")))
            }),
        }
    }

    /// Makes a tensor in this one's session.
    pub(crate) fn on_own(&self, make: impl FnOnce() -> DynTensor) -> DynTensor {
        let session = self.session();
        let _entered = session.as_ref().map(crate::session::Session::enter);
        make()
    }

    /// The products of each element of a vector with each of another: `[n, m]`.
    #[must_use]
    #[track_caller]
    pub fn outer(&self, other: &DynTensor) -> DynTensor {
        self.unsqueeze(-1).mul(other)
    }

    /// `self + weight * (end - self)`.
    #[must_use]
    #[track_caller]
    pub fn lerp<'a>(&'a self, end: &'a DynTensor, weight: impl Into<Arg<'a>>) -> DynTensor {
        let weight: Arg<'a> = weight.into();
        let dtypes = [self.dtype(), end.dtype()];
        let (x, end) = (self.real().widened(), end.real().widened());
        x.add(&end.sub(&x).mul(weight)).narrowed(dtypes)
    }

    /// NaN as `nan`, infinities as these bounds.
    #[must_use]
    #[track_caller]
    pub fn nan_to_num(&self, nan: f64, largest: f64, smallest: f64) -> DynTensor {
        if !self.dtype().is_float() {
            return self.clone();
        }
        let bounded = self.masked_fill(&self.eq(f64::INFINITY), largest);
        bounded.masked_fill(&self.eq(f64::NEG_INFINITY), smallest).masked_fill(&self.isnan(), nan)
    }

    /// The first half along `axis` times the sigmoid of the second (Dauphin et al. 2017).
    #[must_use]
    #[track_caller]
    pub fn glu(&self, axis: i64) -> DynTensor {
        let half = self.size(axis) / 2;
        self.narrow(axis, 0, half).mul(&self.narrow(axis, half as i64, half).sigmoid())
    }

    /// Vectors laid out as the axes of a grid, each repeated along the others: PyTorch's
    /// `meshgrid(indexing="ij")`.
    #[must_use]
    #[track_caller]
    pub fn meshgrid<'a>(vectors: impl IntoIterator<Item = &'a DynTensor>) -> Vec<DynTensor> {
        let vectors: Vec<&DynTensor> = vectors.into_iter().collect();
        let sizes: Vec<usize> = vectors.iter().map(|v| v.numel()).collect();
        let mut grids = Vec::new();
        for (axis, vector) in vectors.into_iter().enumerate() {
            let mut own = vec![1; sizes.len()];
            own[axis] = sizes[axis];
            grids.push(vector.reshape(own).expand(sizes.as_slice()));
        }
        grids
    }
}
