//! Single steps of recurrent layers, for loops of a program's own: `RnnCell`, `LstmCell`,
//! `GruCell`.
//!
//! Guarantees: parameters have PyTorch's names, layout, order of gates and default initialization,
//! and a cell computes what its layer computes at a step.

use std::marker::PhantomData;

use super::stack::{Step, Weights};
use super::{GruStep, LstmStep, ReluStep, RnnNonlinearity, TanhStep};
use crate::core::DynTensor;
use crate::nn::hooks::{entering, hooked};
use crate::nn::init::{Init, other_sizes};
use crate::nn::module::{Module, Visitor};
use crate::typed::{Dim, Dyn, Features, Inner as _, Sealed as _, StaticDim};

/// The widths of inputs and states, which are types only.
type Widths<I, H> = PhantomData<fn() -> (I, H)>;

impl Weights {
    /// A step from the given states, or from zeros where there are none.
    #[track_caller]
    fn step<C: Step>(&self, x: &DynTensor, states: &[&DynTensor]) -> Vec<DynTensor> {
        let input = self.of_inputs(x);
        let states = match states {
            [] => {
                let [_, width] = self.sizes();
                vec![input.detach().narrow(-1, 0, width).zeros_like(); C::STATES]
            }
            given => given.iter().map(|&state| state.clone()).collect(),
        };
        let after = C::step(&self.of_states(), &input, &states);
        // As many states as before, except of an error.
        if after.len() == C::STATES { after } else { vec![input; C::STATES] }
    }
}

/// A step of an [`Rnn`](super::Rnn).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let x: T![Batch, 8] = Tensor::randn_with([4]);
/// let cell: RnnCell<N<8>, N<16>> = RnnCell::new();
/// let h: T![Batch, 16] = cell.forward(&x, None);
/// let h = cell.forward(&x, Some(&h));
/// ```
#[derive(Clone)]
pub struct RnnCell<I: Dim = Dyn, H: Dim = Dyn> {
    weights: Weights,
    nonlinearity: RnnNonlinearity,
    sizes: Widths<I, H>,
}

impl<I: Dim, H: Dim> RnnCell<I, H> {
    /// This cell with another function for its outputs.
    #[must_use]
    pub fn with_nonlinearity(self, nonlinearity: RnnNonlinearity) -> Self {
        RnnCell { nonlinearity, ..self }
    }

    /// The output, which is the state after the step: `[.., H]` of an input `[.., I]`. Without a
    /// state it begins with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<I, H>>(&self, x: &X, state: Option<&X::Out>) -> X::Out {
        let states: Vec<&DynTensor> = state.iter().map(|state| state.inner()).collect();
        let x = &*entering(self, x.inner());
        let mut after = match self.nonlinearity {
            RnnNonlinearity::Tanh => self.weights.step::<TanhStep>(x, &states),
            RnnNonlinearity::Relu => self.weights.step::<ReluStep>(x, &states),
        };
        hooked(self, X::Out::conforming("rnn_cell", after.remove(0)))
    }
}

/// A step of a [`Gru`](super::Gru).
#[derive(Clone)]
pub struct GruCell<I: Dim = Dyn, H: Dim = Dyn> {
    weights: Weights,
    sizes: Widths<I, H>,
}

impl<I: Dim, H: Dim> GruCell<I, H> {
    /// The output, which is the state after the step: `[.., H]` of an input `[.., I]`. Without a
    /// state it begins with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<I, H>>(&self, x: &X, state: Option<&X::Out>) -> X::Out {
        let states: Vec<&DynTensor> = state.iter().map(|state| state.inner()).collect();
        let x = &*entering(self, x.inner());
        let mut after = self.weights.step::<GruStep>(x, &states);
        hooked(self, X::Out::conforming("gru_cell", after.remove(0)))
    }
}

/// A step of an [`Lstm`](super::Lstm).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let x: T![Batch, 8] = Tensor::randn_with([4]);
/// let cell: LstmCell<N<8>, N<16>> = LstmCell::new();
/// let (h, c) = cell.forward(&x, None);
/// let (h, c) = cell.forward(&x, Some((&h, &c)));
/// ```
#[derive(Clone)]
pub struct LstmCell<I: Dim = Dyn, H: Dim = Dyn> {
    weights: Weights,
    sizes: Widths<I, H>,
}

impl<I: Dim, H: Dim> LstmCell<I, H> {
    /// The output and the cell after the step: `[.., H]` both, of an input `[.., I]`. Without them
    /// it begins with zeros.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<I, H>>(
        &self,
        x: &X,
        state: Option<(&X::Out, &X::Out)>,
    ) -> (X::Out, X::Out) {
        let states = state.map(|(hidden, cell)| [hidden.inner(), cell.inner()]);
        let states = states.as_ref().map_or(&[][..], |both| both);
        let x = &*entering(self, x.inner());
        let mut after = self.weights.step::<LstmStep>(x, states);
        let cell = X::Out::conforming("lstm_cell", after.remove(1));
        (hooked(self, X::Out::conforming("lstm_cell", after.remove(0))), cell)
    }
}

macro_rules! cells {
    ($($name:ident of $step:ident $({ $field:ident })?;)+) => { $(
        impl<I: Dim, H: Dim> $name<I, H> {
            /// A cell of widths that the types do not know, with fresh weights. Widths other than
            /// those the types know are the error of everything computed with it.
            #[must_use]
            #[track_caller]
            pub fn with_sizes(inputs: usize, width: usize) -> Self {
                let fault = other_sizes(stringify!($name), &[(I::SPEC, inputs), (H::SPEC, width)]);
                let weights = Weights::new($step::GATES, inputs, width, fault.as_ref());
                $name { weights, $($field: Default::default(),)? sizes: PhantomData }
            }
        }

        #[diagnostic::do_not_recommend]
        impl<I: StaticDim, H: StaticDim> Init for $name<I, H> {
            fn init() -> Self {
                $name::with_sizes(I::SIZE, H::SIZE)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<I: Dim, H: Dim> Module for $name<I, H> {
            fn describe(&self) -> String {
                let [inputs, width] = self.weights.sizes();
                format!("{}({inputs} -> {width})", stringify!($name))
            }
            fn visit(&self, visitor: &mut Visitor<'_>) {
                self.weights.visit("", visitor);
            }
        }

        impl<I: Dim, H: Dim> std::fmt::Debug for $name<I, H> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.describe())
            }
        }
    )+ };
}

cells! {
    RnnCell of TanhStep { nonlinearity };
    LstmCell of LstmStep;
    GruCell of GruStep;
}
