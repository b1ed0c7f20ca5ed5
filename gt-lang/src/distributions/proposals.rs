//! What samples of counts are made of: waits that are added up where few events are expected, and
//! else proposals of which the first that fits is taken (Hoermann 1993). Both are a fixed number of
//! steps.

use gt_ir::DType;

use crate::core::DynTensor;

/// Means from which on samples come from proposals.
pub(super) const LARGE: f64 = 10.0;
/// Waits and proposals that are drawn for a sample: that they do not suffice has a probability
/// below `1e-14`.
pub(super) const WAITS: usize = 52;
const PROPOSALS: usize = 26;

/// `n` uniform numbers above 0, up to 1, for each element.
#[track_caller]
pub(super) fn uniform(n: usize, like: &DynTensor) -> DynTensor {
    let many = [&[n], &like.sizes()[..]].concat();
    1.0 - like.unsqueeze(0).expand(&many).rand_like()
}

/// How many waits, one behind the other along the first axis, end before `time`.
#[track_caller]
pub(super) fn ended(waits: &DynTensor, time: &DynTensor) -> DynTensor {
    waits.cumsum(0).lt(time).to_dtype(time.dtype()).sum(0)
}

/// Counts that are proposed, and what decides whether one is taken.
pub(super) struct Proposals {
    pub(super) counts: DynTensor,
    /// The logarithm of the density that they are proposed with, times a uniform number.
    height: DynTensor,
    fits: DynTensor,
}

impl Proposals {
    /// By a hat of these widths around `center`; `alpha` is its height.
    #[track_caller]
    pub(super) fn new(
        a: &DynTensor,
        b: &DynTensor,
        center: &DynTensor,
        alpha: &DynTensor,
    ) -> Proposals {
        let u = uniform(PROPOSALS, center) - 0.5;
        let v = u.rand_like();
        let edge = 0.5 - u.abs();
        let counts = ((a * 2.0 / &edge + b) * u + center).floor();
        let fits = counts.ge(0.0).logical_and(&edge.ge(0.013).logical_or(&v.le(&edge)));
        let height = (v * alpha / (a / edge.square() + b)).log();
        Proposals { counts, height, fits }
    }

    /// The first that is below the logarithms of the probabilities.
    #[track_caller]
    pub(super) fn first(self, log_prob: &DynTensor) -> DynTensor {
        let taken = self.fits.logical_and(&self.height.le(log_prob));
        let first = taken.to_dtype(DType::U8).argmax(0).unsqueeze(0);
        self.counts.gather(0, &first).squeeze(0)
    }
}
