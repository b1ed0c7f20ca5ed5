//! Parts of a model that are computed again by `backward` instead of keeping what their gradients
//! need (Chen et al. 2016).

use std::panic::Location;
use std::sync::Arc;

use gt_ir::DType;

use super::custom::joined;
use crate::autocast::{Autocast, autocast_dtype};
use crate::core::DynTensor;
use crate::core::tensor::substitute::{self, Substitutes};
use crate::core::tensor::{Call, Edge, Rule, edge, tensor};
use crate::error::Result;
use crate::no_grad::{enable_grad, no_grad};

/// The value of `f` at `inputs`. What `f` computes on the way is freed at once; `backward` calls
/// `f` again, so it must do the same each time. Random numbers are drawn again as they were.
/// Tensors that `f` holds get their gradients too.
///
/// The second computation starts a segment of its own, so that no optimizer makes one of both and
/// keeps the values after all.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let x = DynTensor::from([0.2f32, 0.7]).requires_grad();
/// let y = autograd::checkpoint(|inputs| inputs[0].exp().tanh(), &[&x]); // keeps x only
/// y.sum(..).backward()?; // computes exp and tanh again
/// # Ok::<(), gt::Error>(())
/// ```
#[must_use]
#[track_caller]
pub fn checkpoint<F>(f: F, inputs: &[&DynTensor]) -> DynTensor
where
    F: Fn(&[DynTensor]) -> DynTensor + Send + Sync + 'static,
{
    let inputs: Vec<DynTensor> = inputs.iter().map(|input| input.present()).collect();
    let session = inputs.iter().find_map(DynTensor::session);
    let rng = session.map(|session| session.rng_state());
    let output = no_grad(|| f(&inputs));
    let rule = Recompute { f, rng, narrow: autocast_dtype(), substitutes: substitute::all() };
    joined(&output, &inputs, Arc::new(rule), Location::caller())
}

/// What is computed again.
struct Recompute<F> {
    f: F,
    /// Where the generator of random numbers stood.
    rng: Option<(u64, u64)>,
    /// The dtype products ran in.
    narrow: Option<DType>,
    /// What stood for leaves.
    substitutes: Vec<Substitutes>,
}

impl<F: Fn(&[DynTensor]) -> DynTensor + Send + Sync> Rule for Recompute<F> {
    fn gradients(&self, call: Call) -> Result<Vec<(Edge, DynTensor)>> {
        let inputs = call.inputs.iter().map(|(value, edge)| tensor(value, edge.as_ref()));
        let again = self.run(&inputs.collect::<Vec<_>>());
        call.fits("checkpoint: the function computed again gives", &again, &call.grad)?;
        Ok(edge(&again).map(|edge| (edge, call.grad)).into_iter().collect())
    }
}

impl<F: Fn(&[DynTensor]) -> DynTensor> Recompute<F> {
    /// The output with the history it would have had.
    fn run(&self, inputs: &[DynTensor]) -> DynTensor {
        let _precision = Autocast::switch(self.narrow);
        let session = inputs.iter().find_map(DynTensor::session);
        let Some((session, rng)) = session.zip(self.rng) else {
            return self.tracked(inputs);
        };
        session.flush();
        let now = session.rng_state();
        session.set_rng_state(rng);
        let output = self.tracked(inputs);
        session.set_rng_state(now);
        output
    }

    fn tracked(&self, inputs: &[DynTensor]) -> DynTensor {
        substitute::with(self.substitutes.iter().cloned(), || enable_grad(|| (self.f)(inputs)))
    }
}
