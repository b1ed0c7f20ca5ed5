//! Convolutions as layers: `Conv1d`, `Conv2d`, `Conv3d`, `ConvTranspose1d`, `ConvTranspose2d`.
//!
//! Guarantees: weights have PyTorch's layout, names and default initialization. Sizes of kernels
//! are numbers, not types, so heights and widths are run-time sizes afterwards; whether the
//! channels fit is checked by the compiler.

use std::marker::PhantomData;

use gt_ir::DType;

use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::init::{fault, other_sizes, unless};
use super::module::{Module, Visitor};
use crate::core::DynTensor;
use crate::error::Error;
use crate::functional::{self, Convolution};
use crate::typed::{Dim, Dyn, Images, Lines, Sealed as _, StaticDim, Volumes};

/// A parameter drawn uniformly from `±1/sqrt(fan_in)`: what PyTorch's `kaiming_uniform_(a=sqrt(5))`
/// comes to.
#[track_caller]
pub(super) fn uniform(sizes: &[usize], fan_in: usize) -> DynTensor {
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    DynTensor::uniform(-bound, bound, sizes, DType::F32).detach().requires_grad()
}

/// Why there is no convolution of these channels and this kernel.
#[track_caller]
fn unfit<const N: usize>(
    name: &str,
    channels: [usize; 2],
    kernel: &[usize],
    how: Convolution<N>,
) -> Option<Error> {
    let [inputs, outputs] = channels;
    let groups = how.groups;
    if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
        let message = format!(
            "{name}: {inputs} channels in and {outputs} out cannot be divided into {groups} groups"
        );
        return fault(message, "the number of groups divides both; 1 always does");
    }
    let positive = [
        ("a kernel", kernel),
        ("a stride", &how.stride[N - kernel.len()..]),
        ("a dilation", &how.dilation[N - kernel.len()..]),
    ];
    let (what, sizes) = positive.into_iter().find(|(_, sizes)| sizes.contains(&0))?;
    fault(format!("{name}: {what} of {sizes:?} makes no window"), "each number is 1 or more")
}

/// How many channels go in and come out, by a convolution's weight.
fn forwards(weight: &DynTensor, groups: usize) -> [usize; 2] {
    [weight.size(1) * groups, weight.size(0)]
}

/// In and out channels of the kernels of a transposed convolution.
fn backwards(weight: &DynTensor, groups: usize) -> [usize; 2] {
    [weight.size(0), weight.size(1) * groups]
}

macro_rules! convolution {
    (
        $(#[$doc:meta])+
        $name:ident, $function:path, $channels:path, $how:ty, $kernel:ty,
        $input:ident, $sizes:expr
    ) => {
        $(#[$doc])+
        #[non_exhaustive]
        pub struct $name<I: Dim = Dyn, O: Dim = Dyn> {
            /// The kernels.
            pub weight: DynTensor,
            /// A number for each out channel, if there are any.
            pub bias: Option<DynTensor>,
            /// Stride, padding, dilation and groups.
            pub how: $how,
            channels: PhantomData<fn() -> (I, O)>,
        }

        impl<I: StaticDim, O: StaticDim> $name<I, O> {
            /// A layer with kernels of this size, and a bias. What does not fit each other is the
            /// error of everything computed with it.
            #[must_use]
            #[track_caller]
            pub fn with_kernel(kernel: $kernel, how: $how) -> Self {
                $name::with_sizes(I::SIZE, O::SIZE, kernel, how)
            }
        }

        impl<I: Dim, O: Dim> $name<I, O> {
            /// A layer of so many channels in and out, with kernels of this size, and a bias. What
            /// does not fit each other or the types is the error of everything computed with it.
            #[must_use]
            #[track_caller]
            pub fn with_sizes(
                inputs: usize,
                outputs: usize,
                kernel: $kernel,
                how: $how,
            ) -> Self {
                let sizes: Vec<usize> = $sizes(inputs, outputs, how.groups.max(1), kernel);
                let fan_in = sizes[1..].iter().product();
                let name = stringify!($name);
                let unfit = unfit(name, [inputs, outputs], &sizes[2..], how)
                    .or(other_sizes(name, &[(I::SPEC, inputs), (O::SPEC, outputs)]));
                let weight = unless(unfit.as_ref(), uniform(&sizes, fan_in));
                let bias = Some(unless(unfit.as_ref(), uniform(&[outputs], fan_in)));
                $name { weight, bias, how, channels: PhantomData }
            }

            /// This layer without its bias.
            #[must_use]
            pub fn without_bias(self) -> Self {
                $name { bias: None, ..self }
            }

            /// A layer of these tensors, which become its parameters; what does not fit is an error
            /// of `forward`.
            #[must_use]
            #[track_caller]
            pub fn from_tensors(
                weight: &DynTensor,
                bias: Option<&DynTensor>,
                how: $how,
            ) -> Self {
                let bias = bias.map(DynTensor::requires_grad);
                $name { weight: weight.requires_grad(), bias, how, channels: PhantomData }
            }

            /// The layer applied to `x`.
            #[must_use]
            #[track_caller]
            pub fn forward<X: $input<I, O>>(&self, x: &X) -> X::Out {
                let x = &*entering(self, x.inner());
                let y = $function(x, &self.weight, self.bias.as_ref(), self.how);
                hooked(self, X::Out::conforming(stringify!($name), y))
            }
        }

        #[diagnostic::do_not_recommend]
        impl<I: Dim, O: Dim> Module for $name<I, O> {
            fn describe(&self) -> String {
                let [inputs, outputs] = $channels(&self.weight, self.how.groups);
                let shape = self.weight.shape();
                let kernel = shape.sizes().get(2..).unwrap_or_default();
                format!("{}({inputs} x {outputs}, kernel {kernel:?})", stringify!($name))
            }
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.child("weight", &self.weight);
                visitor.child("bias", &self.bias);
            }
        }

        impl<I: Dim, O: Dim, X: $input<I, O>> Forward<X> for $name<I, O> {
            type Out = X::Out;
            #[track_caller]
            fn forward(&self, x: &X) -> X::Out {
                $name::forward(self, x)
            }
        }

        impl<I: Dim, O: Dim> Clone for $name<I, O> {
            fn clone(&self) -> Self {
                let (weight, bias) = (self.weight.clone(), self.bias.clone());
                $name { weight, bias, how: self.how, channels: PhantomData }
            }
        }

        impl<I: Dim, O: Dim> std::fmt::Debug for $name<I, O> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.describe())
            }
        }
    };
}

convolution! {
    /// Convolution over lines `[batch, I, length]`; kernels are `[O, I / groups, length]`.
    Conv1d, functional::conv1d, forwards, Convolution, usize, Lines,
    |inputs: usize, outputs: usize, groups: usize, kernel: usize| {
        vec![outputs, inputs / groups, kernel]
    }
}
convolution! {
    /// Convolution over images `[batch, I, height, width]`; kernels are `[O, I / groups, height,
    /// width]`.
    Conv2d, functional::conv2d, forwards, Convolution, [usize; 2], Images,
    |inputs: usize, outputs: usize, groups: usize, [tall, broad]: [usize; 2]| {
        vec![outputs, inputs / groups, tall, broad]
    }
}
convolution! {
    /// Convolution over volumes `[batch, I, depth, height, width]`; kernels are `[O, I / groups,
    /// depth, height, width]`.
    Conv3d, functional::conv3d, forwards, Convolution<3>, [usize; 3], Volumes,
    |inputs: usize, outputs: usize, groups: usize, kernel: [usize; 3]| {
        [vec![outputs, inputs / groups], kernel.to_vec()].concat()
    }
}
convolution! {
    /// The transpose of a convolution over lines, which makes them longer; kernels are `[I, O /
    /// groups, length]`.
    ConvTranspose1d, functional::conv_transpose1d, backwards, Convolution, usize, Lines,
    |inputs: usize, outputs: usize, groups: usize, kernel: usize| {
        vec![inputs, outputs / groups, kernel]
    }
}
convolution! {
    /// The transpose of a convolution over images, which makes them larger; kernels are `[I, O /
    /// groups, height, width]`.
    ConvTranspose2d, functional::conv_transpose2d, backwards, Convolution, [usize; 2], Images,
    |inputs: usize, outputs: usize, groups: usize, [tall, broad]: [usize; 2]| {
        vec![inputs, outputs / groups, tall, broad]
    }
}
