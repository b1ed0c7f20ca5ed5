//! Tables of rows that are looked up by index: `Embedding` and `EmbeddingBag`, with PyTorch's
//! names, layout and default initialization.

use gt_ir::{DType, OpError};

use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::init::{Init, parameter};
use super::module::{Module, Visitor};
use crate::core::DynTensor;
use crate::functional::ScatterReduce;
use crate::session::Session;
use crate::typed::{Bags, Dim, Dyn, Indices, Sealed as _, StaticDim, Tensor};

/// A parameter like another with zeros in one row.
#[track_caller]
fn without_row<V: Dim, D: Dim>(weight: &Tensor<(V, D)>, row: usize) -> Tensor<(V, D)> {
    let zeros = weight.as_dyn().detach().slice_assign(row as i64, 0.0);
    Tensor::wrap(zeros).requires_grad()
}

/// The rows that `index` names; no gradient flows into the one that stands for nothing.
#[track_caller]
fn looked_up(table: &DynTensor, index: &DynTensor, nothing: Option<usize>) -> DynTensor {
    match nothing {
        Some(row) => table.embedding_with_padding(index, row as i64),
        None => table.embedding(index),
    }
}

/// A table of `V` rows of width `D`, looked up by index.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Seq }
/// let table: Embedding<N<1000>, N<64>> = Embedding::new();
/// let words: T![Batch, Seq; Int] = Tensor::randint_with(0, 1000, [8, 16]);
/// let x: T![Batch, Seq, 64] = table.forward(&words);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Embedding<V: Dim = Dyn, D: Dim = Dyn> {
    /// The rows.
    pub weight: Tensor<(V, D)>,
    /// The row that stands for nothing, if there is one: no gradient flows into it.
    pub padding_idx: Option<usize>,
}

impl<V: Dim, D: Dim> Embedding<V, D> {
    /// A table of these rows, which become its parameter.
    #[track_caller]
    pub fn from_tensor(weight: Tensor<(V, D)>) -> Self {
        Embedding { weight: weight.requires_grad(), padding_idx: None }
    }

    /// A table whose sizes the types do not all know.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(rows: usize, width: usize) -> Self {
        let weight = parameter("Embedding", DynTensor::randn([rows, width], DType::F32));
        Embedding { weight, padding_idx: None }
    }

    /// This table with a row that stands for nothing: it becomes zeros and learns nothing.
    #[must_use]
    #[track_caller]
    pub fn with_padding_idx(self, row: usize) -> Self {
        Embedding { weight: without_row(&self.weight, row), padding_idx: Some(row) }
    }

    /// The rows that `index` names: one dimension more than the index has.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Indices<D>>(&self, index: &X) -> X::Out {
        let index = &*entering(self, index.inner());
        let rows = looked_up(self.weight.as_dyn(), index, self.padding_idx);
        hooked(self, X::Out::like(rows))
    }
}

#[diagnostic::do_not_recommend]
impl<V: StaticDim, D: StaticDim> Init for Embedding<V, D> {
    fn init() -> Self {
        Embedding::with_sizes(V::SIZE, D::SIZE)
    }
}

#[diagnostic::do_not_recommend]
impl<V: Dim, D: Dim> Module for Embedding<V, D> {
    fn describe(&self) -> String {
        match self.weight.sizes()[..] {
            [rows, width] => format!("Embedding({rows} x {width})"),
            _ => "Embedding".into(),
        }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
    }
}

impl<V: Dim, D: Dim, X: Indices<D>> Forward<X> for Embedding<V, D> {
    type Out = X::Out;
    #[track_caller]
    fn forward(&self, index: &X) -> X::Out {
        Embedding::forward(self, index)
    }
}

/// The numbers up to `n`, in the session of `index`.
#[track_caller]
fn numbers(index: &DynTensor, n: usize) -> DynTensor {
    let session = index.session();
    let _entered = session.as_ref().map(Session::enter);
    DynTensor::arange(0, n as i64, 1, DType::I64)
}

/// What an [`EmbeddingBag`] makes of the rows of a bag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean: PyTorch's default.
    #[default]
    Mean,
    /// The largest of each column.
    Max,
}

/// A table of `V` rows of width `D`, of which bags are looked up: each gives one row, and an empty
/// one zeros.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::nn::{BagMode, EmbeddingBag};
/// dims! { Batch, Words }
/// let table: EmbeddingBag<N<1000>, N<64>> = EmbeddingBag::new();
/// let words: T![Batch, Words; Int] = Tensor::randint_with(0, 1000, [8, 16]);
/// let x: T![Batch, 64] = table.with_mode(BagMode::Sum).forward(&words);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmbeddingBag<V: Dim = Dyn, D: Dim = Dyn> {
    /// The rows.
    pub weight: Tensor<(V, D)>,
    /// What becomes of the rows of a bag.
    pub mode: BagMode,
    /// The row that counts in no bag, if there is one.
    pub padding_idx: Option<usize>,
}

impl<V: Dim, D: Dim> EmbeddingBag<V, D> {
    /// A table of these rows, which become its parameter.
    #[must_use]
    #[track_caller]
    pub fn from_tensor(weight: Tensor<(V, D)>) -> Self {
        let mode = BagMode::default();
        EmbeddingBag { weight: weight.requires_grad(), mode, padding_idx: None }
    }

    /// A table whose sizes the types do not all know.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(rows: usize, width: usize) -> Self {
        let weight = parameter("EmbeddingBag", DynTensor::randn([rows, width], DType::F32));
        EmbeddingBag { weight, mode: BagMode::default(), padding_idx: None }
    }

    /// This table with something else made of the rows.
    #[must_use]
    pub fn with_mode(self, mode: BagMode) -> Self {
        EmbeddingBag { mode, ..self }
    }

    /// This table with a row that counts in no bag: it becomes zeros and learns nothing.
    #[must_use]
    #[track_caller]
    pub fn with_padding_idx(self, row: usize) -> Self {
        let weight = without_row(&self.weight, row);
        EmbeddingBag { weight, padding_idx: Some(row), ..self }
    }

    /// What becomes of bags of the same length, `[batch, length]`: `[batch, D]`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Bags<D>>(&self, index: &X) -> X::Out {
        let index = &*entering(self, index.inner());
        let (n, length) = (index.size(0), index.size(-1));
        let bags = numbers(index, n).repeat_interleave(length, 0);
        let y = self.bags(&index.flatten(0, -1), &bags, n, None);
        hooked(self, X::Out::conforming("embedding_bag", y))
    }

    /// What becomes of bags that lie behind each other in `index`, `[indices]`, of which
    /// `offsets`, `[bags]`, says where each begins: `[bags, D]`. With `weights`, `[indices]`, each
    /// row counts so many times; then the mode is a sum.
    #[must_use]
    #[track_caller]
    pub fn forward_offsets(
        &self,
        index: &DynTensor,
        offsets: &DynTensor,
        weights: Option<&DynTensor>,
    ) -> DynTensor {
        if weights.is_some() && self.mode != BagMode::Sum {
            let mode = self.mode;
            return index.record_with(|_| {
                let error = OpError::new(format!("embedding_bag: weights with the mode {mode:?}"));
                Err(error.hint("weights go with `BagMode::Sum`"))
            });
        }
        let index = &*entering(self, index);
        let places = numbers(index, index.numel());
        let bags = offsets.searchsorted(&places, true).sub(1);
        hooked(self, self.bags(index, &bags, offsets.numel(), weights))
    }

    /// `n` bags of the rows that `index` names, each of which is in the bag that `bags` names.
    #[track_caller]
    fn bags(
        &self,
        index: &DynTensor,
        bags: &DynTensor,
        n: usize,
        weights: Option<&DynTensor>,
    ) -> DynTensor {
        let mut rows = looked_up(self.weight.as_dyn(), index, self.padding_idx);
        if let Some(weights) = weights {
            rows *= weights.unsqueeze(-1);
        }
        let counts = match self.padding_idx {
            Some(row) => index.ne(row as i64),
            None => index.eq(index),
        };
        let counts = counts.unsqueeze(-1);
        let nothing = self.weight.as_dyn().detach().narrow(0, 0, 1).zeros_like();
        let nothing = nothing.expand([n, self.weight.size(-1)]);
        if self.mode == BagMode::Max {
            let least = nothing.sub(f64::INFINITY);
            let rows = counts.where_(&rows, f64::NEG_INFINITY);
            let place = bags.unsqueeze(-1).expand(rows.sizes());
            let most = least.scatter_reduce(0, &place, &rows, ScatterReduce::Amax, true);
            let empty = most.detach().eq(f64::NEG_INFINITY);
            return empty.where_(0.0, &most);
        }
        let sums = nothing.index_add(0, bags, &counts.where_(&rows, 0.0));
        if self.mode == BagMode::Sum {
            return sums;
        }
        let counts = counts.to_dtype(sums.dtype());
        let each = nothing.narrow(1, 0, 1).index_add(0, bags, &counts);
        sums / each.clamp_min(1.0)
    }
}

#[diagnostic::do_not_recommend]
impl<V: StaticDim, D: StaticDim> Init for EmbeddingBag<V, D> {
    fn init() -> Self {
        EmbeddingBag::with_sizes(V::SIZE, D::SIZE)
    }
}

#[diagnostic::do_not_recommend]
impl<V: Dim, D: Dim> Module for EmbeddingBag<V, D> {
    fn describe(&self) -> String {
        match self.weight.sizes()[..] {
            [rows, width] => format!("EmbeddingBag({rows} x {width}, {:?})", self.mode),
            _ => "EmbeddingBag".into(),
        }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
    }
}

impl<V: Dim, D: Dim, X: Bags<D>> Forward<X> for EmbeddingBag<V, D> {
    type Out = X::Out;
    #[track_caller]
    fn forward(&self, index: &X) -> X::Out {
        EmbeddingBag::forward(self, index)
    }
}
