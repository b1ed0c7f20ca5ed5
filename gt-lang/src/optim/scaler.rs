//! Scaling losses for training in `f16`, whose smallest numbers gradients fall below (Micikevicius
//! et al. 2018). `bf16` needs none.
//!
//! Guarantees: a step whose gradients are not all finite changes no parameter and makes the scale
//! smaller. Gradients are looked at once a step, which waits for them.

use gt_ir::DType;

use super::Optimizer;
use crate::core::DynTensor;
use crate::error::Result;
use crate::no_grad::NoGrad;
use crate::state::{Commit, Misfits, StateDict, Stateful};

/// How the scale moves, with PyTorch's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradScalerConfig {
    /// The scale at first.
    pub init_scale: f64,
    /// What the scale is multiplied with after `growth_interval` good steps.
    pub growth_factor: f64,
    /// What it is multiplied with after a step that was left out.
    pub backoff_factor: f64,
    /// Good steps in a row before it grows.
    pub growth_interval: i64,
}

impl Default for GradScalerConfig {
    fn default() -> Self {
        GradScalerConfig {
            init_scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
        }
    }
}

/// Multiplies losses, and divides gradients before they are used: PyTorch's `GradScaler`.
///
/// ```no_run
/// # use gt_lang::{DynTensor, Result, optim::{GradScaler, Optimizer, Sgd}};
/// # fn f(loss: DynTensor, optimizer: &mut Sgd, scaler: &mut GradScaler) -> Result<()> {
/// optimizer.zero_grad();
/// scaler.scale(&loss).backward()?;
/// scaler.step(optimizer)?;
/// scaler.update();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GradScaler {
    config: GradScalerConfig,
    scale: f64,
    /// Good steps since the scale changed.
    streak: i64,
    /// Whether the gradients of this step are finite, once they have been divided.
    finite: Option<bool>,
}

impl Default for GradScaler {
    fn default() -> Self {
        GradScaler::new(GradScalerConfig::default())
    }
}

impl GradScaler {
    /// A scaler that begins as the configuration says.
    #[must_use]
    pub fn new(config: GradScalerConfig) -> Self {
        GradScaler { config, scale: config.init_scale, streak: 0, finite: None }
    }

    /// The present scale.
    #[must_use]
    pub fn get_scale(&self) -> f64 {
        self.scale
    }

    /// The loss, multiplied: what `backward` is called on.
    #[must_use]
    #[track_caller]
    pub fn scale(&self, loss: &DynTensor) -> DynTensor {
        loss.mul(self.scale)
    }

    /// Divides the gradients of an optimizer's parameters, so that they can be clipped; says
    /// whether all are finite. Does so once a step, however often it is called.
    ///
    /// # Errors
    /// The gradients cannot be computed.
    #[track_caller]
    pub fn unscale(&mut self, optimizer: &(impl Optimizer + ?Sized)) -> Result<bool> {
        if let Some(finite) = self.finite {
            return Ok(finite);
        }
        let _guard = NoGrad::enter();
        let mut largest: Option<DynTensor> = None;
        for param in optimizer.parameters() {
            let Some(grad) = param.grad().filter(|grad| grad.numel() > 0) else { continue };
            let grad = grad.mul(1.0 / self.scale);
            let own = grad.abs().max(..).to_dtype(DType::F32);
            largest = Some(largest.map_or(own.clone(), |most| most.maximum(&own)));
            param.set_grad(Some(grad));
        }
        let finite = match largest {
            Some(largest) => largest.item()?.is_finite(),
            None => true,
        };
        self.finite = Some(finite);
        Ok(finite)
    }

    /// A step of the optimizer with the gradients divided; says whether it was made: it is left out
    /// where they are not finite.
    ///
    /// # Errors
    /// As [`GradScaler::unscale`] and as the step of the optimizer.
    #[track_caller]
    pub fn step(&mut self, optimizer: &mut (impl Optimizer + ?Sized)) -> Result<bool> {
        let finite = self.unscale(optimizer)?;
        if finite {
            optimizer.step()?;
        }
        Ok(finite)
    }

    /// Moves the scale by what the step met. Call it after [`GradScaler::step`].
    pub fn update(&mut self) {
        match self.finite.take() {
            None => (),
            Some(false) => (self.scale, self.streak) = (self.scale * self.config.backoff_factor, 0),
            Some(true) => {
                self.streak += 1;
                if self.streak >= self.config.growth_interval {
                    (self.scale, self.streak) = (self.scale * self.config.growth_factor, 0);
                }
            }
        }
    }
}

const NAMES: [&str; 5] =
    ["scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"];

impl Stateful for GradScaler {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert_number(NAMES[0], self.scale);
        state.insert_number(NAMES[1], self.config.growth_factor);
        state.insert_number(NAMES[2], self.config.backoff_factor);
        state.insert_number(NAMES[3], self.config.growth_interval);
        state.insert_number(NAMES[4], self.streak);
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        Misfits::names("grad scaler", state, &NAMES).finish()?;
        let config = GradScalerConfig {
            growth_factor: state.number(NAMES[1])?,
            backoff_factor: state.number(NAMES[2])?,
            growth_interval: state.number(NAMES[3])?,
            ..self.config
        };
        let (scale, streak) = (state.number(NAMES[0])?, state.number(NAMES[4])?);
        Ok(Box::new(move || {
            *self = GradScaler { config, scale, streak, finite: None };
        }))
    }
}
