//! `Lora`: a linear layer that stays as it is, and a product of two small matrices that learns in
//! its place (Hu et al. 2022), with the names of Hugging Face's `peft`.

use super::conv::uniform;
use super::dropout::Dropout;
use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::init::{fault, unless};
use super::layers::Linear;
use super::module::{Mode, Module, Visitor};
use crate::core::DynTensor;
use crate::error::Result;
use crate::no_grad::NoGrad;
use crate::typed::{Dim, Dyn, Features, Sealed as _};

/// How large the matrices of a [`Lora`] are, and how much they count. The defaults are `peft`'s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoraConfig {
    /// Columns of the one and rows of the other.
    pub rank: usize,
    /// Their product counts `alpha / rank` times.
    pub alpha: f64,
    /// The probability that an element of the input is dropped on its way to them in training.
    pub dropout: f64,
}

impl Default for LoraConfig {
    fn default() -> Self {
        LoraConfig { rank: 8, alpha: 8.0, dropout: 0.0 }
    }
}

/// A frozen [`Linear`] and what it learns: `base(x) + alpha / rank * x A^T B^T`. At first `B` is
/// zeros, so the layer computes what its base does.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let base: Linear<N<64>, N<64>> = Linear::new(); // loaded from a file
/// let mut layer = Lora::over(base, LoraConfig { rank: 4, ..Default::default() });
/// let learns = layer.parameters().into_iter().filter(DynTensor::is_tracked); // A and B
/// let optimizer = AdamW::new(learns, AdamWConfig::default());
/// let x: T![Batch, 64] = Tensor::randn_with([8]);
/// let y: T![Batch, 64] = layer.forward(&x);
/// layer.merge()?; // as fast as the base now
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lora<I: Dim = Dyn, O: Dim = Dyn> {
    /// The layer that stays as it is.
    pub base_layer: Linear<I, O>,
    /// `A`, `[rank, I]`: drawn at random at first.
    pub lora_a: DynTensor,
    /// `B`, `[O, rank]`: zeros at first.
    pub lora_b: DynTensor,
    /// Applied to the input on its way to `A`.
    pub dropout: Dropout,
    scale: f64,
    is_merged: bool,
}

impl<I: Dim, O: Dim> Lora<I, O> {
    /// What `base` is to learn, which is frozen with all handles of its parameters. A rank of 0 is
    /// the error of everything computed with it.
    #[must_use]
    #[track_caller]
    pub fn over(base: Linear<I, O>, how: LoraConfig) -> Self {
        base.requires_grad_(false);
        let (outputs, inputs) = (base.weight.size(0), base.weight.size(1));
        let fault = match how.rank {
            0 => fault("Lora: a rank of 0 learns nothing".to_owned(), "`rank` is 1 or more"),
            _ => None,
        };
        let drawn = uniform(&[how.rank, inputs], inputs).detach().to_dtype(base.weight.dtype());
        let zeros = base.weight.as_dyn().detach().narrow(1, 0, 1).zeros_like();
        let zeros = zeros.expand([outputs, how.rank]);
        Lora {
            lora_a: unless(fault.as_ref(), drawn.requires_grad()),
            lora_b: unless(fault.as_ref(), zeros.requires_grad()),
            dropout: Dropout::new(how.dropout),
            scale: how.alpha / how.rank.max(1) as f64,
            is_merged: false,
            base_layer: base,
        }
    }

    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<I, O>>(&self, x: &X) -> X::Out {
        let x = &*entering(self, x.inner());
        let base = self.base_layer.forward(x);
        if self.is_merged {
            return hooked(self, X::Out::like(base));
        }
        let inner = self.dropout.forward(x).matmul(&self.lora_a.t());
        let learned = inner.matmul(&self.lora_b.t()).mul(self.scale);
        hooked(self, X::Out::like(base + learned))
    }

    /// What the matrices add to the weight of the base.
    #[track_caller]
    fn learned(&self) -> DynTensor {
        let _untracked = NoGrad::enter();
        self.lora_b.matmul(&self.lora_a).mul(self.scale)
    }

    /// Whether the base's weight has what was learned in it.
    pub fn is_merged(&self) -> bool {
        self.is_merged
    }

    /// Adds what was learned to the base's weight, so that the layer costs what its base does. `A`
    /// and `B` stay, and take no part until [`Lora::unmerge`]. Merging twice is merging once.
    ///
    /// # Errors
    /// A parameter carries an error; nothing has changed then.
    #[track_caller]
    pub fn merge(&mut self) -> Result<()> {
        self.set_merged(true)
    }

    /// Takes what was learned out of the base's weight again, up to rounding.
    ///
    /// # Errors
    /// As [`Lora::merge`].
    #[track_caller]
    pub fn unmerge(&mut self) -> Result<()> {
        self.set_merged(false)
    }

    #[track_caller]
    fn set_merged(&mut self, merged: bool) -> Result<()> {
        if self.is_merged == merged {
            return Ok(());
        }
        let (weight, learned) = (self.base_layer.weight.as_dyn(), self.learned());
        let changed = if merged { weight.detach() + learned } else { weight.detach() - learned };
        if let Some(error) = changed.error() {
            return Err(error);
        }
        let _untracked = NoGrad::enter();
        weight.assign(&changed)?;
        self.is_merged = merged;
        Ok(())
    }

    /// The base with what was learned in its weight, ready to be trained or saved as any other.
    ///
    /// # Errors
    /// As [`Lora::merge`].
    #[track_caller]
    pub fn into_linear(mut self) -> Result<Linear<I, O>> {
        self.merge()?;
        self.base_layer.requires_grad_(true);
        Ok(self.base_layer)
    }
}

#[diagnostic::do_not_recommend]
impl<I: Dim, O: Dim> Module for Lora<I, O> {
    fn describe(&self) -> String {
        let (rank, inputs, outputs) =
            (self.lora_a.size(0), self.lora_a.size(-1), self.lora_b.size(0));
        format!("Lora({inputs} -> {outputs}, rank {rank})")
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("base_layer", &self.base_layer);
        visitor.child("lora_A.weight", &self.lora_a);
        visitor.child("lora_B.weight", &self.lora_b);
    }
    fn set_mode(&mut self, mode: Mode) {
        self.dropout.set_mode(mode);
    }
}

impl<I: Dim, O: Dim, X: Features<I, O>> Forward<X> for Lora<I, O> {
    type Out = X::Out;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Out {
        Lora::forward(self, x)
    }
}
