//! Comparisons, tests and selection: truth values, one for each complex number.

use super::arg::Term;
use super::{Complex, ComplexArg, ComplexDType, ComplexTensor};
use crate::core::DynTensor;

impl ComplexTensor {
    /// Where both parts are equal, a `bool` tensor; shapes broadcast.
    #[must_use]
    #[track_caller]
    pub fn eq<'a>(&'a self, other: impl Into<ComplexArg<'a>>) -> DynTensor {
        match other.into().term() {
            Term::Pairs(pairs) => self.pairs.eq(&pairs).all(-1),
            Term::Number(z) => self.real().eq(z.re).logical_and(&self.imag().eq(z.im)),
        }
    }

    /// Where a part differs, a `bool` tensor; shapes broadcast.
    #[must_use]
    #[track_caller]
    pub fn ne<'a>(&'a self, other: impl Into<ComplexArg<'a>>) -> DynTensor {
        self.eq(other).logical_not()
    }

    /// Where a part is NaN, a `bool` tensor.
    #[must_use]
    #[track_caller]
    pub fn isnan(&self) -> DynTensor {
        self.pairs.isnan().any(-1)
    }

    /// Where a part is infinite, a `bool` tensor.
    #[must_use]
    #[track_caller]
    pub fn isinf(&self) -> DynTensor {
        self.pairs.isinf().any(-1)
    }

    /// Where both parts are finite, a `bool` tensor.
    #[must_use]
    #[track_caller]
    pub fn isfinite(&self) -> DynTensor {
        self.pairs.isfinite().all(-1)
    }

    /// `a` where `condition` (a `bool` tensor) is true, `b` elsewhere; all three broadcast.
    /// PyTorch's `torch.where(condition, a, b)`.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let z = ComplexTensor::randn([3], ComplexDType::C64);
    /// let outer = ComplexTensor::select(&z.abs().gt(1.0), &z, 0.0);
    /// ```
    #[doc(alias("where", "where_"))]
    #[must_use]
    #[track_caller]
    pub fn select<'a>(
        condition: &DynTensor,
        a: impl Into<ComplexArg<'a>>,
        b: impl Into<ComplexArg<'a>>,
    ) -> ComplexTensor {
        let (a, b) = match (a.into().term(), b.into().term()) {
            (Term::Pairs(a), Term::Pairs(b)) => (a, b),
            (Term::Pairs(a), Term::Number(b)) => (a.clone(), pair_like(&a, b)),
            (Term::Number(a), Term::Pairs(b)) => (pair_like(&b, a), b),
            (Term::Number(a), Term::Number(b)) => {
                (ComplexTensor::scalar(a).pairs, ComplexTensor::scalar(b).pairs)
            }
        };
        ComplexTensor::of(condition.unsqueeze(-1).where_(&a, &b))
    }
}

/// One pair, in the dtype and the session of these.
#[track_caller]
fn pair_like(pairs: &DynTensor, number: Complex<f64>) -> DynTensor {
    let _entered = pairs.session().map(|session| session.enter());
    ComplexTensor::full((), number, ComplexDType::of(pairs.dtype())).pairs
}
