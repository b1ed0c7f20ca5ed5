//! Runs a plan: buffers from the pool, kernels in tasks over the threads, buffers back after their last use.
//!
//! Guarantees: what a task computes depends on the plan alone; an error leaves nothing behind but freed memory.
#![expect(unsafe_code, reason = "calls generated code with the addresses of buffers")]

use std::sync::Arc;

use gt_ir::Scalar;
use smallvec::SmallVec;

use super::{
    matmul,
    plan::{BufferId, KernelStep, Plan, ScalarArg, Work},
    routines,
    schedule::scalar_bits,
    stream,
};
use crate::{
    buffer::{Pool, Storage},
    engine::{EngineError, Value},
    kernel::Range,
    threads::Threads,
};

/// What running needs of the engine.
pub(super) struct Context<'a> {
    pub(super) threads: &'a Threads,
    pub(super) pool: &'a Arc<Pool>,
}

/// The buffers of one run. Those written are reached by address, since the tasks of a step write disjoint parts of one.
pub(super) struct Buffers<'a> {
    context: &'a Context<'a>,
    sizes: &'a [usize],
    storage: SmallVec<[Option<Arc<Storage>>; 8]>,
}

impl Buffers<'_> {
    /// The address of a buffer, allocated on first use.
    pub(super) fn address(&mut self, id: BufferId) -> Result<*mut u8, EngineError> {
        let i = id.0 as usize;
        if let Some(storage) = &self.storage[i] {
            return Ok(storage.ptr());
        }
        let storage = self.context.pool.alloc(self.sizes[i])?;
        let address = storage.ptr();
        self.storage[i] = Some(Arc::new(storage));
        Ok(address)
    }

    /// The contents of a buffer written before.
    pub(super) fn bytes(&self, id: BufferId) -> &[u8] {
        self.storage[id.0 as usize]
            .as_ref()
            .map_or(bytemuck::cast_slice::<u64, u8>(&[]), |s| s.as_slice())
    }

    /// A fresh buffer nobody shares, to be given back by `put`.
    pub(super) fn take(&mut self, id: BufferId) -> Result<Storage, EngineError> {
        self.context.pool.alloc(self.sizes[id.0 as usize])
    }

    pub(super) fn put(&mut self, id: BufferId, storage: Storage) {
        self.storage[id.0 as usize] = Some(Arc::new(storage));
    }
}

/// An address tasks on several threads write disjoint parts behind.
#[derive(Clone, Copy)]
pub(super) struct Target(pub(super) *mut u8);

impl Target {
    pub(super) fn address(self) -> *mut u8 {
        self.0
    }
}

// SAFETY: tasks write disjoint ranges, which each use states.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// Runs a plan whose inputs and scalars have been checked against it.
pub(super) fn run(
    context: &Context<'_>,
    plan: &Plan,
    inputs: &[&Value],
    scalars: &[Scalar],
) -> Result<SmallVec<[Value; 4]>, EngineError> {
    let mut storage: SmallVec<[Option<Arc<Storage>>; 8]> =
        inputs.iter().map(|v| Some(v.storage.clone())).collect();
    storage.resize(plan.buffers.len(), None);
    let mut buffers = Buffers { context, sizes: &plan.buffers, storage };
    for step in &plan.steps {
        match &step.work {
            Work::Kernel(k) => kernel(context, k, &mut buffers, scalars)?,
            Work::MatMul(m) => matmul::run(context, m, &mut buffers)?,
            Work::Routine(r) => {
                let bits: SmallVec<[u64; 3]> =
                    r.scalars.iter().map(|s| scalar(*s, scalars)).collect();
                routines::run(context, r, &mut buffers, &bits)?;
            }
        }
        step.frees.iter().for_each(|b| buffers.storage[b.0 as usize] = None);
    }
    plan.outputs
        .iter()
        .map(|&(id, ty)| {
            buffers.address(id)?; // an empty tensor has no step that made its buffer
            let storage = buffers.storage[id.0 as usize].clone();
            storage
                .map(|storage| Value { ty, storage })
                .ok_or_else(|| EngineError::Codegen("an output has no buffer".into()))
        })
        .collect()
}

fn scalar(arg: ScalarArg, scalars: &[Scalar]) -> u64 {
    match arg {
        ScalarArg::Slot(k, dtype) => scalar_bits(scalars[k as usize], dtype),
        ScalarArg::Bits(bits) => bits,
    }
}

fn kernel(
    context: &Context<'_>,
    step: &KernelStep,
    buffers: &mut Buffers<'_>,
    scalars: &[Scalar],
) -> Result<(), EngineError> {
    let Some(kernel) = &step.kernel else {
        return Err(EngineError::Codegen("a kernel was not compiled".into()));
    };
    let mut args: SmallVec<[u64; 12]> = SmallVec::new();
    for &b in &step.buffers {
        args.push(buffers.address(b)? as u64);
    }
    args.extend(step.scalars.iter().map(|s| scalar(*s, scalars)));
    let parallel = step.nest.parallel_extent();
    let reduce = step.nest.reduce_extent();
    let n_parallel = parallel.div_ceil(step.parallel_chunk).max(1);
    let n_reduce = step.partials.as_ref().map_or(1, |p| p.n_chunks);
    let reduce_chunk = step.partials.as_ref().map_or(reduce, |p| p.chunk);
    let piece =
        step.partials.as_ref().map_or(0, |p| step.nest.spec.parallel_len() * p.dtype.size());
    let task = |i: usize| {
        let (p, r) = (i % n_parallel, i / n_parallel);
        let p_range = Range {
            start: p * step.parallel_chunk,
            end: ((p + 1) * step.parallel_chunk).min(parallel),
        };
        let r_range = Range { start: r * reduce_chunk, end: ((r + 1) * reduce_chunk).min(reduce) };
        if step.streams {
            return stream::run(kernel, step, &args, p_range);
        }
        if piece == 0 {
            // SAFETY: the plan sized every buffer for the spec's accesses; tasks have disjoint parallel ranges, so disjoint stores.
            unsafe { kernel.call(&args, p_range, r_range) };
            return;
        }
        let mut own = args.clone();
        let out = step.buffers.len() - 1; // the store's buffer is the last
        own[out] += (r * piece) as u64;
        // SAFETY: as above; each piece of the reduction has its own part of the buffer of partial results.
        unsafe { kernel.call(&own, p_range, r_range) };
    };
    context.threads.run(n_parallel * n_reduce, &task);
    match &step.partials {
        Some(partials) => {
            let mut out = buffers.take(partials.out)?;
            let from = buffers.bytes(step.buffers[step.buffers.len() - 1]);
            routines::fold(context, partials, step.nest.spec.parallel_len(), from, &mut out);
            buffers.put(partials.out, out);
            Ok(())
        }
        None => Ok(()),
    }
}
