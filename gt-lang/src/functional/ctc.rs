//! Connectionist temporal classification (Graves et al. 2006).

use gt_ir::{DType, OpError};

use super::Reduction;
use super::precision::full;
use crate::core::DynTensor;

/// The logarithm of a probability of 0. It is finite, so that no difference of two is NaN.
const NEVER: f64 = -1e30;

/// What [`ctc_loss`] may be told; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ctc {
    /// The class that stands for no label.
    pub blank: i64,
    /// Whether losses of targets that do not fit into their inputs are 0 instead of infinite.
    pub zero_infinity: bool,
    /// What becomes of the losses. The mean is that of losses divided by the lengths of their
    /// targets.
    pub reduction: Reduction,
}

/// The negative log-likelihood of label sequences, over all alignments with inputs: PyTorch's
/// `ctc_loss`.
///
/// `log_probs` are `[time, batch, classes]`, logarithms of probabilities (of `log_softmax`), and
/// `targets` are `[batch, labels]` (`i64`), padded by anything behind their lengths. Both lengths
/// are `[batch]`, at most `time` and `labels`; longer ones count as these. Without a batch the
/// shapes are `[time, classes]`, `[labels]` and `[]`. A target that does not fit into its input has
/// an infinite loss, and no gradient.
///
/// The gradient is the derivative by `log_probs`. PyTorch's is that by what `log_softmax` was taken
/// of; behind a `log_softmax` both are the same. An instruction for each step in time is recorded.
#[must_use]
#[track_caller]
pub fn ctc_loss(
    log_probs: &DynTensor,
    targets: &DynTensor,
    input_lengths: &DynTensor,
    target_lengths: &DynTensor,
    options: &Ctc,
) -> DynTensor {
    let operands = [log_probs, targets, input_lengths, target_lengths];
    if let Some((message, hint)) = misfit(operands) {
        return log_probs.record_with(|_| Err(OpError::new(message).hint(hint)));
    }
    let log_probs = full(log_probs);
    if log_probs.rank() == 2 {
        let [targets, inputs, lengths] =
            [targets, input_lengths, target_lengths].map(|x| x.unsqueeze(0));
        let losses = losses(&log_probs.unsqueeze(1), &targets, &inputs, &lengths, options);
        return reduced(&losses, &lengths, options).reshape(());
    }
    let losses = losses(&log_probs, targets, input_lengths, target_lengths, options);
    reduced(&losses, target_lengths, options)
}

/// Why these cannot be the operands. Errors of either are told by what uses them.
fn misfit(operands: [&DynTensor; 4]) -> Option<(String, &'static str)> {
    if operands.iter().any(|x| x.error().is_some()) {
        return None;
    }
    let [log_probs, targets, inputs, lengths] = operands.map(DynTensor::ty);
    let fits = match *log_probs.shape.sizes() {
        [time, batch, classes] => {
            time * classes > 0
                && matches!(*targets.shape.sizes(), [n, _] if n == batch)
                && [inputs, lengths].iter().all(|ty| *ty.shape.sizes() == [batch])
        }
        [time, classes] => {
            time * classes > 0
                && targets.shape.rank() == 1
                && [inputs, lengths].iter().all(|ty| ty.shape.rank() == 0)
        }
        _ => false,
    };
    let is_whole = [targets, inputs, lengths].iter().all(|ty| ty.dtype.is_int());
    if fits && is_whole && log_probs.dtype.is_float() {
        return None;
    }
    let message = format!("ctc_loss: got {log_probs}, {targets}, {inputs} and {lengths}");
    let hint = "it takes floats [time, batch, classes], integers [batch, labels], and two lengths \
                [batch]; all axes but `batch` and `labels` have elements";
    Some((message, hint))
}

#[track_caller]
fn reduced(losses: &DynTensor, lengths: &DynTensor, options: &Ctc) -> DynTensor {
    match options.reduction {
        Reduction::Mean => (losses / lengths.clamp_min(1).to_dtype(losses.dtype())).mean(..),
        other => other.of(losses),
    }
}

/// The loss of each example.
#[track_caller]
fn losses(
    log_probs: &DynTensor,
    targets: &DynTensor,
    inputs: &DynTensor,
    lengths: &DynTensor,
    options: &Ctc,
) -> DynTensor {
    let labels = targets.size(1) as i64;
    let (inputs, lengths) = (inputs.to_dtype(DType::I64), lengths.to_dtype(DType::I64));
    let lengths = lengths.minimum(labels);
    let states = States::new(&targets.to_dtype(DType::I64), &lengths, options.blank);
    let last = states.last(log_probs, &inputs);
    // It ends in the last label, or in the blank behind it.
    let end = &lengths * 2;
    let places = DynTensor::stack([&end, &(&end - 1).clamp_min(0)], 1);
    let ends = last.gather(1, &places);
    let none = lengths.eq(0).unsqueeze(1);
    let none = DynTensor::cat([none.zeros_like(), none], 1);
    let loss = -ends.masked_fill(&none, NEVER).logsumexp(-1);
    // Nothing of nothing is certain.
    let loss = loss.masked_fill(&inputs.eq(0).logical_and(&lengths.eq(0)), 0.0);
    let outside = if options.zero_infinity { 0.0 } else { f64::INFINITY };
    loss.masked_fill(&loss.detach().gt(-NEVER / 2.0), outside)
}

/// The labels of a target with a blank before, between and behind them.
struct States {
    /// The class of each, `[batch, states]`.
    class: DynTensor,
    /// What the logarithms of the ways into each get: from two states before, from the one before
    /// and from itself, `[batch, states, 3]`.
    ways: DynTensor,
}

impl States {
    #[track_caller]
    fn new(targets: &DynTensor, lengths: &DynTensor, blank: i64) -> States {
        let (batch, labels) = (targets.size(0), targets.size(1));
        let at = targets.on_own(|| DynTensor::arange(0, labels as i64, 1, DType::I64));
        // What is behind a target need not be a class.
        let targets = at.ge(&lengths.unsqueeze(1)).where_(blank, targets);
        let pairs = DynTensor::stack([&targets.full_like(blank), &targets], 2);
        let class = pairs.reshape([batch, 2 * labels]).pad([(0, 0), (0, 1)], blank);
        // Over a blank, but not from a label to the same one.
        let before = class.pad([(0, 0), (2, 0)], -1).narrow(1, 0, 2 * labels + 1);
        let skips = class.ne(blank).logical_and(&class.ne(&before));
        let skips = skips.to_dtype(DType::F64).mul(-NEVER).add(NEVER).unsqueeze(-1);
        States { class, ways: skips.pad([(0, 0), (0, 0), (0, 2)], 0.0) }
    }

    /// The logarithms of the probabilities of the inputs, ending in each state.
    #[track_caller]
    fn last(&self, log_probs: &DynTensor, inputs: &DynTensor) -> DynTensor {
        let (time, n_states) = (log_probs.size(0), self.class.size(1));
        let sizes = [time, self.class.size(0), n_states];
        let emitted = log_probs.gather(2, &self.class.unsqueeze(0).expand(sizes));
        let ways = self.ways.to_dtype(log_probs.dtype());
        let mut state = emitted.detach().slice(0).full_like(NEVER);
        for t in 0..time {
            // Before the first input there is a way into the first two states.
            let first = if t == 0 { 0.0 } else { NEVER };
            let padded = state.pad([(0, 0), (1, 0)], first).pad([(0, 0), (1, 0)], NEVER);
            let next = (padded.unfold(1, 3, 1) + &ways).logsumexp(-1) + emitted.slice(t);
            state = inputs.gt(t as i64).unsqueeze(1).where_(&next, &state);
        }
        state
    }
}
