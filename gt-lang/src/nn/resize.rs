//! Layers without parameters that change the sizes of images and volumes: pooling, upsampling, and
//! channels that become pixels.

use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::module::{Module, Visitor};
use crate::functional::{self, Interpolation, Pooling, Resize};
use crate::typed::{Dyn, Images, Resizes, ResizesVolumes, Sealed as _};

/// A part of a model without tensors, and what it makes of its input.
macro_rules! part {
    (
        $name:ident, $input:ident<$($dim:ident),*>,
        |$this:ident| $settings:expr, |$x:ident| $apply:expr
    ) => {
        #[diagnostic::do_not_recommend]
        impl Module for $name {
            fn describe(&$this) -> String {
                format!("{}({})", stringify!($name), $settings)
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
        }

        impl<X: $input<$($dim),*>> Forward<X> for $name {
            type Out = X::Out;
            #[track_caller]
            fn forward(&$this, x: &X) -> X::Out {
                let $x = &*entering($this, x.inner());
                hooked($this, X::Out::conforming(stringify!($name), $apply))
            }
        }
    };
}

macro_rules! pooling {
    ($($(#[$doc:meta])+ $name:ident $method:ident $n:literal $input:ident;)+) => { $(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub Pooling<$n>);

        impl $name {
            /// Windows of this size beside each other.
            #[must_use]
            pub fn of(size: [usize; $n]) -> Self {
                $name(Pooling::of(size))
            }
        }

        part! { $name, $input<>, |self| format!("{:?}", self.0.size), |x| {
            functional::$method(x, self.0)
        } }
    )+ };
}

pooling! {
    /// The largest element of each window of images.
    MaxPool2d max_pool2d 2 Resizes;
    /// The mean of each window of images.
    AvgPool2d avg_pool2d 2 Resizes;
    /// The largest element of each window of volumes, `[batch, channels, depth, height, width]`.
    MaxPool3d max_pool3d 3 ResizesVolumes;
    /// The mean of each window of volumes, `[batch, channels, depth, height, width]`.
    AvgPool3d avg_pool3d 3 ResizesVolumes;
}

/// The means of so many parts of images, whatever their size: [`functional::adaptive_avg_pool2d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveAvgPool2d(pub [usize; 2]);

part! { AdaptiveAvgPool2d, Resizes<>, |self| format!("{:?}", self.0), |x| {
    functional::adaptive_avg_pool2d(x, self.0)
} }

/// Images of another size: [`functional::interpolate`].
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::functional::{Interpolation, Resize};
/// dims! { Batch }
/// let x: T![Batch, 3, 8, 8] = Tensor::rand_with([4]);
/// let twice = Upsample { to: Resize::Scale([2.0; 2]), mode: Interpolation::Nearest };
/// let y: T![Batch, 3, 16, 16] = twice.forward(&x).assume();
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upsample {
    /// The size that they get.
    pub to: Resize,
    /// What the new elements are made of.
    pub mode: Interpolation,
}

part! { Upsample, Resizes<>, |self| format!("{:?}, {:?}", self.to, self.mode), |x| {
    functional::interpolate(x, self.to, self.mode)
} }

/// Channels as blocks of so many times so many pixels: [`functional::pixel_shuffle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelShuffle(pub usize);

part! { PixelShuffle, Images<Dyn, Dyn>, |self| self.0, |x| functional::pixel_shuffle(x, self.0) }

/// Blocks of so many times so many pixels as channels: [`functional::pixel_unshuffle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelUnshuffle(pub usize);

part! { PixelUnshuffle, Images<Dyn, Dyn>, |self| self.0, |x| {
    functional::pixel_unshuffle(x, self.0)
} }
