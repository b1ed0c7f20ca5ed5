//! L-BFGS, which estimates the curvature of the loss from its last gradients (Liu and Nocedal
//! 1989).
//!
//! Guarantees: takes the steps of PyTorch's `LBFGS`; evaluates the loss at most `max_eval` times in
//! each step, and one line search more; a state that is restored goes on to the bit.

use std::collections::VecDeque;
use std::panic::Location;

use super::grouped::{end_step, gradient};
use super::wolfe::{Search, Trial};
use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::{NoGrad, enable_grad};
use crate::state::{Commit, Misfits, StateDict, Stateful};
use crate::typed::AnyTensor;

/// The settings of [`Lbfgs`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LbfgsConfig {
    /// Learning rate: the length of a step, or the first length that a search tries.
    pub lr: f64,
    /// The most iterations of a step.
    pub max_iter: usize,
    /// The most evaluations of the loss in a step; `None` is a quarter more than `max_iter`.
    pub max_eval: Option<usize>,
    /// No element of a gradient being larger than this ends a step.
    pub tolerance_grad: f64,
    /// The loss, and each parameter, changing by less than this ends a step.
    pub tolerance_change: f64,
    /// How many of the last gradients are kept.
    pub history_size: usize,
    /// How far to go along a direction.
    pub line_search: LineSearch,
}

/// How far an iteration of [`Lbfgs`] goes along its direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineSearch {
    /// By the learning rate.
    #[default]
    None,
    /// To a point that satisfies the strong Wolfe conditions: PyTorch's `"strong_wolfe"`.
    StrongWolfe,
}

impl Default for LbfgsConfig {
    fn default() -> Self {
        LbfgsConfig {
            lr: 1.0,
            max_iter: 20,
            max_eval: None,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            history_size: 100,
            line_search: LineSearch::None,
        }
    }
}

/// L-BFGS over all parameters together. A step evaluates the loss several times, and reads it each
/// time, so it takes a function that computes the loss; gradients are its own business.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::optim::{Lbfgs, LbfgsConfig, LineSearch};
/// # let (x, y): (T![8, 3], T![8, 1]) = (Tensor::randn(), Tensor::randn());
/// let net: Linear<N<3>, N<1>> = Linear::new();
/// let config = LbfgsConfig { line_search: LineSearch::StrongWolfe, ..Default::default() };
/// let mut optimizer = Lbfgs::new(net.parameters(), config);
/// for _ in 0..5 {
///     let loss = optimizer.step(|| net.forward(&x).mse_loss(&y))?;
///     println!("{loss}"); // before the step
/// }
/// # Ok::<(), gt::Error>(())
/// ```
pub struct Lbfgs {
    params: Vec<DynTensor>,
    config: LbfgsConfig,
    memory: Memory,
}

/// What is kept from iteration to iteration. Vectors hold all parameters, one after the other.
#[derive(Clone, Default)]
struct Memory {
    iterations: i64,
    evaluations: i64,
    /// The last direction, and how far it was followed.
    direction: Option<DynTensor>,
    length: f64,
    /// Differences of gradients and of parameters, and 1 by their product, the oldest first.
    pairs: VecDeque<(DynTensor, DynTensor, f64)>,
    /// The estimate of the inverse curvature that the pairs correct.
    scale: f64,
    gradient: Option<DynTensor>,
    loss: f64,
}

/// A loss and its gradient at the present parameters.
struct Point {
    loss: f64,
    gradient: DynTensor,
}

impl Lbfgs {
    /// An optimizer of these leaves.
    pub fn new(params: impl IntoIterator<Item = DynTensor>, config: LbfgsConfig) -> Lbfgs {
        let mut all: Vec<DynTensor> = Vec::new();
        for param in params {
            if !all.iter().any(|known| known.is(&param)) {
                all.push(param);
            }
        }
        Lbfgs { params: all, config, memory: Memory::default() }
    }

    /// The parameters, each once.
    pub fn parameters(&self) -> &[DynTensor] {
        &self.params
    }

    /// The settings.
    pub fn config(&self) -> &LbfgsConfig {
        &self.config
    }

    /// The settings, to change them.
    pub fn config_mut(&mut self) -> &mut LbfgsConfig {
        &mut self.config
    }

    /// Several iterations towards a smaller loss; the result is the loss before them.
    ///
    /// `loss` computes the loss from the present parameters. Unlike PyTorch's closures it does not
    /// call `backward`.
    ///
    /// # Errors
    /// A parameter is not a leaf, or the loss carries an error, is no single number or depends on
    /// no parameter. The parameters are then those of the last point that was evaluated.
    #[track_caller]
    pub fn step<L: AnyTensor>(&mut self, mut loss: impl FnMut() -> L) -> Result<f64> {
        let at = Location::caller();
        if self.params.is_empty() {
            let error = Error::new(ErrorKind::Operation, "lbfgs: there are no parameters", at);
            return Err(error.hint("give it the leaves to optimize"));
        }
        let mut loss = || loss().inner().clone();
        let _guard = NoGrad::enter();
        let most = self.config.max_eval.unwrap_or(self.config.max_iter.saturating_mul(5) / 4);
        let mut point = self.evaluate(&mut loss)?;
        let first = point.loss;
        let mut evaluations = 1;
        if self.is_flat(&point)? {
            return Ok(first);
        }
        for iteration in 1..=self.config.max_iter {
            let (direction, before) = (self.direction(&point)?, point.loss);
            let slope = dot(&point.gradient, &direction).item()?;
            let length = self.first_length(&point)?;
            self.remember(&direction, length, &point);
            if slope > -self.config.tolerance_change {
                break;
            }
            let is_last = iteration == self.config.max_iter;
            let used = match self.config.line_search {
                LineSearch::StrongWolfe => {
                    let left = most.saturating_sub(evaluations);
                    self.search(&mut point, &direction, slope, left, &mut loss)?
                }
                LineSearch::None => {
                    self.walk(&self.values(), length, &direction)?;
                    // Nothing looks at the point after the last iteration.
                    if !is_last {
                        point = self.evaluate(&mut loss)?;
                    }
                    usize::from(!is_last)
                }
            };
            evaluations += used;
            if is_last
                || evaluations >= most
                || self.is_flat(&point)?
                || largest(&direction)? * self.memory.length <= self.config.tolerance_change
                || (point.loss - before).abs() < self.config.tolerance_change
            {
                break;
            }
        }
        end_step(&self.params);
        Ok(first)
    }

    /// The loss and the gradient of the present parameters.
    #[track_caller]
    fn evaluate(&mut self, loss: &mut dyn FnMut() -> DynTensor) -> Result<Point> {
        self.memory.evaluations += 1;
        self.params.iter().for_each(DynTensor::zero_grad);
        let loss = enable_grad(loss);
        loss.backward()?;
        let flat = |param: &DynTensor| {
            let gradient = gradient("lbfgs", param)?.unwrap_or_else(|| param.zeros_like());
            Ok(gradient.detach().reshape([-1]).to_dtype(self.dtype()))
        };
        let parts = self.params.iter().map(flat).collect::<Result<Vec<_>>>()?;
        let gradient = DynTensor::cat(&parts, 0);
        Ok(Point { loss: loss.item()?, gradient })
    }

    /// The dtype of vectors, that of the first parameter.
    fn dtype(&self) -> gt_ir::DType {
        self.params.first().map_or(gt_ir::DType::F32, DynTensor::dtype)
    }

    /// The present values of the parameters.
    fn values(&self) -> Vec<DynTensor> {
        self.params.iter().map(DynTensor::detach).collect()
    }

    /// Sets the parameters to these values and a direction times a length.
    #[track_caller]
    fn walk(&self, from: &[DynTensor], length: f64, direction: &DynTensor) -> Result<()> {
        let mut at = 0;
        for (param, value) in self.params.iter().zip(from) {
            let n = value.numel();
            let part = direction.narrow(0, at, n).reshape(value.shape());
            param.replace(&value.add(&part.mul(length).to_dtype(value.dtype())))?;
            at += n as i64;
        }
        Ok(())
    }

    fn is_flat(&self, point: &Point) -> Result<bool> {
        Ok(largest(&point.gradient)? <= self.config.tolerance_grad)
    }

    /// The direction from this point: minus the gradient times the estimate of the inverse
    /// curvature, with what the way to this point says of it.
    #[track_caller]
    fn direction(&mut self, point: &Point) -> Result<DynTensor> {
        let memory = &mut self.memory;
        memory.iterations += 1;
        let last = (memory.gradient.as_ref(), memory.direction.as_ref());
        let (Some(gradient), Some(direction)) = last else {
            memory.scale = 1.0;
            return Ok(point.gradient.neg());
        };
        let (y, s) = (&point.gradient - gradient, direction * memory.length);
        let product = dot(&y, &s).item()?;
        if product > 1e-10 {
            memory.scale = product / dot(&y, &y).item()?;
            memory.pairs.push_back((y, s, 1.0 / product));
            let more = memory.pairs.len().saturating_sub(self.config.history_size.max(1));
            memory.pairs.drain(..more);
        }
        let mut q = point.gradient.neg();
        let mut shares = Vec::with_capacity(memory.pairs.len());
        for (y, s, inverse) in memory.pairs.iter().rev() {
            let share = dot(s, &q) * *inverse;
            q -= y * &share;
            shares.push(share);
        }
        let mut r = q * memory.scale;
        for ((y, s, inverse), share) in memory.pairs.iter().zip(shares.iter().rev()) {
            let back = dot(y, &r) * *inverse;
            r += s * (share - back);
        }
        Ok(r)
    }

    /// The length that is tried first.
    fn first_length(&self, point: &Point) -> Result<f64> {
        if self.memory.iterations > 1 {
            return Ok(self.config.lr);
        }
        let size = point.gradient.abs().sum(..).item()?;
        Ok((1.0 / size).min(1.0) * self.config.lr)
    }

    fn remember(&mut self, direction: &DynTensor, length: f64, point: &Point) {
        let (direction, gradient) = (Some(direction.clone()), Some(point.gradient.clone()));
        let loss = point.loss;
        let memory = std::mem::take(&mut self.memory);
        self.memory = Memory { direction, length, gradient, loss, ..memory };
    }

    /// Goes along a direction to where a search ends; gives the number of evaluations.
    #[track_caller]
    fn search(
        &mut self,
        point: &mut Point,
        direction: &DynTensor,
        slope: f64,
        most: usize,
        loss: &mut dyn FnMut() -> DynTensor,
    ) -> Result<usize> {
        let from = self.values();
        let start = Trial { at: 0.0, loss: point.loss, slope, gradient: point.gradient.clone() };
        let (search, first) = (Search::new(start, largest(direction)?, most), self.memory.length);
        let mut evaluate = |at: f64| {
            self.walk(&from, at, direction)?;
            let Point { loss, gradient } = self.evaluate(loss)?;
            Ok(Trial { at, loss, slope: dot(&gradient, direction).item()?, gradient })
        };
        let (found, evaluations) = search.run(first, &mut evaluate)?;
        self.walk(&from, found.at, direction)?;
        self.memory.length = found.at;
        *point = Point { loss: found.loss, gradient: found.gradient };
        Ok(evaluations)
    }
}

/// The sum of the products of elements.
#[track_caller]
fn dot(x: &DynTensor, y: &DynTensor) -> DynTensor {
    x.mul(y).sum(..)
}

/// The largest absolute value of an element.
#[track_caller]
fn largest(x: &DynTensor) -> Result<f64> {
    x.abs().max(..).item()
}

/// The vectors of a state, besides the pairs.
const VECTORS: [&str; 2] = ["d", "prev_flat_grad"];

/// Saved under PyTorch's names: `state.0.d`, `state.0.old_dirs.3`, ..
impl Stateful for Lbfgs {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        let memory = &self.memory;
        state.insert_number("group.0.lr", self.config.lr);
        state.insert_number("state.0.n_iter", memory.iterations);
        state.insert_number("state.0.func_evals", memory.evaluations);
        state.insert_number("state.0.t", memory.length);
        state.insert_number("state.0.H_diag", memory.scale);
        state.insert_number("state.0.prev_loss", memory.loss);
        for (name, vector) in VECTORS.iter().zip([&memory.direction, &memory.gradient]) {
            if let Some(vector) = vector {
                state.insert(format!("state.0.{name}"), vector.to_host()?);
            }
        }
        for (i, (y, s, inverse)) in memory.pairs.iter().enumerate() {
            state.insert(format!("state.0.old_dirs.{i}"), y.to_host()?);
            state.insert(format!("state.0.old_stps.{i}"), s.to_host()?);
            state.insert_number(format!("state.0.ro.{i}"), *inverse);
        }
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let numbers = ["n_iter", "func_evals", "t", "H_diag", "prev_loss"];
        let mut names: Vec<String> = numbers.iter().map(|n| format!("state.0.{n}")).collect();
        names.push("group.0.lr".into());
        let has_run = state.get("state.0.d").is_some();
        let vectors = VECTORS.iter().filter(|_| has_run).map(|n| format!("state.0.{n}"));
        let mut vectors: Vec<String> = vectors.collect();
        let inverses = state.iter().filter(|(name, _)| name.starts_with("state.0.ro."));
        let pairs = inverses.count();
        let pair = |i: usize| ["old_dirs", "old_stps"].map(|n| format!("state.0.{n}.{i}"));
        vectors.extend((0..pairs).flat_map(pair));
        names.extend((0..pairs).map(|i| format!("state.0.ro.{i}")));
        let all: Vec<&str> = names.iter().chain(&vectors).map(String::as_str).collect();
        let mut misfits = Misfits::names("lbfgs", state, &all);
        let size: usize = self.params.iter().map(DynTensor::numel).sum();
        for name in &vectors {
            if let Some(value) = state.get(name) {
                misfits.compare_sizes(name, value, self.dtype(), &[size]);
            }
        }
        misfits.finish()?;
        let session = self.params.first().and_then(DynTensor::session);
        let _entered = session.as_ref().map(crate::session::Session::enter);
        let vector = |name: &str| state.get(name).map(|v| DynTensor::from_host(v.clone()));
        let restored = |i: usize| {
            let [y, s] = pair(i);
            let inverse = state.number(&format!("state.0.ro.{i}"))?;
            Ok(vector(&y).zip(vector(&s)).map(|(y, s)| (y, s, inverse)))
        };
        let restored = (0..pairs).map(restored).collect::<Result<Vec<_>>>()?;
        let memory = Memory {
            iterations: state.number("state.0.n_iter")?,
            evaluations: state.number("state.0.func_evals")?,
            direction: vector("state.0.d"),
            length: state.number("state.0.t")?,
            pairs: restored.into_iter().flatten().collect(),
            scale: state.number("state.0.H_diag")?,
            gradient: vector("state.0.prev_flat_grad"),
            loss: state.number("state.0.prev_loss")?,
        };
        let lr = state.number("group.0.lr")?;
        Ok(Box::new(move || (self.memory, self.config.lr) = (memory, lr)))
    }
}
