//! A compiled region: its steps, the buffers between them, and what it takes and gives.

use std::sync::Arc;

use gt_ir::{DType, Op, Scalar, Type};
use smallvec::SmallVec;

use crate::{
    engine::{EngineError, Value},
    kernel::{Access, Binary, Kernel, Nest},
};

/// A compiled region, shared by clones. Its machine code is freed with the last of them.
#[derive(Clone)]
pub struct Program(Arc<Plan>);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} steps)", self.0.steps.len())
    }
}

impl Program {
    pub(super) fn new(mut plan: Plan, kernels: Vec<Kernel>) -> Program {
        let mut kernels = kernels.into_iter();
        for step in &mut plan.steps {
            if let Work::Kernel(k) = &mut step.work {
                k.kernel = kernels.next();
            }
        }
        Program(Arc::new(plan))
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.0
    }

    /// Number of steps a run takes: kernels, matrix products and routines.
    pub fn n_steps(&self) -> usize {
        self.0.steps.len()
    }

    /// Number of kernels among the steps.
    pub fn n_kernels(&self) -> usize {
        self.0.nests().count()
    }
}

/// Names a buffer of a plan; inputs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferId(pub(super) u32);

/// The steps of a region, in order.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) inputs: Vec<Type>,
    pub(super) n_scalars: usize,
    pub(super) outputs: SmallVec<[(BufferId, Type); 1]>,
    /// Bytes of each buffer.
    pub(super) buffers: Vec<usize>,
    pub(super) steps: Vec<Step>,
}

/// One step, and the buffers no later step needs.
pub(super) struct Step {
    pub(super) work: Work,
    pub(super) frees: SmallVec<[BufferId; 2]>,
}

/// Where the bits of a scalar argument come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScalarArg {
    /// The k-th scalar of the call, in this dtype.
    Slot(u32, DType),
    /// These bits.
    Bits(u64),
}

/// What a step does.
pub(super) enum Work {
    Kernel(Box<KernelStep>),
    MatMul(Box<MatMul>),
    Routine(Box<Routine>),
}

/// One run of a kernel.
pub(super) struct KernelStep {
    pub(super) nest: Nest,
    /// Filled in once the code exists.
    pub(super) kernel: Option<Kernel>,
    pub(super) buffers: SmallVec<[BufferId; 4]>,
    pub(super) scalars: SmallVec<[ScalarArg; 2]>,
    /// Iterations of the split parallel loop in one task.
    pub(super) parallel_chunk: usize,
    /// Whether the result is larger than caches and goes past them.
    pub(super) streams: bool,
    /// Iterations of the split reduce loop in one task, when the reduction is done in pieces.
    pub(super) partials: Option<Partials>,
}

/// A reduction in pieces whose results are folded afterwards.
pub(super) struct Partials {
    pub(super) chunk: usize,
    pub(super) n_chunks: usize,
    pub(super) op: Binary,
    /// Of the pieces.
    pub(super) dtype: DType,
    /// Of the result.
    pub(super) out_dtype: DType,
    pub(super) out: BufferId,
}

/// A strided operand of a matrix product; batch strides come first.
pub(super) struct Matrix {
    pub(super) buffer: BufferId,
    pub(super) access: Access,
}

/// `out[b] = lhs[b] * rhs[b]`.
pub(super) struct MatMul {
    pub(super) dtype: DType,
    pub(super) batch: SmallVec<[usize; 6]>,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) lhs: Matrix,
    pub(super) rhs: Matrix,
    pub(super) out: BufferId,
}

/// A step in plain Rust.
pub(super) struct Routine {
    pub(super) op: Op,
    pub(super) inputs: SmallVec<[(BufferId, Type); 3]>,
    pub(super) scalars: SmallVec<[ScalarArg; 3]>,
    pub(super) out: BufferId,
    pub(super) out_ty: Type,
}

impl Plan {
    pub(super) fn nests(&self) -> impl Iterator<Item = &Nest> {
        self.steps.iter().filter_map(|s| match &s.work {
            Work::Kernel(k) => Some(&k.nest),
            Work::MatMul(_) | Work::Routine(_) => None,
        })
    }

    /// Whether a call fits this plan.
    pub(super) fn check(&self, inputs: &[&Value], scalars: &[Scalar]) -> Result<(), EngineError> {
        if inputs.len() != self.inputs.len() || scalars.len() != self.n_scalars {
            let (i, s) = (self.inputs.len(), self.n_scalars);
            return Err(EngineError::Call(format!(
                "a program of {i} inputs and {s} scalars was given {} and {}",
                inputs.len(),
                scalars.len()
            )));
        }
        match inputs.iter().zip(&self.inputs).position(|(v, ty)| !v.ty.same_layout(ty)) {
            None => Ok(()),
            Some(i) => Err(EngineError::Call(format!(
                "input {i} of a program is {}, but got {}",
                self.inputs[i], inputs[i].ty
            ))),
        }
    }
}
