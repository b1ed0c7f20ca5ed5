//! What a simulated device runs for a launch: the native engine's code for the same piece of work.
//!
//! Guarantees: before a kernel runs, the memory it will touch is found alive; its bits are those of
//! the native engine.
#![expect(unsafe_code, reason = "runs kernels on memory found by address")]

use std::sync::{Mutex, PoisonError};

use super::{single::Single, space::Space};
use crate::{
    device::{Added, Call, Joint, Part, Slot, Way, Work},
    error::EngineError,
    kernel::{Access, Compiler, Cut, Kernel, KernelSpec, Nest, Range},
    libtorch::{attention, products},
    schedule::{Attention, Fold, MatMul, Matrix, Routine},
};

/// A function of a simulated device.
pub(crate) enum Function {
    Kernel(Box<KernelFunction>),
    Joint(Vec<Member>, Locals),
    Fold(Fold),
    Routine(Box<Routine>),
    #[cfg(test)]
    Text(super::texts::TextFunction),
}

pub(crate) struct KernelFunction {
    kernel: Kernel,
    nest: Nest,
    cut: Option<Cut>,
    /// Bytes the kernel may touch of each buffer, from its start.
    reach: Vec<usize>,
    n_scalars: usize,
    /// The buffer written, and bytes of a row of partial results.
    out: usize,
    row: usize,
}

/// A kernel of a launch of several.
pub(crate) struct Member {
    kernel: KernelFunction,
    slots: Vec<Slot>,
    first_scalar: usize,
}

/// Bytes of what only the kernels of a launch know, all rows together.
pub(crate) type Locals = Vec<usize>;

/// Makes functions.
pub(crate) struct Code(Mutex<Compiler>);

impl Code {
    pub(super) fn new() -> Result<Code, EngineError> {
        Ok(Code(Mutex::new(Compiler::new()?)))
    }

    pub(super) fn function(&self, work: &Work) -> Result<Function, EngineError> {
        match work {
            Work::Kernel { spec, cut } => Ok(Function::Kernel(Box::new(self.kernel(spec, *cut)?))),
            Work::Joint(joint) => self.joint(joint),
            Work::Fold(fold) => Ok(Function::Fold(fold.clone())),
            Work::Routine(routine) => Ok(Function::Routine(routine.clone())),
        }
    }

    fn joint(&self, joint: &Joint) -> Result<Function, EngineError> {
        let member = |part: &Part| {
            let (kernel, slots) = (self.kernel(&part.spec, None)?, part.slots.clone());
            Ok(Member { kernel, slots, first_scalar: part.first_scalar })
        };
        let members = joint.parts.iter().map(member).collect::<Result<_, EngineError>>()?;
        let locals = match &joint.way {
            Way::Beside => Locals::new(),
            Way::Rows { rows, locals } => locals.iter().map(|bytes| bytes * rows).collect(),
        };
        Ok(Function::Joint(members, locals))
    }

    fn kernel(&self, spec: &KernelSpec, cut: Option<Cut>) -> Result<KernelFunction, EngineError> {
        let nest = Nest::new(spec.clone());
        let mut compiler = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let code = compiler.generate(&nest)?;
        let kernel = compiler.load(std::slice::from_ref(&code))?.pop();
        let kernel = kernel.ok_or_else(|| EngineError::Codegen("no kernel was loaded".into()))?;
        let out = spec.stores.first().map_or(0, |store| usize::from(store.buffer));
        let row = spec.parallel_len() * spec.buffers[out].size();
        let mut reach = reach(spec);
        if let Some(cut) = cut {
            reach[out] = row * cut.n_chunks;
        }
        let n_scalars = spec.scalars.len();
        Ok(KernelFunction { kernel, nest, cut, reach, n_scalars, out, row })
    }
}

/// Bytes of each buffer up to the end of the last element a kernel touches.
fn reach(spec: &KernelSpec) -> Vec<usize> {
    let mut reach = vec![0; spec.buffers.len()];
    let extents: Vec<usize> = spec.loops.iter().map(|l| l.extent).collect();
    let stores = spec.stores.iter().map(|s| (s.buffer, &s.access));
    for (buffer, access) in spec.loads().chain(stores) {
        let buffer = usize::from(buffer);
        reach[buffer] = reach[buffer].max(end(access, &extents) * spec.buffers[buffer].size());
    }
    reach
}

/// Elements up to the last that an access meets.
fn end(access: &Access, extents: &[usize]) -> usize {
    if extents.contains(&0) {
        return 0;
    }
    let steps = access.strides.iter().zip(extents);
    let last: i64 = steps.map(|(stride, extent)| (stride * (*extent as i64 - 1)).max(0)).sum();
    (access.offset + last).max(0) as usize + 1
}

impl Function {
    /// Runs it. `args` as [`crate::device::Gpu::launch`] has them.
    pub(super) fn run(
        &self,
        space: &Space,
        single: &Single,
        args: &[u64],
    ) -> Result<(), EngineError> {
        match self {
            Function::Kernel(kernel) => {
                let [buffers @ .., scalars, _errors] = args else { return Err(wrong_arguments()) };
                let found = kernel.found(space, buffers)?;
                // SAFETY: so it was found.
                unsafe { kernel.run(space, &found, *scalars) }
            }
            Function::Joint(members, locals) => run_joint(members, locals, space, args),
            Function::Fold(fold) => {
                let [from, out, ..] = *args else { return Err(wrong_arguments()) };
                let n = fold.n_chunks * fold.len * fold.dtype.size();
                let addresses =
                    [space.find(from, n)?, space.find(out, fold.len * fold.out_dtype.size())?];
                // SAFETY: both were found alive for what the fold says, and nothing else runs.
                unsafe { single.fold(fold, &addresses) };
                Ok(())
            }
            Function::Routine(routine) => run_routine(routine, space, single, args),
            #[cfg(test)]
            Function::Text(text) => text.run(space, args),
        }
    }
}

fn wrong_arguments() -> EngineError {
    EngineError::Device("a launch has the wrong number of arguments".into())
}

/// The words at an address.
fn words(space: &Space, at: u64, n: usize) -> Result<Vec<u64>, EngineError> {
    if n == 0 {
        return Ok(Vec::new());
    }
    let from = space.find(at, 8 * n)?;
    // SAFETY: so many bytes are alive there, and nothing writes them meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(from, 8 * n) };
    Ok(bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect())
}

impl KernelFunction {
    /// Its buffers, found alive for what it touches of them.
    fn found(&self, space: &Space, buffers: &[u64]) -> Result<Vec<u64>, EngineError> {
        if buffers.len() != self.reach.len() {
            return Err(wrong_arguments());
        }
        let found = buffers.iter().zip(&self.reach);
        found.map(|(at, bytes)| Ok(space.find(*at, *bytes)? as u64)).collect()
    }

    /// Runs it on buffers of the host.
    ///
    /// # Safety
    /// All of them are alive for what it touches of them.
    unsafe fn run(&self, space: &Space, buffers: &[u64], scalars: u64) -> Result<(), EngineError> {
        let mut host = buffers.to_vec();
        host.extend(words(space, scalars, self.n_scalars)?);
        let all = Range { start: 0, end: self.nest.parallel_extent() };
        let extent = self.nest.reduce_extent();
        let chunk = self.cut.map_or(extent.max(1), |cut| cut.chunk);
        for i in 0..self.cut.map_or(1, |cut| cut.n_chunks) {
            let mut own = host.clone();
            own[self.out] += (i * self.row) as u64;
            let range = Range { start: i * chunk, end: ((i + 1) * chunk).min(extent) };
            // SAFETY: the caller found every buffer alive for all the kernel's accesses, and
            // nothing else runs.
            unsafe { self.kernel.call(&own, all, range) };
        }
        Ok(())
    }
}

/// Runs kernels one after the other; what they hand each other lies on the host.
fn run_joint(
    members: &[Member],
    locals: &Locals,
    space: &Space,
    args: &[u64],
) -> Result<(), EngineError> {
    let [buffers @ .., scalars, _errors] = args else { return Err(wrong_arguments()) };
    let mut handed: Vec<Vec<u64>> = locals.iter().map(|bytes| vec![0; bytes.div_ceil(8)]).collect();
    let handed: Vec<(u64, usize)> =
        handed.iter_mut().map(|words| (words.as_mut_ptr() as u64, 8 * words.len())).collect();
    for Member { kernel, slots, first_scalar } in members {
        let find = |(slot, reach): (&Slot, &usize)| match slot {
            Slot::Argument(n) => {
                let at = buffers.get(usize::from(*n)).ok_or_else(wrong_arguments)?;
                Ok(space.find(*at, *reach)? as u64)
            }
            Slot::Local(n) => match handed[usize::from(*n)] {
                (at, bytes) if *reach <= bytes => Ok(at),
                _ => Err(EngineError::Device("a kernel reaches beyond what is handed on".into())),
            },
        };
        let found = slots.iter().zip(&kernel.reach).map(find);
        let found = found.collect::<Result<Vec<u64>, EngineError>>()?;
        // SAFETY: so they were found, or are the host's and large enough.
        unsafe { kernel.run(space, &found, scalars + 8 * *first_scalar as u64) }?;
    }
    Ok(())
}

fn run_routine(
    routine: &Routine,
    space: &Space,
    single: &Single,
    args: &[u64],
) -> Result<(), EngineError> {
    let [buffers @ .., scalars, errors] = args else { return Err(wrong_arguments()) };
    let types = routine.inputs.iter().map(|(_, ty)| ty).chain([&routine.out_ty]);
    let found = buffers.iter().zip(types).map(|(at, ty)| space.find(*at, ty.bytes()));
    let host = found.collect::<Result<Vec<*mut u8>, EngineError>>()?;
    if host.len() != routine.inputs.len() + 1 {
        return Err(wrong_arguments());
    }
    let scalars = words(space, *scalars, routine.scalars.len())?;
    // SAFETY: every buffer was found alive for its type, and nothing else runs.
    match unsafe { single.routine(routine, &host, &scalars) } {
        // What a kernel does that meets an index outside its axis: it says so and goes on.
        Err(EngineError::Index { index, .. }) => {
            write(space, *errors, bytemuck::cast_slice(&[1, index as u64]))
        }
        done => done,
    }
}

/// Copies bytes to the device.
pub(super) fn write(space: &Space, at: u64, from: &[u8]) -> Result<(), EngineError> {
    let to = space.find(at, from.len())?;
    // SAFETY: so many bytes are alive there, none of them the host's.
    unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    Ok(())
}

/// Copies bytes from the device.
pub(super) fn read(space: &Space, at: u64, to: &mut [u8]) -> Result<(), EngineError> {
    let from = space.find(at, to.len())?;
    // SAFETY: so many bytes are alive there, none of them the host's.
    unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    Ok(())
}

/// Copies bytes within the device.
pub(super) fn copy(space: &Space, from: u64, to: u64, bytes: usize) -> Result<(), EngineError> {
    let (from, to) = (space.find(from, bytes)?, space.find(to, bytes)?);
    // SAFETY: so many bytes are alive at both.
    unsafe { to.copy_from(from, bytes) };
    Ok(())
}

/// Computes attention or its gradient by libtorch, as on a GPU.
pub(super) fn attention(space: &Space, work: &Attention, call: Call) -> Result<(), EngineError> {
    let Call { scale, operands: [q, k, v], out, sums, back } = call;
    let size = work.dtype.size();
    let dense = |rows: usize| work.batch * work.heads * rows * work.width * size;
    let given = |at: u64, of: &Matrix, rows: usize| {
        space.find(at, end(&of.access, &[work.batch, work.heads, rows, work.width]) * size)
    };
    let back = work.back.as_ref().zip(back).map(|(back, (grad, [dq, dk, dv]))| {
        let grads = [
            space.find(dq, dense(work.length))?,
            space.find(dk, dense(work.positions))?,
            space.find(dv, dense(work.positions))?,
        ];
        Ok::<_, EngineError>((given(grad, &back.grad, work.length)?, grads))
    });
    let memory = attention::Memory {
        operands: [
            given(q, &work.query, work.length)?,
            given(k, &work.key, work.positions)?,
            given(v, &work.value, work.positions)?,
        ],
        out: space.find(out, dense(work.length))?,
        sums: space.find(sums, work.sums_bytes())?,
        back: back.transpose()?,
    };
    // SAFETY: the memory was found alive for the accesses and the results, and nothing else runs.
    unsafe { attention::attention(work, scale, &memory) }
}

/// Computes a product; one with more to it by libtorch, as on a GPU.
pub(super) fn product(
    space: &Space,
    single: &Single,
    work: &MatMul,
    added: Option<Added>,
    [lhs, rhs, out]: [u64; 3],
) -> Result<(), EngineError> {
    let size = work.dtype.size();
    let bytes = |of: &Matrix, rows: usize, columns: usize| {
        let extents: Vec<usize> = work.batch.iter().copied().chain([rows, columns]).collect();
        end(&of.access, &extents) * size
    };
    let n_out = work.batch.iter().product::<usize>() * work.m * work.n * size;
    let sizes = [bytes(&work.lhs, work.m, work.k), bytes(&work.rhs, work.k, work.n), n_out];
    let addresses =
        [space.find(lhs, sizes[0])?, space.find(rhs, sizes[1])?, space.find(out, sizes[2])?];
    if let Some(Added { bias, activation }) = added {
        let bias = space.find(bias, work.n * size)?;
        // SAFETY: the memory was found alive for the product's accesses and for a row, and nothing
        // else runs.
        return unsafe { products::affine(work, addresses, bias, activation) };
    }
    // SAFETY: the memory was found alive for the product's accesses, and nothing else runs.
    unsafe { single.product(work, addresses, sizes) }
}
