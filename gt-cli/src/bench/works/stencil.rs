//! The work `stencil`: steps of the heat equation on a grid.

use super::super::step::{Step, noisy};
use gt_lang::prelude::*;

/// A grid of 1024x1024, and ten steps on it.
pub(in super::super) fn step() -> Step {
    let mut heat = noisy([1024, 1024]);
    Box::new(move || {
        for _ in 0..10 {
            heat = after(&heat);
        }
        heat.narrow(0, 0, 1).narrow(1, 0, 1).sum(..).item()?;
        Ok(())
    })
}

/// The grid a step later, with zeros around it.
fn after(heat: &DynTensor) -> DynTensor {
    let wide = heat.pad([(1, 1), (1, 1)], 0.0);
    let at = |row, column| wide.narrow(0, row, 1024).narrow(1, column, 1024);
    let around = at(0, 1).add(&at(2, 1)).add(&at(1, 0)).add(&at(1, 2));
    heat.add(&around.sub(&heat.mul(4.0)).mul(0.1))
}
