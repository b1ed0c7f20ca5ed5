//! An exponential moving average of parameters (Polyak and Juditsky 1992): often better to evaluate
//! than the parameters.

use crate::core::DynTensor;
use crate::error::Result;
use crate::no_grad::NoGrad;
use crate::state::{Commit, Misfits, StateDict, Stateful, upload_like};

/// Averages of parameters: `average = decay * average + (1 - decay) * parameter` at each update.
/// PyTorch's `get_ema_multi_avg_fn`; the first update takes the parameters as they are.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let net: Linear<N<3>, N<1>> = Linear::new();
/// let mut ema = Ema::new(net.parameters(), 0.999);
/// for _ in 0..1000 {
///     // .. zero_grad, backward, optimizer.step() ..
///     ema.update();
/// }
/// ema.swap()?; // evaluate with the averages ..
/// ema.swap()?; // .. and go on training
/// # Ok::<(), gt::Error>(())
/// ```
pub struct Ema {
    params: Vec<DynTensor>,
    averages: Vec<DynTensor>,
    /// Share of the average kept at an update.
    pub decay: f64,
    updates: i64,
}

impl Ema {
    /// Averages of these leaves, which start as the leaves are.
    pub fn new(params: impl IntoIterator<Item = DynTensor>, decay: f64) -> Ema {
        let params: Vec<DynTensor> = params.into_iter().collect();
        Ema { averages: params.iter().map(DynTensor::detach).collect(), params, decay, updates: 0 }
    }

    /// The averages, in the order of the parameters.
    pub fn averages(&self) -> &[DynTensor] {
        &self.averages
    }

    /// Takes the parameters as they are now into the averages. Call it after `optimizer.step()`.
    #[track_caller]
    pub fn update(&mut self) {
        let _guard = NoGrad::enter();
        for (average, param) in self.averages.iter_mut().zip(&self.params) {
            *average = match self.updates {
                0 => param.detach(),
                _ => average.mul(self.decay).add(&param.mul(1.0 - self.decay)),
            };
        }
        self.updates = self.updates.saturating_add(1);
    }

    /// Exchanges parameters and averages: once to evaluate with the averages, once more to go on
    /// training.
    ///
    /// # Errors
    /// A parameter is not a leaf.
    #[track_caller]
    pub fn swap(&mut self) -> Result<()> {
        for (average, param) in self.averages.iter_mut().zip(&self.params) {
            let before = param.detach();
            param.replace(average)?;
            *average = before;
        }
        Ok(())
    }
}

impl Stateful for Ema {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert_number("decay", self.decay);
        state.insert_number("updates", self.updates);
        for (i, average) in self.averages.iter().enumerate() {
            state.insert(format!("average.{i}"), average.to_host()?);
        }
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let names: Vec<String> = (0..self.params.len()).map(|i| format!("average.{i}")).collect();
        let mut wanted = vec!["decay", "updates"];
        wanted.extend(names.iter().map(String::as_str));
        let mut misfits = Misfits::names("ema", state, &wanted);
        for (name, average) in names.iter().zip(&self.averages) {
            misfits.compare(name, state.get(name), average);
        }
        misfits.finish()?;
        let (decay, updates) = (state.number("decay")?, state.number("updates")?);
        let old = names.iter().zip(&self.averages);
        let averages: Vec<DynTensor> =
            old.filter_map(|(name, old)| Some(upload_like(state.get(name)?, old))).collect();
        Ok(Box::new(move || {
            (self.decay, self.updates, self.averages) = (decay, updates, averages);
        }))
    }
}
