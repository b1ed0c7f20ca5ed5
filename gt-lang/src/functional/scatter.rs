//! `scatter_reduce`: what is sent to the same position becomes one number.

use gt_ir::{DType, OpError};

use crate::autograd::custom;
use crate::core::{DynTensor, resolve_axis};

/// What becomes of the elements that [`DynTensor::scatter_reduce`] sends to the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterReduce {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// Their mean; of integers it is rounded down.
    Mean,
    /// The largest, or NaN if one is. Equal largest elements share the gradient equally.
    Amax,
    /// The smallest, or NaN if one is. Equal smallest elements share the gradient equally.
    Amin,
}

impl ScatterReduce {
    /// Of two elements at each position.
    #[track_caller]
    fn of(self, x: &DynTensor, y: &DynTensor) -> DynTensor {
        match self {
            ScatterReduce::Sum | ScatterReduce::Mean => x.add(y),
            ScatterReduce::Prod => x.mul(y),
            ScatterReduce::Amax => x.maximum(y),
            ScatterReduce::Amin => x.minimum(y),
        }
    }
}

impl DynTensor {
    /// This tensor with the elements of `src` sent to the positions that `index` names along
    /// `axis`, and those at the same position reduced to one: PyTorch's `scatter_reduce`. `src` has
    /// the shape of `index` (`i64`), and this tensor's dtype. Positions may occur several times.
    /// With `include_self` what is there takes part; without, it is replaced. A position that is
    /// not named keeps what is there. A position out of range is an error of the next read.
    ///
    /// Products and extrema sort the index, and take as many steps as its size has bits.
    #[must_use]
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        axis: i64,
        index: &DynTensor,
        src: &DynTensor,
        reduce: ScatterReduce,
        include_self: bool,
    ) -> DynTensor {
        if let Some(line) = self.line(axis) {
            let [index, src] = [index, src].map(|x| x.line(0).unwrap_or_else(|| x.clone()));
            return line.scatter_reduce(0, &index, &src, reduce, include_self).reshape(());
        }
        if let Err(error) = resolve_axis("scatter_reduce", axis, &self.ty()) {
            return self.record_with(|_| Err(error));
        }
        if let Some(error) = self.misfit(index, src) {
            return self.record_with(|_| Err(error));
        }
        let scattered = Scattered { axis, index: index.detach(), include_self };
        match reduce {
            ScatterReduce::Sum => scattered.sum(self, src),
            ScatterReduce::Mean => scattered.mean(self, src),
            ScatterReduce::Prod => scattered.fold(reduce, self, src),
            ScatterReduce::Amax | ScatterReduce::Amin => {
                let forward = scattered.clone();
                custom(
                    &[self, src],
                    move |x| forward.fold(reduce, &x[0], &x[1]),
                    move |x, y, grad| scattered.shared(x, y, grad),
                )
            }
        }
    }
}

impl DynTensor {
    /// Why these are no source and no index of it for this tensor. Errors of them are told by what
    /// uses them.
    fn misfit(&self, index: &DynTensor, src: &DynTensor) -> Option<OpError> {
        if [self, index, src].iter().any(|x| x.error().is_some()) {
            return None;
        }
        if self.dtype() != src.dtype() {
            let types = (src.ty(), self.ty());
            let message =
                format!("scatter_reduce: the source {} and {} differ in dtype", types.0, types.1);
            return Some(OpError::new(message).hint("cast one of them"));
        }
        let is_alike = index.shape().same_sizes(&src.shape());
        (!is_alike).then(|| {
            let types = (index.ty(), src.ty());
            let message =
                format!("scatter_reduce: index {} and source {} differ in shape", types.0, types.1);
            OpError::new(message).hint("cut the source to what the index sends")
        })
    }
}

/// Where elements go.
#[derive(Clone)]
struct Scattered {
    axis: i64,
    index: DynTensor,
    include_self: bool,
}

impl Scattered {
    /// What takes part of the tensor itself, and `neutral` elsewhere.
    #[track_caller]
    fn own(&self, base: &DynTensor, neutral: i64) -> DynTensor {
        match self.include_self {
            true => base.clone(),
            false => self.counts(base, 0).gt(0).where_(&base.detach().full_like(neutral), base),
        }
    }

    /// How many elements go to each position, and `first`.
    #[track_caller]
    fn counts(&self, base: &DynTensor, first: i64) -> DynTensor {
        let start = base.detach().full_like(first).to_dtype(DType::I64);
        start.scatter_add(self.axis, &self.index, &self.index.ones_like())
    }

    #[track_caller]
    fn sum(&self, base: &DynTensor, src: &DynTensor) -> DynTensor {
        self.own(base, 0).scatter_add(self.axis, &self.index, src)
    }

    #[track_caller]
    fn mean(&self, base: &DynTensor, src: &DynTensor) -> DynTensor {
        let sum = self.sum(base, src);
        let counts = self.counts(base, i64::from(self.include_self)).clamp_min(1);
        if sum.dtype().is_float() {
            return &sum / counts.to_dtype(sum.dtype());
        }
        let whole = &sum - sum.remainder(&counts.to_dtype(sum.dtype()));
        (whole.to_dtype(DType::F64) / counts).to_dtype(sum.dtype())
    }

    /// Elements are sorted by where they go. Each takes in the one before it that goes there too,
    /// then the one two before, and so on, so that the last one has them all.
    #[track_caller]
    fn fold(&self, reduce: ScatterReduce, base: &DynTensor, src: &DynTensor) -> DynTensor {
        if base.dtype() == DType::Bool {
            let [base, src] = [base, src].map(|x| x.to_dtype(DType::U8));
            return self.fold(reduce, &base, &src).to_dtype(DType::Bool);
        }
        let (axis, n) = (self.axis, self.index.size(self.axis));
        if n == 0 {
            return base.scatter_add(axis, &self.index, src);
        }
        let order = self.index.argsort(axis, false);
        let place = self.index.gather(axis, &order);
        let mut value = src.gather(axis, &order);
        let part = |x: &DynTensor, from: usize, n: usize| x.narrow(axis, from as i64, n);
        let mut apart = 1;
        while apart < n {
            let early = |x: &DynTensor| part(x, 0, n - apart);
            let late = |x: &DynTensor| part(x, apart, n - apart);
            let joined = reduce.of(&early(&value), &late(&value));
            let joined = early(&place).eq(&late(&place)).where_(&joined, &late(&value));
            value = DynTensor::cat([part(&value, 0, apart), joined], axis);
            apart *= 2;
        }
        // The others go behind the end.
        let size = base.size(axis);
        let next = DynTensor::cat([part(&place, 1, n - 1), part(&place, 0, 1).full_like(-1)], axis);
        let place = place.ne(&next).where_(&place, size as i64);
        let mut pads = vec![(0, 0); base.rank()];
        if let Ok(at) = resolve_axis("scatter_reduce", axis, &base.ty()) {
            pads[at] = (0, 1);
        }
        // A sum with minus zero leaves zeros their sign.
        let none = base.detach().full_like(-0.0).pad(&pads, -0.0);
        let reduced = part(&none.scatter_add(axis, &place, &value), 0, size);
        let all = if self.include_self { reduce.of(base, &reduced) } else { reduced };
        self.counts(base, 0).gt(0).where_(&all, base)
    }

    /// The gradients of extrema.
    #[track_caller]
    fn shared(&self, x: &[DynTensor], y: &DynTensor, grad: &DynTensor) -> Vec<Option<DynTensor>> {
        let [base, src] = x else { return vec![None; x.len()] };
        let (axis, index, dtype) = (self.axis, &self.index, grad.dtype());
        let is_named = self.counts(base, 0).gt(0);
        let is_own = match self.include_self {
            true => base.eq(y),
            false => is_named.logical_not(),
        };
        let is_own = is_own.to_dtype(dtype);
        let is_source = src.eq(&y.gather(axis, index)).to_dtype(dtype);
        let share = grad / is_own.scatter_add(axis, index, &is_source);
        vec![Some(is_own * &share), Some(is_source * share.gather(axis, index))]
    }
}
