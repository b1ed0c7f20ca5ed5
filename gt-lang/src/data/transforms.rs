//! Transforms of images in batches `[batch, channels, height, width]`, as `torchvision.transforms`
//! names them.
//!
//! They are recorded operations: they run on the worker, beside the training step and as part of
//! its plan, and not on the threads of a loader. A random transform draws for each image by itself,
//! from the session's generator, so that [`manual_seed`](crate::manual_seed) repeats it. They are
//! steps of [`seq!`](gt_macros::seq).
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! # use gt::prelude::*;
//! use gt::data::transforms::*;
//!
//! let images = DynTensor::randint(0, 256, [32, 3, 40, 40], DType::U8);
//! let x = seq!(&images => ToFloat, RandomCrop::new([32, 32]).padding(4),
//!     RandomHorizontalFlip(0.5), Normalize::new([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]));
//! assert_eq!(x.ty().to_string(), "f32[32,3,32,32]");
//! ```

use gt_ir::{DType, OpError};

use crate::core::DynTensor;
use crate::functional::upsample_bilinear2d;
use crate::nn::Forward;
use crate::session::Session;

macro_rules! steps {
    ($($name:ident)+) => { $(
        impl Forward<DynTensor> for $name {
            type Out = DynTensor;
            #[track_caller]
            fn forward(&self, x: &DynTensor) -> DynTensor {
                self.apply(x)
            }
        }
        impl Forward<&DynTensor> for $name {
            type Out = DynTensor;
            #[track_caller]
            fn forward(&self, x: &&DynTensor) -> DynTensor {
                self.apply(x)
            }
        }
    )+ };
}
steps! { ToFloat Normalize Resize CenterCrop RandomCrop RandomHorizontalFlip RandomVerticalFlip }

/// Bytes 0 to 255 as `f32` from 0 to 1. Floats stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToFloat;

impl ToFloat {
    #[track_caller]
    fn apply(self, x: &DynTensor) -> DynTensor {
        if x.dtype().is_float() {
            return x.clone();
        }
        x.to_dtype(DType::F32).div(255.0)
    }
}

/// Subtracts a mean and divides by a standard deviation, one of each for each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalize {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl Normalize {
    /// By these numbers, in the units of the images.
    pub fn new(mean: impl Into<Vec<f64>>, std: impl Into<Vec<f64>>) -> Normalize {
        Normalize { mean: mean.into(), std: std.into() }
    }

    #[track_caller]
    fn apply(&self, x: &DynTensor) -> DynTensor {
        let n = x.size(-3);
        if self.mean.len() != n || self.std.len() != n || !x.dtype().is_float() {
            let (means, stds) = (self.mean.len(), self.std.len());
            return x.record_with(|ty| {
                let what = format!("normalize: {means} means and {stds} deviations for {ty}");
                Err(OpError::new(what).hint(
                    "it takes floats `[.., channels, height, width]` and one of each for each \
                     channel; `ToFloat` makes floats of bytes",
                ))
            });
        }
        let session = x.session();
        let _entered = session.as_ref().map(Session::enter);
        let of =
            |numbers: &[f64]| DynTensor::from_vec(numbers.to_vec(), [n, 1, 1]).to_dtype(x.dtype());
        x.sub(&of(&self.mean)).div(&of(&self.std))
    }
}

/// Another height and width, between the pixels ([`upsample_bilinear2d`]). Made smaller, nothing is
/// averaged: PyTorch's `antialias=False`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize(pub [usize; 2]);

impl Resize {
    #[track_caller]
    fn apply(self, x: &DynTensor) -> DynTensor {
        upsample_bilinear2d(x, self.0)
    }
}

/// This height and width from the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CenterCrop(pub [usize; 2]);

impl CenterCrop {
    #[track_caller]
    fn apply(self, x: &DynTensor) -> DynTensor {
        let CenterCrop([height, width]) = self;
        if let Some(error) = too_large("center_crop", x, self.0) {
            return error;
        }
        // As PyTorch rounds.
        let start = |whole: usize, part: usize| ((whole - part) as f64 / 2.0).round_ties_even();
        let (top, left) = (start(x.size(-2), height) as i64, start(x.size(-1), width) as i64);
        x.narrow(-2, top, height).narrow(-1, left, width)
    }
}

/// This height and width, from another random place of each image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomCrop {
    size: [usize; 2],
    padding: usize,
}

impl RandomCrop {
    /// Height and width.
    pub fn new(size: [usize; 2]) -> RandomCrop {
        RandomCrop { size, padding: 0 }
    }

    /// Puts so many zeros on each side of the images before.
    #[must_use]
    pub fn padding(self, padding: usize) -> RandomCrop {
        RandomCrop { padding, ..self }
    }

    #[track_caller]
    fn apply(self, x: &DynTensor) -> DynTensor {
        if let Some(error) = not_images("random_crop", x) {
            return error;
        }
        let side = (self.padding as i64, self.padding as i64);
        let x = x.pad([(0, 0), (0, 0), side, side], 0);
        if let Some(error) = too_large("random_crop", &x, self.size) {
            return error;
        }
        moved(&moved(&x, 2, self.size[0]), 3, self.size[1])
    }
}

/// So many elements of an axis of images, from another random place of each.
#[track_caller]
fn moved(x: &DynTensor, axis: usize, size: usize) -> DynTensor {
    let session = x.session();
    let _entered = session.as_ref().map(Session::enter);
    let mut sizes = x.sizes();
    let last = (sizes[axis] - size) as i64;
    let starts = DynTensor::randint(0, last + 1, [sizes[0], 1, 1, 1], DType::I64);
    let mut along = [1; 4];
    along[axis] = size as i64;
    let places = starts.add(&DynTensor::arange(0, size as i64, 1, DType::I64).reshape(along));
    sizes[axis] = size;
    x.gather(axis as i64, &places.expand(&sizes))
}

/// Each image mirrored left to right with this probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomHorizontalFlip(pub f64);

impl RandomHorizontalFlip {
    #[track_caller]
    fn apply(self, x: &DynTensor) -> DynTensor {
        flipped("random_horizontal_flip", x, -1, self.0)
    }
}

/// Each image turned upside down with this probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomVerticalFlip(pub f64);

impl RandomVerticalFlip {
    #[track_caller]
    fn apply(self, x: &DynTensor) -> DynTensor {
        flipped("random_vertical_flip", x, -2, self.0)
    }
}

#[track_caller]
fn flipped(what: &str, x: &DynTensor, axis: i64, p: f64) -> DynTensor {
    if let Some(error) = not_images(what, x) {
        return error;
    }
    let session = x.session();
    let _entered = session.as_ref().map(Session::enter);
    let turned = DynTensor::rand([x.size(0), 1, 1, 1], DType::F32).lt(p);
    turned.where_(&x.flip(axis), x)
}

/// The error of what draws for each image, unless there are images.
#[track_caller]
fn not_images(what: &str, x: &DynTensor) -> Option<DynTensor> {
    if x.rank() == 4 {
        return None;
    }
    Some(x.record_with(|ty| {
        Err(OpError::new(format!("{what}: takes images, but got {ty}"))
            .hint("images are `[batch, channels, height, width]`; `unsqueeze(0)` makes a batch"))
    }))
}

/// The error of a part that is larger than the whole.
#[track_caller]
fn too_large(what: &str, x: &DynTensor, [height, width]: [usize; 2]) -> Option<DynTensor> {
    if x.rank() >= 2 && height <= x.size(-2) && width <= x.size(-1) {
        return None;
    }
    Some(x.record_with(|ty| {
        Err(OpError::new(format!("{what}: {height} by {width} elements of {ty}"))
            .hint("pad or resize the images before"))
    }))
}
