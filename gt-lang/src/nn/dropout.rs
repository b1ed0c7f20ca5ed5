//! `Dropout`: zeroes elements at random while training (Srivastava et al. 2014). `Dropout1d` and
//! its like zero whole channels (Tompson et al. 2015).

use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::init::Init;
use super::module::{Mode, Module, Visitor};
use crate::core::DynTensor;
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

    /// Whether it changes what it is applied to.
    pub(super) fn is_dropping(&self) -> bool {
        self.mode == Mode::Train && self.p != 0.0
    }

    /// The layer applied to `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Floats>(&self, x: &X) -> X::Owned {
        let x = &*entering(self, x.inner());
        let y = match self.is_dropping() {
            true => x.dropout(self.p),
            false => x.clone(),
        };
        hooked(self, X::Owned::like(y))
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

/// `x` with whole channels dropped: all elements of its last axes, `of_channel` of them, share one
/// fate.
#[track_caller]
fn drop_channels(x: &DynTensor, p: f64, of_channel: usize) -> DynTensor {
    let shape = x.shape();
    let lead = shape.rank().saturating_sub(of_channel);
    let mut each = x.detach();
    for axis in lead..shape.rank() {
        each = each.narrow(axis as i64, 0, 1);
    }
    x * each.ones_like().dropout(p)
}

macro_rules! of_channels {
    ($($(#[$doc:meta])+ $name:ident $of_channel:literal;)+) => { $(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(Dropout);

        impl $name {
            /// A layer with this probability for each channel, in training.
            #[must_use]
            pub fn new(p: f64) -> Self {
                $name(Dropout::new(p))
            }
        }

        #[diagnostic::do_not_recommend]
        impl Init for $name {
            fn init() -> Self {
                $name(Dropout::init())
            }
        }

        #[diagnostic::do_not_recommend]
        impl Module for $name {
            fn describe(&self) -> String {
                format!("{}({})", stringify!($name), self.0.p)
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
            fn set_mode(&mut self, mode: Mode) {
                self.0.set_mode(mode);
            }
        }

        impl<X: Floats> Forward<X> for $name {
            type Out = X::Owned;
            #[track_caller]
            fn forward(&self, x: &X) -> X::Owned {
                let x = &*entering(self, x.inner());
                let y = match self.0.is_dropping() {
                    true => drop_channels(x, self.0.p, $of_channel),
                    false => x.clone(),
                };
                hooked(self, X::Owned::like(y))
            }
        }
    )+ };
}

of_channels! {
    /// [`Dropout`] of whole channels of lines, `[batch, channels, length]`.
    Dropout1d 1;
    /// [`Dropout`] of whole channels of images, `[batch, channels, height, width]`.
    Dropout2d 2;
    /// [`Dropout`] of whole channels of volumes, `[batch, channels, depth, height, width]`.
    Dropout3d 3;
}
