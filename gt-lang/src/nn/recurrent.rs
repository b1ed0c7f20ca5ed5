//! Recurrent layers: `Rnn` (Elman 1990), `Lstm` (Hochreiter and Schmidhuber 1997) and `Gru` (Cho et
//! al. 2014), over `[batch, length, I]` as with PyTorch's `batch_first=True`.
//!
//! Guarantees: parameters have PyTorch's names, layout, order of gates and default initialization.
//! The products of all inputs are one product; the recorded steps are straight-line instructions,
//! so each length is a program of its own. What is common to all, the layers and the way over the
//! steps, is in `stack`; single steps as layers are in `cells`.

mod cells;
mod stack;

use std::marker::PhantomData;

use super::hooks::{entering, hooked};
use super::init::other_sizes;
use super::module::{Mode, Module, Visitor};
use crate::core::DynTensor;
use crate::typed::{Dim, DimSpec, Dyn, Sealed as _, Sequences, StaticDim, Tensor};
pub use cells::{GruCell, LstmCell, RnnCell};
use stack::{Direction, OfStates, Stack, Step};

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

/// The widths of inputs, states and outputs, which are types only.
type Widths<I, H, O> = PhantomData<fn() -> (I, H, O)>;

/// What an [`Rnn`] applies to the sum of what inputs and states become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RnnNonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// `max(x, 0)`.
    Relu,
}

/// The last output of each layer of an [`Rnn`]: `[layers, batch, H]`, two a layer where it reads
/// both ways.
pub type RnnState<H = Dyn> = Tensor<(Dyn, Dyn, H)>;

/// The plain recurrent layer: `tanh` of the products of input and last output, or their `relu`. Its
/// outputs are `O` wide: as wide as its states, `H`, or twice that where it reads both ways.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Time }
/// let x: T![Batch, Time, 8] = Tensor::randn_with([4, 5]);
/// let rnn: Rnn<N<8>, N<16>> = Rnn::with_layers(Layers::default());
/// let y: T![Batch, Time, 16] = rnn.with_nonlinearity(RnnNonlinearity::Relu).forward(&x, None).0;
/// ```
#[derive(Clone)]
pub struct Rnn<I: Dim = Dyn, H: Dim = Dyn, O: Dim = H> {
    stack: Stack,
    nonlinearity: RnnNonlinearity,
    sizes: Widths<I, H, O>,
}

impl<I: Dim, H: Dim, O: Dim> Rnn<I, H, O> {
    /// This layer with another function for its outputs.
    #[must_use]
    pub fn with_nonlinearity(self, nonlinearity: RnnNonlinearity) -> Self {
        Rnn { nonlinearity, ..self }
    }

    /// The outputs of the last layer, and the last output of each layer. Without a state it begins
    /// with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<I, O>>(
        &self,
        x: &X,
        state: Option<&RnnState<H>>,
    ) -> (X::Out, RnnState<H>) {
        let first: Vec<DynTensor> = state.iter().map(|s| s.as_dyn().clone()).collect();
        let x = &*entering(self, x.inner());
        let (y, last) = match self.nonlinearity {
            RnnNonlinearity::Tanh => self.stack.run::<TanhStep>(x, &first),
            RnnNonlinearity::Relu => self.stack.run::<ReluStep>(x, &first),
        };
        let last = last.first().unwrap_or(&y).clone();
        (hooked(self, X::Out::conforming("rnn", y)), Tensor::wrap(last))
    }
}

/// Steps of an [`Rnn`], whose state is its output.
macro_rules! plain_steps {
    ($($name:ident $function:ident)+) => { $(
        struct $name;

        impl Step for $name {
            const NAME: &'static str = "rnn";
            const GATES: usize = 1;
            const STATES: usize = 1;

            fn step(own: &OfStates, input: &DynTensor, states: &[DynTensor]) -> Vec<DynTensor> {
                let [hidden] = states else { return Vec::new() };
                vec![input.add(&own.gates(hidden)).$function()]
            }
        }
    )+ };
}
plain_steps! { TanhStep tanh ReluStep relu }

/// Long short-term memory. Its outputs are `O` wide: as wide as its states, `H`, or twice that
/// where it reads both ways.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Time }
/// let x: T![Batch, Time, 8] = Tensor::randn_with([4, 5]);
/// let lstm: Lstm<N<8>, N<16>> = Lstm::with_layers(Layers::default());
/// let y: T![Batch, Time, 16] = lstm.forward(&x, None).0;
/// let both: Lstm<N<8>, N<16>, N<32>> = Lstm::bidirectional(Layers::default());
/// let y: T![Batch, Time, 32] = both.forward(&x, None).0;
/// ```
#[derive(Clone)]
pub struct Lstm<I: Dim = Dyn, H: Dim = Dyn, O: Dim = H> {
    stack: Stack,
    sizes: Widths<I, H, O>,
}

/// What an [`Lstm`] remembers after each example: `[layers, batch, H]` both. Where it reads both
/// ways each layer has two, as in PyTorch: forwards, then backwards.
#[derive(Clone, Debug)]
pub struct LstmState<H: Dim = Dyn> {
    /// The last output of each layer.
    pub hidden: Tensor<(Dyn, Dyn, H)>,
    /// The cells.
    pub cell: Tensor<(Dyn, Dyn, H)>,
}

impl<I: Dim, H: Dim, O: Dim> Lstm<I, H, O> {
    /// The outputs of the last layer, and the states behind the last step. Without a state it
    /// begins with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<I, O>>(
        &self,
        x: &X,
        state: Option<&LstmState<H>>,
    ) -> (X::Out, LstmState<H>) {
        let first = state.map(|s| [s.hidden.as_dyn().clone(), s.cell.as_dyn().clone()]);
        let first = first.as_ref().map_or(&[][..], |both| both);
        let x = &*entering(self, x.inner());
        let (y, last) = self.stack.run::<LstmStep>(x, first);
        let state = |k: usize| Tensor::wrap(last.get(k).unwrap_or(&y).clone());
        let made = hooked(self, X::Out::conforming("lstm", y.clone()));
        (made, LstmState { hidden: state(0), cell: state(1) })
    }
}

/// A step of an [`Lstm`]. Its states are output and cell.
struct LstmStep;

impl Step for LstmStep {
    const NAME: &'static str = "lstm";
    const GATES: usize = 4;
    const STATES: usize = 2;

    fn step(own: &OfStates, input: &DynTensor, states: &[DynTensor]) -> Vec<DynTensor> {
        let [hidden, cell] = states else { return Vec::new() };
        let gates = input.add(&own.gates(hidden));
        let [i, f, g, o] = &gates.chunk(4, -1)[..] else { return Vec::new() };
        let cell = f.sigmoid().mul(cell).add(&i.sigmoid().mul(&g.tanh()));
        vec![o.sigmoid().mul(&cell.tanh()), cell]
    }
}

/// The last output of each layer of a [`Gru`]: `[layers, batch, H]`, two a layer where it reads
/// both ways.
pub type GruState<H = Dyn> = Tensor<(Dyn, Dyn, H)>;

/// Gated recurrent units, in PyTorch's variant: the reset gate is applied behind the hidden
/// product. Its outputs are `O` wide: as wide as its states, `H`, or twice that where it reads both
/// ways.
#[derive(Clone)]
pub struct Gru<I: Dim = Dyn, H: Dim = Dyn, O: Dim = H> {
    stack: Stack,
    sizes: Widths<I, H, O>,
}

impl<I: Dim, H: Dim, O: Dim> Gru<I, H, O> {
    /// The outputs of the last layer, and the last output of each layer. Without a state it begins
    /// with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<I, O>>(
        &self,
        x: &X,
        state: Option<&GruState<H>>,
    ) -> (X::Out, GruState<H>) {
        let first: Vec<DynTensor> = state.iter().map(|s| s.as_dyn().clone()).collect();
        let x = &*entering(self, x.inner());
        let (y, last) = self.stack.run::<GruStep>(x, &first);
        let last = last.first().unwrap_or(&y).clone();
        (hooked(self, X::Out::conforming("gru", y)), Tensor::wrap(last))
    }
}

/// A step of a [`Gru`]. Its state is its output.
struct GruStep;

impl Step for GruStep {
    const NAME: &'static str = "gru";
    const GATES: usize = 3;
    const STATES: usize = 1;

    fn step(own: &OfStates, input: &DynTensor, states: &[DynTensor]) -> Vec<DynTensor> {
        let [hidden] = states else { return Vec::new() };
        let (inputs, states) = (input.chunk(3, -1), own.gates(hidden).chunk(3, -1));
        let ([ir, iz, new], [hr, hz, old]) = (&inputs[..], &states[..]) else { return Vec::new() };
        let (reset, update) = (ir.add(hr).sigmoid(), iz.add(hz).sigmoid());
        let fresh = new.add(&reset.mul(old)).tanh();
        vec![fresh.add(&update.mul(&hidden.sub(&fresh)))]
    }
}

macro_rules! layers {
    ($($name:ident of $step:ident $({ $field:ident })?;)+) => { $(
        impl<I: StaticDim, H: StaticDim> $name<I, H> {
            /// Layers with fresh weights.
            #[must_use]
            #[track_caller]
            pub fn with_layers(how: Layers) -> Self {
                $name::with_sizes(I::SIZE, H::SIZE, how)
            }
        }

        impl<I: Dim, H: Dim, O: Dim> $name<I, H, O> {
            /// Layers of widths that the types do not know, with fresh weights.
            #[must_use]
            #[track_caller]
            pub fn with_sizes(inputs: usize, width: usize, how: Layers) -> Self {
                let widths = [(I::SPEC, inputs), (H::SPEC, width), (O::SPEC, width)];
                Self::of_sizes(widths, how, &[Direction::Forward])
            }

            /// [`Self::with_sizes`], reading both ways.
            #[must_use]
            #[track_caller]
            pub fn bidirectional_with_sizes(inputs: usize, width: usize, how: Layers) -> Self {
                let widths = [(I::SPEC, inputs), (H::SPEC, width), (O::SPEC, 2 * width)];
                Self::of_sizes(widths, how, &[Direction::Forward, Direction::Reverse])
            }

            #[track_caller]
            fn of_sizes(
                widths: [(DimSpec, usize); 3],
                how: Layers,
                directions: &[Direction],
            ) -> Self {
                let [(_, inputs), (_, width), _] = widths;
                let fault = other_sizes(stringify!($name), &widths);
                let stack = Stack::new::<$step>([inputs, width], how, directions, fault);
                $name { stack, $($field: Default::default(),)? sizes: PhantomData }
            }
        }

        impl<I: StaticDim, H: StaticDim, O: StaticDim> $name<I, H, O> {
            /// Layers with fresh weights, each of which reads the steps forwards and, with weights
            /// of its own, backwards; their outputs stand beside each other. PyTorch's
            /// `bidirectional=True`. That `O` is twice `H` is checked when code is generated
            /// (`cargo build`).
            #[must_use]
            #[track_caller]
            pub fn bidirectional(how: Layers) -> Self {
                const {
                    assert!(
                        O::SIZE == 2 * H::SIZE,
                        "outputs of both directions are twice as wide as the states"
                    );
                }
                $name::bidirectional_with_sizes(I::SIZE, H::SIZE, how)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<I: Dim, H: Dim, O: Dim> Module for $name<I, H, O> {
            fn describe(&self) -> String {
                format!("{}({})", stringify!($name), self.stack.describe())
            }
            fn visit(&self, visitor: &mut Visitor<'_>) {
                self.stack.visit(visitor);
            }
            fn set_mode(&mut self, mode: Mode) {
                self.stack.set_mode(mode);
            }
        }

        impl<I: Dim, H: Dim, O: Dim> std::fmt::Debug for $name<I, H, O> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.describe())
            }
        }
    )+ };
}

layers! {
    Rnn of TanhStep { nonlinearity };
    Lstm of LstmStep;
    Gru of GruStep;
}
