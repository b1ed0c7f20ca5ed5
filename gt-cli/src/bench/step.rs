//! The step of a work, and its data, which is equal in every run.

use anyhow::Result;
use gt_lang::prelude::*;
use gt_lang::signal;

/// One step: records it and waits for its result.
pub(crate) type Step = Box<dyn FnMut() -> Result<()>>;

/// The signal of forward passes, by which `--workers` spreads batches over workers.
pub(super) const BATCH: &str = "batch";

/// A forward pass, recorded in its signal.
pub(super) fn in_batch<T>(forward: impl FnOnce() -> T) -> T {
    let _batch = signal::scope(BATCH);
    forward()
}

/// A step of training a classifier of ten classes.
pub(super) fn classifying<B: Dim>(
    parameters: Vec<DynTensor>,
    batch: usize,
    forward: impl Fn() -> T![B, 10] + 'static,
) -> Step {
    let classes: T![B; Int] = Tensor::from_vec(integers(batch, 10));
    learning(sgd(parameters), move || forward().cross_entropy(&classes).into_dyn())
}

/// Plain stochastic gradient descent.
pub(super) fn sgd(parameters: Vec<DynTensor>) -> Sgd {
    Sgd::new(parameters, SgdConfig { lr: 0.01, ..Default::default() })
}

/// A step of training: a loss, its gradients, an update, and the loss is read.
pub(super) fn learning(
    mut optimizer: impl Optimizer + 'static,
    loss: impl Fn() -> DynTensor + 'static,
) -> Step {
    Box::new(move || {
        let loss = in_batch(&loss);
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        loss.item()?;
        Ok(())
    })
}

/// Random numbers in `[-1, 1)`, equal in every run.
pub(super) fn floats(n: usize) -> Vec<f32> {
    noise().take(n).map(|bits| (bits >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// [`floats`] as a tensor.
pub(super) fn noisy<const R: usize>(sizes: [usize; R]) -> DynTensor {
    DynTensor::from_vec(floats(sizes.iter().product()), sizes)
}

/// [`floats`] of a tenth of the size, to be learned.
pub(super) fn weight<const R: usize>(sizes: [usize; R]) -> DynTensor {
    noisy(sizes).mul(0.1).detach().requires_grad()
}

/// Random numbers from 0 to below `below`, equal in every run.
pub(super) fn integers(n: usize, below: i64) -> Vec<i64> {
    noise().take(n).map(|bits| (bits >> 33) as i64 % below).collect()
}

/// Knuth's linear congruential generator. Its high bits are good enough for the data of
/// measurements.
fn noise() -> impl Iterator<Item = u64> {
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
    const INCREMENT: u64 = 1_442_695_040_888_963_407;
    std::iter::successors(Some(INCREMENT), |state| {
        Some(state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_within_its_bounds_and_varied() {
        let (floats, integers) = (floats(1000), integers(1000, 10));
        assert!(floats.iter().all(|v| (-1.0..1.0).contains(v)));
        assert!(floats.iter().sum::<f32>().abs() < 100.0);
        assert!((0..10).all(|class| integers.contains(&class)));
    }
}
