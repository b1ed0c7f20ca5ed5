//! Recurrent layers on top of each other, without what a step computes: their weights, their
//! directions, and the way over the steps.
//!
//! Guarantees: weights have PyTorch's names (`weight_ih_l0`, `weight_ih_l0_reverse`) and stand in
//! its order; so do the states behind the last step.

use gt_ir::OpError;

use super::Layers;
use crate::control::{scan, scan_reverse};
use crate::core::DynTensor;
use crate::error::{Error, Result};
use crate::functional::precision::biased;
use crate::nn::conv::uniform;
use crate::nn::dropout::Dropout;
use crate::nn::init::{fault, unless};
use crate::nn::module::{Mode, Module, Visitor};
use crate::no_grad::is_grad_enabled;

/// The way over the steps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
}

impl Direction {
    /// What names of weights end in.
    fn suffix(self) -> &'static str {
        match self {
            Direction::Forward => "",
            Direction::Reverse => "_reverse",
        }
    }
}

/// What a layer computes at a step.
pub(super) trait Step {
    /// The layer, as errors name it.
    const NAME: &'static str;
    /// Parts of what inputs and states become, each as wide as a state.
    const GATES: usize;
    /// How many states there are, the first of which is the output.
    const STATES: usize;

    /// The states after a step, from the weights of states, what the input adds to the gates, and
    /// the states before.
    #[track_caller]
    fn step(own: &OfStates, input: &DynTensor, states: &[DynTensor]) -> Vec<DynTensor>;
}

/// The weights of one layer in one direction, or of a cell.
#[derive(Clone)]
pub(super) struct Weights {
    input: DynTensor,
    hidden: DynTensor,
    input_bias: DynTensor,
    hidden_bias: DynTensor,
}

impl Weights {
    #[track_caller]
    pub(super) fn new(gates: usize, inputs: usize, width: usize, fault: Option<&Error>) -> Weights {
        Weights {
            input: unless(fault, uniform(&[gates * width, inputs], width)),
            hidden: unless(fault, uniform(&[gates * width, width], width)),
            input_bias: unless(fault, uniform(&[gates * width], width)),
            hidden_bias: unless(fault, uniform(&[gates * width], width)),
        }
    }

    /// The widths of inputs and states.
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.input.size(-1), self.hidden.size(-1)]
    }

    /// Names end in `suffix`: `weight_ih` and `_l0`.
    pub(super) fn visit(&self, suffix: &str, visitor: &mut Visitor<'_>) {
        visitor.child(&format!("weight_ih{suffix}"), &self.input);
        visitor.child(&format!("weight_hh{suffix}"), &self.hidden);
        visitor.child(&format!("bias_ih{suffix}"), &self.input_bias);
        visitor.child(&format!("bias_hh{suffix}"), &self.hidden_bias);
    }

    /// What inputs add to the gates.
    #[track_caller]
    pub(super) fn of_inputs(&self, x: &DynTensor) -> DynTensor {
        biased(&x.matmul(&self.input.t()), &self.input_bias)
    }

    #[track_caller]
    pub(super) fn of_states(&self) -> OfStates {
        OfStates { matrix: self.hidden.t(), bias: self.hidden_bias.clone() }
    }

    /// All steps of `x` in one direction, from the given states: the outputs in the order of the
    /// steps, and the states behind the last one.
    #[track_caller]
    fn run<C: Step>(
        &self,
        direction: Direction,
        x: &DynTensor,
        mut states: Vec<DynTensor>,
    ) -> (DynTensor, Vec<DynTensor>) {
        let (inputs, own) = (self.of_inputs(x), self.of_states());
        let n_steps = x.size(1);
        let weights = [&inputs, &own.matrix, &own.bias];
        let is_tracked =
            is_grad_enabled() && weights.into_iter().chain(&states).any(DynTensor::is_tracked);
        if n_steps >= LOOP
            && !is_tracked
            && let Ok(done) = own.looped::<C>(direction, &inputs, &states)
        {
            return done;
        }
        let mut outputs = Vec::new();
        for i in 0..n_steps {
            let t = if direction == Direction::Forward { i } else { n_steps - 1 - i };
            states = C::step(&own, &inputs.slice((.., t)), &states);
            outputs.extend(states.first().cloned());
        }
        if direction == Direction::Reverse {
            outputs.reverse();
        }
        (DynTensor::stack(&outputs, 1), states)
    }
}

/// The weights that all steps of one layer in one direction multiply states by: one value, so that
/// its gradient is one product over all steps.
pub(super) struct OfStates {
    /// A column for each element of the gates.
    matrix: DynTensor,
    bias: DynTensor,
}

/// Steps from which on a layer without gradients is recorded as one loop.
const LOOP: usize = 16;

impl OfStates {
    /// All steps as a loop: the outputs, and the states behind the last step. A gradient would
    /// compute each step again, and have a product for each.
    #[track_caller]
    fn looped<C: Step>(
        &self,
        direction: Direction,
        inputs: &DynTensor,
        states: &[DynTensor],
    ) -> Result<(DynTensor, Vec<DynTensor>)> {
        let step = |states: &[DynTensor], inputs: &[DynTensor]| {
            let states = C::step(self, &inputs[0], states);
            let output = states.iter().take(1).cloned().collect();
            (states, output)
        };
        let (inputs, states): (_, Vec<&DynTensor>) =
            (inputs.transpose(0, 1), states.iter().collect());
        let (states, outputs) = match direction {
            Direction::Forward => scan(step, &states, &[&inputs])?,
            Direction::Reverse => scan_reverse(step, &states, &[&inputs])?,
        };
        Ok((outputs[0].transpose(0, 1), states))
    }

    /// What a state adds to the gates.
    #[track_caller]
    pub(super) fn gates(&self, state: &DynTensor) -> DynTensor {
        biased(&state.matmul(&self.matrix), &self.bias)
    }
}

/// Weights of layers on top of each other.
#[derive(Clone)]
pub(super) struct Stack {
    /// Of each layer those of each direction.
    layers: Vec<Vec<(Direction, Weights)>>,
    inputs: usize,
    width: usize,
    dropout: Dropout,
}

impl Stack {
    #[track_caller]
    pub(super) fn new<C: Step>(
        [inputs, width]: [usize; 2],
        how: Layers,
        directions: &[Direction],
        other_sizes: Option<Error>,
    ) -> Stack {
        let fault = if how.count == 0 {
            fault(
                format!("{}: a stack of 0 layers computes nothing", C::NAME),
                "`count` is 1 or more",
            )
        } else {
            other_sizes
        };
        let mut layers = Vec::new();
        // One that cannot be has weights all the same: they carry why.
        for k in 0..how.count.max(1) {
            let inputs = if k == 0 { inputs } else { directions.len() * width };
            let mut layer = Vec::new();
            for &direction in directions {
                layer.push((direction, Weights::new(C::GATES, inputs, width, fault.as_ref())));
            }
            layers.push(layer);
        }
        Stack { layers, inputs, width, dropout: Dropout::new(how.dropout) }
    }

    pub(super) fn visit(&self, visitor: &mut Visitor<'_>) {
        for (k, layer) in self.layers.iter().enumerate() {
            for (way, weights) in layer {
                weights.visit(&format!("_l{k}{}", way.suffix()), visitor);
            }
        }
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.dropout.set_mode(mode);
    }

    /// `4 -> 3, 2 layers, bidirectional`.
    pub(super) fn describe(&self) -> String {
        let both = self.layers.first().is_some_and(|layer| layer.len() > 1);
        let ways = if both { ", bidirectional" } else { "" };
        format!("{} -> {}, {} layers{ways}", self.inputs, self.width, self.layers.len())
    }

    /// Every layer over every step, from the states `first` (each `[layers * directions, batch,
    /// width]`) or from zeros: the outputs, and the states behind the last step.
    #[track_caller]
    pub(super) fn run<C: Step>(
        &self,
        x: &DynTensor,
        first: &[DynTensor],
    ) -> (DynTensor, Vec<DynTensor>) {
        if x.size(1) == 0 && x.error().is_none() {
            let none = x.record_with(|ty| {
                let message = format!("{}: {ty} holds no step", C::NAME);
                Err(OpError::new(message).hint("a sequence is at least one step long"))
            });
            return (none.clone(), vec![none; C::STATES]);
        }
        let (mut x, mut last) = (x.clone(), vec![Vec::new(); C::STATES]);
        let mut n_before = 0;
        for (k, layer) in self.layers.iter().enumerate() {
            if k > 0 {
                x = self.dropout.forward(&x);
            }
            let mut outputs = Vec::new();
            for (direction, weights) in layer {
                let mut states = Vec::new();
                for state in first {
                    states.push(state.slice(n_before));
                }
                if first.is_empty() {
                    states = vec![zeros(&x, self.width); C::STATES];
                }
                let (y, states) = weights.run::<C>(*direction, &x, states);
                outputs.push(y);
                last.iter_mut().zip(states).for_each(|(all, state)| all.push(state));
                n_before += 1;
            }
            x = beside_each_other(outputs);
        }
        let mut states = Vec::new();
        for state in &last {
            states.push(DynTensor::stack(state, 0));
        }
        (x, states)
    }
}

/// The outputs of all directions.
#[track_caller]
fn beside_each_other(mut outputs: Vec<DynTensor>) -> DynTensor {
    match outputs.len() {
        1 => outputs.remove(0),
        _ => DynTensor::cat(&outputs, -1),
    }
}

/// Zeros of the batch of `x` and this width, in its session.
#[track_caller]
fn zeros(x: &DynTensor, width: usize) -> DynTensor {
    x.slice((.., 0, 0)).detach().unsqueeze(-1).zeros_like().expand([x.size(0), width])
}
