//! Matrix products, and matrices with rows and columns exchanged.

use gt_ir::OpError;

use super::{ComplexArg, ComplexTensor};
use crate::autocast::Autocast;
use crate::core::{Arg, DynTensor};

impl ComplexTensor {
    /// The matrix product with a complex or a real tensor: vectors, matrices, and batches of
    /// matrices that broadcast, as in PyTorch.
    ///
    /// Four products of real matrices, two if the other is real. Three products and more sums would
    /// do (Gauss), but their imaginary part is a difference of larger numbers, and loses digits
    /// where it is small beside the real part (Higham 1992). [`autocast`](crate::autocast()) does
    /// not narrow them, as there are no complex numbers of halves.
    #[doc(alias("mm", "bmm", "mv", "dot"))]
    #[must_use]
    #[track_caller]
    pub fn matmul<'a>(&'a self, other: impl Into<ComplexArg<'a>>) -> ComplexTensor {
        let _as_given = Autocast::switch(None);
        let [a, b] = self.parts();
        match other.into() {
            ComplexArg::Complex(other) => {
                let [c, d] = other.parts();
                let re = a.matmul(&c) - b.matmul(&d);
                ComplexTensor::joined(&re, &(a.matmul(&d) + b.matmul(&c)))
            }
            ComplexArg::Real(Arg::Tensor(other)) => {
                ComplexTensor::joined(&a.matmul(other), &b.matmul(other))
            }
            ComplexArg::Real(Arg::Scalar(_)) | ComplexArg::Number(_) => {
                let message = format!("matmul: {} and a number", self.told());
                self.refused(OpError::new(message).hint("`*` is the product with a number"))
            }
        }
    }

    /// The last two axes exchanged; what has fewer axes stays as it is.
    #[doc(alias("T", "mT"))]
    #[must_use]
    #[track_caller]
    pub fn t(&self) -> ComplexTensor {
        if self.rank() < 2 { self.clone() } else { self.transpose(-2, -1) }
    }

    /// The conjugates with the last two axes exchanged: PyTorch's `z.mH`.
    #[doc(alias("mH", "H"))]
    #[must_use]
    #[track_caller]
    pub fn adjoint(&self) -> ComplexTensor {
        self.t().conj()
    }
}

impl DynTensor {
    /// The matrix product of a real tensor with a complex one: two products of real matrices.
    #[must_use]
    #[track_caller]
    pub fn matmul_complex(&self, other: &ComplexTensor) -> ComplexTensor {
        let _as_given = Autocast::switch(None);
        let [c, d] = other.parts();
        ComplexTensor::joined(&self.matmul(&c), &self.matmul(&d))
    }
}
