//! The work `kmeans`: a step of Lloyd's algorithm.

use super::super::step::{Step, noisy};
use gt_lang::prelude::*;

/// Points, and a step that moves the centers to the means of their points.
pub(in super::super) fn step() -> Step {
    let points = noisy([10_000, 16]);
    let mut centers = points.narrow(0, 0, 64);
    Box::new(move || {
        let lengths = centers.square().sum(1);
        let nearest = lengths.sub(&points.matmul(&centers.t()).mul(2.0)).argmin(1);
        let sums = DynTensor::zeros([64, 16], DType::F32).index_add(0, &nearest, &points);
        let ones = DynTensor::ones([10_000], DType::F32);
        let counts = DynTensor::zeros([64], DType::F32).index_add(0, &nearest, &ones);
        centers = sums.div(&counts.clamp(1.0, f64::INFINITY).unsqueeze(1));
        centers.sum(..).item()?;
        Ok(())
    })
}
