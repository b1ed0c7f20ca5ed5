//! `QuantizedLinear`: a linear layer whose weight is small integers.

use super::buffer::Buffer;
use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::layers::Linear;
use super::module::{Module, Visitor};
use crate::core::DynTensor;
use crate::error::Result;
use crate::functional::precision::biased;
use crate::quantized::{QuantizeConfig, Quantized};
use crate::typed::{Dim, Dyn, Features, Int, Sealed as _, Tensor};

/// A linear layer with a [`Quantized`] weight, for inference: it does not learn, but gradients flow
/// through it, so a [`Lora`](super::Lora) of one's own may stand beside it.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::quantized::QuantizeConfig;
/// let layer: Linear<N<4096>, N<4096>> = Linear::new(); // loaded from a file
/// let small = QuantizedLinear::of(&layer, QuantizeConfig::default())?;
/// let x: T![1, 4096] = Tensor::randn();
/// let y: T![1, 4096] = small.forward(&x);
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuantizedLinear<I: Dim = Dyn, O: Dim = Dyn> {
    /// The bias, if there is one.
    pub bias: Option<Tensor<(O,)>>,
    numbers: Buffer<(Dyn, Dyn, Dyn), Int>,
    scales: Buffer<(Dyn, Dyn)>,
    minima: Option<Buffer<(Dyn, Dyn)>>,
    is_packed: bool,
    inputs: std::marker::PhantomData<fn(I)>,
}

impl<I: Dim, O: Dim> QuantizedLinear<I, O> {
    /// A layer with the weight of another one, quantized, and a copy of its bias, which is frozen.
    ///
    /// # Errors
    /// As [`Quantized::of`].
    #[track_caller]
    pub fn of(layer: &Linear<I, O>, how: QuantizeConfig) -> Result<Self> {
        let weight = Quantized::of(layer.weight.as_dyn(), how)?;
        let bias = match &layer.bias {
            Some(bias) => {
                let bias = bias.detach().requires_grad();
                bias.requires_grad_(false)?;
                Some(bias)
            }
            None => None,
        };
        Ok(QuantizedLinear::from_parts(weight, bias))
    }

    /// A layer of these parts; the weight has outputs first.
    #[track_caller]
    pub fn from_parts(weight: Quantized, bias: Option<Tensor<(O,)>>) -> Self {
        let Quantized { numbers, scales, minima, is_packed } = weight;
        let of_groups = |x: DynTensor| Buffer::new(&Tensor::conform("QuantizedLinear", x));
        QuantizedLinear {
            bias,
            numbers: Buffer::new(&Tensor::conform("QuantizedLinear", numbers)),
            scales: of_groups(scales),
            minima: minima.map(of_groups),
            is_packed,
            inputs: std::marker::PhantomData,
        }
    }

    /// The weight, outputs first.
    pub fn weight(&self) -> Quantized {
        Quantized {
            numbers: self.numbers.get().into_dyn(),
            scales: self.scales.get().into_dyn(),
            minima: self.minima.as_ref().map(|minima| minima.get().into_dyn()),
            is_packed: self.is_packed,
        }
    }

    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<I, O>>(&self, x: &X) -> X::Out {
        let x = &*entering(self, x.inner());
        let product = self.weight().linear(x);
        let y = match &self.bias {
            Some(bias) => biased(&product, bias.as_dyn()),
            None => product,
        };
        hooked(self, X::Out::like(y))
    }
}

#[diagnostic::do_not_recommend]
impl<I: Dim, O: Dim> Module for QuantizedLinear<I, O> {
    fn describe(&self) -> String {
        let weight = self.weight();
        let [outputs, inputs] = weight.sizes();
        format!("QuantizedLinear({inputs} -> {outputs}, {} bits)", weight.bits())
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight.numbers", &self.numbers);
        visitor.child("weight.scales", &self.scales);
        if let Some(minima) = &self.minima {
            visitor.child("weight.minima", minima);
        }
        if let Some(bias) = &self.bias {
            visitor.child("bias", bias);
        }
    }
}

impl<I: Dim, O: Dim, X: Features<I, O>> Forward<X> for QuantizedLinear<I, O> {
    type Out = X::Out;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Out {
        QuantizedLinear::forward(self, x)
    }
}
