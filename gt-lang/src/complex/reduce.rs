//! Sums, means and products over axes.

use gt_ir::OpError;
use gt_ir::attr::Keep;

use super::ComplexTensor;
use crate::core::Axes;

impl ComplexTensor {
    /// The sum over axes, as [`DynTensor::sum`](crate::DynTensor::sum) takes them.
    #[must_use]
    #[track_caller]
    pub fn sum(&self, axes: impl Into<Axes>) -> ComplexTensor {
        match self.reduced("sum", &axes.into()) {
            Ok(Some(axes)) => ComplexTensor::of(self.pairs.sum(axes)),
            Ok(None) => self.clone(),
            Err(error) => self.refused(error),
        }
    }

    /// The mean over axes, as [`DynTensor::mean`](crate::DynTensor::mean) takes them.
    #[must_use]
    #[track_caller]
    pub fn mean(&self, axes: impl Into<Axes>) -> ComplexTensor {
        match self.reduced("mean", &axes.into()) {
            Ok(Some(axes)) => ComplexTensor::of(self.pairs.mean(axes)),
            Ok(None) => self.clone(),
            Err(error) => self.refused(error),
        }
    }

    /// The axes of the pairs that a reduction of both parts takes; none where there are no axes.
    fn reduced(&self, op: &str, axes: &Axes) -> Result<Option<Axes>, OpError> {
        let list = self.listed(op, axes)?;
        // An empty list would be all axes of the pairs.
        Ok((!list.is_empty()).then(|| Axes { keep: axes.keep, ..Axes::from(list.as_slice()) }))
    }

    /// The product over axes, as [`DynTensor::prod`](crate::DynTensor::prod) takes them: of halves
    /// of the numbers, again and again, so that there are as many steps as the count has binary
    /// digits. Gradients are exact where numbers are 0.
    #[must_use]
    #[track_caller]
    pub fn prod(&self, axes: impl Into<Axes>) -> ComplexTensor {
        let axes = axes.into();
        let mut list = match self.listed("prod", &axes) {
            Err(error) => return self.refused(error),
            Ok(list) => list,
        };
        list.sort_unstable();
        let mut product = self.clone();
        for &axis in &list {
            product = product.prod_along(axis);
        }
        match axes.keep {
            Keep::Yes => product,
            Keep::No => {
                // From the last, so that the others stay where they are.
                for &axis in list.iter().rev() {
                    product = product.squeeze(axis);
                }
                product
            }
        }
    }

    /// The product along an axis, which keeps size 1.
    #[track_caller]
    fn prod_along(&self, axis: i64) -> ComplexTensor {
        let mut rest = self.clone();
        if rest.error().is_some() {
            return rest;
        }
        while rest.size(axis) > 1 {
            let (n, half) = (rest.size(axis), rest.size(axis) / 2);
            let pairs = rest.narrow(axis, 0, half) * rest.narrow(axis, half as i64, half);
            rest = match n % 2 {
                0 => pairs,
                _ => ComplexTensor::cat([pairs, rest.narrow(axis, n as i64 - 1, 1)], axis),
            };
        }
        match rest.size(axis) {
            1 => rest,
            // Of no numbers it is 1.
            _ => {
                let mut sizes = rest.sizes();
                sizes[axis as usize] = 1;
                let (session, dtype) = (rest.session(), rest.dtype());
                let _entered = session.as_ref().map(crate::session::Session::enter);
                ComplexTensor::ones(sizes, dtype)
            }
        }
    }
}
