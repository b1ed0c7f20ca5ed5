//! `scatter_reduce`: what is sent to the same position becomes one number.

use gt_ir::{DType, Op, OpError, Scalar};

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
    /// What changes nothing that it meets.
    fn neutral(self, dtype: DType) -> Scalar {
        let least = match dtype {
            DType::I64 => i64::MIN,
            DType::I32 => i32::MIN.into(),
            DType::U8 | DType::Bool => 0,
            DType::F32 | DType::F64 | DType::Bf16 | DType::F16 => {
                return Scalar::F64(match self {
                    ScatterReduce::Sum | ScatterReduce::Mean => 0.0,
                    ScatterReduce::Prod => 1.0,
                    ScatterReduce::Amax => f64::NEG_INFINITY,
                    ScatterReduce::Amin => f64::INFINITY,
                });
            }
        };
        let most = match dtype {
            DType::U8 => u8::MAX.into(),
            DType::Bool => 1,
            _ => !least,
        };
        Scalar::I64(match self {
            ScatterReduce::Sum | ScatterReduce::Mean => 0,
            ScatterReduce::Prod => 1,
            ScatterReduce::Amax => least,
            ScatterReduce::Amin => most,
        })
    }
}

impl DynTensor {
    /// This tensor with the elements of `src` sent to the positions that `index` names along
    /// `axis`, and those at the same position reduced to one: PyTorch's `scatter_reduce`. `src` has
    /// the shape of `index` (`i64`), and this tensor's dtype. Positions may occur several times.
    /// With `include_self` what is there takes part; without, it is replaced. A position that is
    /// not named keeps what is there. A position out of range is an error of the next read.
    ///
    /// Products sort the index, and take as many steps as its size has bits. Extrema take one pass
    /// on a processor, and the same steps on a device.
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
        let is_extremum = matches!(reduce, ScatterReduce::Amax | ScatterReduce::Amin);
        if include_self || !is_extremum {
            return scattered.reduced(reduce, self, src);
        }
        let forward = scattered.clone();
        custom(
            &[self, src],
            move |x| forward.reduced(reduce, &x[0], &x[1]),
            move |x, y, grad| scattered.shared(x, y, grad),
        )
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
    /// What takes part of the tensor itself: `neutral` where elements go, if it takes no part.
    #[track_caller]
    fn own(&self, base: &DynTensor, neutral: Scalar) -> DynTensor {
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
    fn reduced(&self, reduce: ScatterReduce, base: &DynTensor, src: &DynTensor) -> DynTensor {
        let own = self.own(base, reduce.neutral(base.dtype()));
        let meet = |op| own.along(self.axis, op, &[&self.index, src]);
        match reduce {
            ScatterReduce::Sum => meet(Op::ScatterAdd),
            ScatterReduce::Mean => self.mean(&own, src),
            ScatterReduce::Prod => meet(Op::ScatterMul),
            ScatterReduce::Amax => meet(Op::ScatterMax),
            ScatterReduce::Amin => meet(Op::ScatterMin),
        }
    }

    /// The mean of elements and what takes part of the tensor itself.
    #[track_caller]
    fn mean(&self, own: &DynTensor, src: &DynTensor) -> DynTensor {
        let sum = own.scatter_add(self.axis, &self.index, src);
        let counts = self.counts(own, i64::from(self.include_self)).clamp_min(1);
        if sum.dtype().is_float() {
            return &sum / counts.to_dtype(sum.dtype());
        }
        let whole = &sum - sum.remainder(&counts.to_dtype(sum.dtype()));
        (whole.to_dtype(DType::F64) / counts).to_dtype(sum.dtype())
    }

    /// The gradients of extrema in which the tensor itself takes no part where elements go: not
    /// even one that equals them.
    #[track_caller]
    fn shared(&self, x: &[DynTensor], y: &DynTensor, grad: &DynTensor) -> Vec<Option<DynTensor>> {
        let [base, src] = x else { return vec![None; x.len()] };
        let (axis, index, dtype) = (self.axis, &self.index, grad.dtype());
        let is_own = self.counts(base, 0).eq(0).to_dtype(dtype);
        let is_source = src.eq(&y.gather(axis, index)).to_dtype(dtype);
        let share = grad / is_own.scatter_add(axis, index, &is_source);
        vec![Some(is_own * &share), Some(is_source * share.gather(axis, index))]
    }
}
