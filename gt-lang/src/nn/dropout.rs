//! `Dropout`: zeroes elements at random while training (Srivastava et al. 2014).

use super::forward::Forward;
use super::init::Init;
use super::module::{Mode, Module, Visitor};
use crate::typed::{Floats, Sealed as _};

/// In training each element is zeroed with probability `p` and the others are divided by `1 - p`;
/// in evaluation nothing happens.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let mut layer = Dropout::new(0.1);
/// let x: T![Batch, 8] = Tensor::ones_with([4]);
/// let noisy = layer.forward(&x);
/// layer.eval();
/// let same = layer.forward(&x);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The probability.
    pub p: f64,
    mode: Mode,
}

impl Dropout {
    /// A layer with this probability, in training.
    #[must_use]
    pub fn new(p: f64) -> Self {
        Dropout { p, mode: Mode::Train }
    }

    /// The layer applied to `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Floats>(&self, x: &X) -> X::Owned {
        X::Owned::like(match self.mode {
            Mode::Train if self.p == 0.0 => x.inner().clone(),
            Mode::Train => x.inner().dropout(self.p),
            Mode::Eval => x.inner().clone(),
        })
    }
}

#[diagnostic::do_not_recommend]
impl Init for Dropout {
    fn init() -> Self {
        Dropout::new(0.5)
    }
}

#[diagnostic::do_not_recommend]
impl Module for Dropout {
    fn describe(&self) -> String {
        format!("Dropout({})", self.p)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }
}

impl<X: Floats> Forward<X> for Dropout {
    type Out = X::Owned;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Owned {
        Dropout::forward(self, x)
    }
}
