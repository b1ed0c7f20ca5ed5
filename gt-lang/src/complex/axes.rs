//! Axes of complex numbers, which are counted without that of the parts.

use gt_ir::OpError;

use super::ComplexTensor;
use crate::core::{Axes, DynTensor};

impl ComplexTensor {
    /// The axis that a signed number means, counted from the first.
    pub(super) fn axis(&self, op: &str, axis: i64) -> Result<i64, OpError> {
        self.axis_among(op, axis, self.rank())
    }

    /// The axis that a signed number means among `rank` of them.
    pub(super) fn axis_among(&self, op: &str, axis: i64, rank: usize) -> Result<i64, OpError> {
        let n = rank as i64;
        let found = if axis < 0 { axis.checked_add(n) } else { Some(axis) };
        found.filter(|axis| (0..n).contains(axis)).ok_or_else(|| {
            let told = self.told();
            let error = OpError::new(format!("{op}: axis {axis} is out of range for {told}"));
            match n {
                0 => error.hint("it has no axes"),
                _ => error.hint(format!("axes run from {} to {}", -n, n - 1)),
            }
        })
    }

    /// The axes that are meant, counted from the first; no list or an empty one means all.
    pub(super) fn listed(&self, op: &str, axes: &Axes) -> Result<Vec<i64>, OpError> {
        match axes.list.as_deref() {
            None | Some([]) => Ok((0..self.rank() as i64).collect()),
            Some(&[axis]) if self.rank() == 0 && is_axis_of_scalar(axis) => Ok(Vec::new()),
            Some(given) => {
                let mut list = Vec::new();
                for &axis in given {
                    let found = self.axis(op, axis)?;
                    if list.contains(&found) {
                        let told = self.told();
                        let message = format!("{op}: axis {axis} is listed twice for {told}");
                        return Err(OpError::new(message));
                    }
                    list.push(found);
                }
                Ok(list)
            }
        }
    }
}

/// Whether PyTorch takes the number for an axis of a tensor that has none.
pub(super) fn is_axis_of_scalar(axis: i64) -> bool {
    matches!(axis, 0 | -1)
}

/// An axis of the first tensor, which has `new` axes more in the result; of none any axis.
pub(super) fn axis_of_first(
    op: &str,
    all: &[DynTensor],
    axis: i64,
    new: usize,
) -> Result<i64, (ComplexTensor, OpError)> {
    let Some(first) = all.first().cloned().map(ComplexTensor::of) else { return Ok(axis) };
    first.axis_among(op, axis, first.rank() + new).map_err(|error| (first, error))
}
