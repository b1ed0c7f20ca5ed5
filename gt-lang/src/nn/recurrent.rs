//! Recurrent layers: `Lstm` (Hochreiter and Schmidhuber 1997) and `Gru` (Cho et al. 2014), over `[batch, length, I]` as with PyTorch's `batch_first=True`.
//!
//! Guarantees: parameters have PyTorch's names, layout, order of gates and default initialization. The products of all inputs are one product; the recorded steps are
//! straight-line instructions, so each length is a program of its own.

use std::marker::PhantomData;

use super::conv::uniform;
use super::dropout::Dropout;
use super::module::{Mode, Module, Visitor};
use crate::autocast::biased;
use crate::core::DynTensor;
use crate::typed::{Dim, Dyn, StaticDim, Tensor};

/// The weights of one layer.
#[derive(Clone)]
struct Weights {
    input: DynTensor,
    hidden: DynTensor,
    input_bias: DynTensor,
    hidden_bias: DynTensor,
}

/// How many layers there are, and what stands between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layers {
    /// One on top of the other.
    pub count: usize,
    /// The probability that elements between two layers are dropped in training.
    pub dropout: f64,
}

impl Default for Layers {
    fn default() -> Self {
        Layers { count: 1, dropout: 0.0 }
    }
}

/// Weights of layers on top of each other.
#[derive(Clone)]
struct Stack {
    layers: Vec<Weights>,
    dropout: Dropout,
}

impl Stack {
    #[track_caller]
    fn new(gates: usize, inputs: usize, width: usize, how: Layers) -> Stack {
        let layer = |k: usize| Weights {
            input: uniform(&[gates * width, if k == 0 { inputs } else { width }], width),
            hidden: uniform(&[gates * width, width], width),
            input_bias: uniform(&[gates * width], width),
            hidden_bias: uniform(&[gates * width], width),
        };
        Stack { layers: (0..how.count).map(layer).collect(), dropout: Dropout::new(how.dropout) }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (k, weights) in self.layers.iter().enumerate() {
            visitor.child(&format!("weight_ih_l{k}"), &weights.input);
            visitor.child(&format!("weight_hh_l{k}"), &weights.hidden);
            visitor.child(&format!("bias_ih_l{k}"), &weights.input_bias);
            visitor.child(&format!("bias_hh_l{k}"), &weights.hidden_bias);
        }
    }

    fn width(&self) -> usize {
        self.layers.first().map_or(0, |weights| weights.hidden.size(-1))
    }

    /// Every layer over every step. `step` is given the weights, what the input adds to the gates, and the states before (`n_states` of them, the first of which is
    /// the output); it gives the states after.
    #[track_caller]
    fn run(
        &self,
        x: &DynTensor,
        first: &[DynTensor],
        n_states: usize,
        step: impl Fn(&Weights, &DynTensor, &[DynTensor]) -> Vec<DynTensor>,
    ) -> (DynTensor, Vec<DynTensor>) {
        let (mut x, mut last) = (x.clone(), vec![Vec::new(); n_states]);
        for (k, weights) in self.layers.iter().enumerate() {
            let mut states: Vec<DynTensor> = match first {
                [] => vec![zeros(&x, self.width()); n_states],
                given => given.iter().map(|state| state.slice(k)).collect(),
            };
            if k > 0 {
                x = self.dropout.forward(&Tensor::<(Dyn, Dyn, Dyn)>::wrap(x)).into_dyn();
            }
            let inputs = biased(&x.matmul(&weights.input.t()), &weights.input_bias);
            let mut outputs = Vec::new();
            for t in 0..x.size(1) {
                states = step(weights, &inputs.slice((.., t)), &states);
                outputs.extend(states.first().cloned());
            }
            if !outputs.is_empty() {
                x = DynTensor::stack(&outputs, 1);
            }
            last.iter_mut().zip(states).for_each(|(all, state)| all.push(state));
        }
        (x, last.iter().map(|states| DynTensor::stack(states, 0)).collect())
    }
}

/// Zeros of the batch of `x` and this width, in its session.
#[track_caller]
fn zeros(x: &DynTensor, width: usize) -> DynTensor {
    x.slice((.., 0, 0)).detach().unsqueeze(-1).zeros_like().expand([x.size(0), width])
}

/// Long short-term memory.
#[derive(Clone)]
pub struct Lstm<I: Dim, H: Dim> {
    stack: Stack,
    sizes: PhantomData<fn() -> (I, H)>,
}

/// What an [`Lstm`] remembers after each example: `[layers, batch, H]` both.
#[derive(Clone, Debug)]
pub struct LstmState<H: Dim> {
    /// The last output of each layer.
    pub hidden: Tensor<(Dyn, Dyn, H)>,
    /// The cells.
    pub cell: Tensor<(Dyn, Dyn, H)>,
}

impl<I: StaticDim, H: StaticDim> Lstm<I, H> {
    /// Layers with fresh weights.
    #[must_use]
    #[track_caller]
    pub fn with_layers(how: Layers) -> Self {
        Lstm { stack: Stack::new(4, I::SIZE, H::SIZE, how), sizes: PhantomData }
    }
}

impl<I: Dim, H: Dim> Lstm<I, H> {
    /// The outputs of the last layer, and the states behind the last step. Without a state it begins with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<B: Dim, L: Dim>(
        &self,
        x: &Tensor<(B, L, I)>,
        state: Option<&LstmState<H>>,
    ) -> (Tensor<(B, L, H)>, LstmState<H>) {
        let first = state.map(|s| [s.hidden.as_dyn().clone(), s.cell.as_dyn().clone()]);
        let first = first.as_ref().map_or(&[][..], |both| both);
        let (y, last) = self.stack.run(x.as_dyn(), first, 2, |weights, input, states| {
            let [hidden, cell] = states else { return Vec::new() };
            let gates =
                input.add(&biased(&hidden.matmul(&weights.hidden.t()), &weights.hidden_bias));
            let [i, f, g, o] = &gates.chunk(4, -1)[..] else { return Vec::new() };
            let cell = f.sigmoid().mul(cell).add(&i.sigmoid().mul(&g.tanh()));
            vec![o.sigmoid().mul(&cell.tanh()), cell]
        });
        let state = |k: usize| Tensor::wrap(last.get(k).unwrap_or(&y).clone());
        (Tensor::conform("lstm", y.clone()), LstmState { hidden: state(0), cell: state(1) })
    }
}

/// The last output of each layer of a [`Gru`]: `[layers, batch, H]`.
pub type GruState<H> = Tensor<(Dyn, Dyn, H)>;

/// Gated recurrent units, in PyTorch's variant: the reset gate is applied behind the hidden product.
#[derive(Clone)]
pub struct Gru<I: Dim, H: Dim> {
    stack: Stack,
    sizes: PhantomData<fn() -> (I, H)>,
}

impl<I: StaticDim, H: StaticDim> Gru<I, H> {
    /// Layers with fresh weights.
    #[must_use]
    #[track_caller]
    pub fn with_layers(how: Layers) -> Self {
        Gru { stack: Stack::new(3, I::SIZE, H::SIZE, how), sizes: PhantomData }
    }
}

impl<I: Dim, H: Dim> Gru<I, H> {
    /// The outputs of the last layer, and the last output of each layer. Without a state it begins with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<B: Dim, L: Dim>(
        &self,
        x: &Tensor<(B, L, I)>,
        state: Option<&GruState<H>>,
    ) -> (Tensor<(B, L, H)>, GruState<H>) {
        let first: Vec<DynTensor> = state.iter().map(|s| s.as_dyn().clone()).collect();
        let (y, last) = self.stack.run(x.as_dyn(), &first, 1, |weights, input, states| {
            let [hidden] = states else { return Vec::new() };
            let own = biased(&hidden.matmul(&weights.hidden.t()), &weights.hidden_bias);
            let (inputs, own) = (input.chunk(3, -1), own.chunk(3, -1));
            let ([ir, iz, new], [hr, hz, old]) = (&inputs[..], &own[..]) else { return Vec::new() };
            let (reset, update) = (ir.add(hr).sigmoid(), iz.add(hz).sigmoid());
            let fresh = new.add(&reset.mul(old)).tanh();
            vec![fresh.add(&update.mul(&hidden.sub(&fresh)))]
        });
        let last = last.first().unwrap_or(&y).clone();
        (Tensor::conform("gru", y), Tensor::wrap(last))
    }
}

macro_rules! module {
    ($($name:ident)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<I: Dim, H: Dim> Module for $name<I, H> {
            fn describe(&self) -> String {
                let inputs = self.stack.layers.first().map_or(0, |weights| weights.input.size(-1));
                let (width, layers) = (self.stack.width(), self.stack.layers.len());
                format!("{}({inputs} -> {width}, {layers} layers)", stringify!($name))
            }
            fn visit(&self, visitor: &mut Visitor<'_>) {
                self.stack.visit(visitor);
            }
            fn set_mode(&mut self, mode: Mode) {
                self.stack.dropout.set_mode(mode);
            }
        }

        impl<I: Dim, H: Dim> std::fmt::Debug for $name<I, H> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.describe())
            }
        }
    )+ };
}

module! { Lstm Gru }
