//! Runs a plan step by step: memory first, then everything onto the stream.
//!
//! Guarantees: all memory of a run is there before its first step, so what fails for want of memory
//! has changed nothing; nothing waits but work of the host, and a check of indices, which stands
//! before the first step that overwrites something given. Nothing else is allocated, locked or
//! looked up by hash between steps.

use std::{ops::Range, sync::Arc};

use gt_ir::Scalar;
use smallvec::SmallVec;

use super::{
    affine::Affine,
    gpu::{Added, Call, Gpu},
    memory::{Memory, is_out_of_memory, is_sole},
    plan::{Plan, Step, WORD},
    program::Loaded,
};
use crate::{
    engine::Value,
    error::EngineError,
    schedule::{BufferId, Home, Homes},
};

/// Where the buffers of a run lie, and what it says to the device; kept from run to run so that
/// nothing is allocated.
#[derive(Default)]
pub(super) struct Frame {
    /// The address of each buffer.
    pub(super) addresses: Vec<u64>,
    /// Where the words lie, and what they are.
    pub(super) words_at: u64,
    pub(super) words: Vec<u64>,
    args: Vec<u64>,
}

/// Why a run ended early.
pub(super) enum Failure {
    /// Everything given is as it was.
    Clean(EngineError),
    /// The device can no longer be trusted.
    Broken(EngineError),
}

impl Frame {
    /// Places buffers: inputs and results as told, the rest in an arena that begins at `arena`.
    pub(super) fn place<G: Gpu>(
        &mut self,
        gpu: &G,
        plan: &Plan,
        arena: u64,
        input: impl Fn(usize) -> u64,
        homes: &Homes<Arc<G::Block>>,
    ) {
        let at = |offset: usize| arena + offset as u64;
        let block = |block: &Arc<G::Block>| gpu.address(block);
        self.addresses.clear();
        self.addresses.extend(plan.layout.addresses(homes, input, at, block, 0));
        self.words_at = arena + plan.words as u64;
    }

    pub(super) fn upload_words<G: Gpu>(&self, gpu: &G) -> Result<(), EngineError> {
        if self.words.is_empty() {
            return Ok(());
        }
        gpu.upload(bytemuck::cast_slice(&self.words), self.words_at)
    }

    /// Asks the device for a step.
    pub(super) fn step<G: Gpu>(
        &mut self,
        gpu: &G,
        loaded: &Loaded<G>,
        step: usize,
    ) -> Result<(), EngineError> {
        let at = |addresses: &[u64], b: BufferId| addresses[b.index()];
        match &loaded.plan.steps[step] {
            Step::Launch { function, buffers, scalars, errors } => {
                self.args.clear();
                self.args.extend(buffers.iter().map(|b| at(&self.addresses, *b)));
                let word = |n: usize| self.words_at + (n * WORD) as u64;
                self.args.extend([word(*scalars), word(loaded.plan.table.len() + *errors)]);
                gpu.launch(&loaded.functions[*function], &self.args)
            }
            Step::Product(work, affine) => {
                let [lhs, rhs, out] =
                    [work.lhs.buffer, work.rhs.buffer, work.out].map(|b| at(&self.addresses, b));
                let added = affine.map(|Affine { bias, activation }| Added {
                    bias: at(&self.addresses, bias),
                    activation,
                });
                gpu.product(work, added, [lhs, rhs, out])
            }
            Step::Host(work) => work.run(gpu, |b| at(&self.addresses, b)),
            Step::Attention(work, scale) => {
                let at = |b: BufferId| at(&self.addresses, b);
                let back = work.back.as_ref();
                let call = Call {
                    // Of a dtype that is summed in `f32`.
                    scale: f64::from(f32::from_bits(self.words[*scale] as u32)),
                    operands: [&work.query, &work.key, &work.value].map(|m| at(m.buffer)),
                    out: at(work.out),
                    sums: at(work.sums),
                    back: back.map(|back| (at(back.grad.buffer), back.grads.map(at))),
                };
                gpu.attention(work, call)
            }
        }
    }

    /// The error of the first step that met an index outside its axis.
    pub(super) fn index_error<G: Gpu>(
        &self,
        gpu: &G,
        plan: &Plan,
    ) -> Result<Option<EngineError>, EngineError> {
        let mut words: SmallVec<[u64; 16]> = SmallVec::from_elem(0, 2 * plan.checks.len());
        let at = self.words_at + (plan.table.len() * WORD) as u64;
        gpu.words(at, bytemuck::cast_slice_mut(&mut words))?;
        let found = plan.checks.iter().zip(words.chunks_exact(2));
        let mut found = found.filter(|(_, words)| words[0] != 0);
        Ok(found.next().map(|(check, words)| check.error(words[1] as i64)))
    }
}

/// Runs a program whose call has been checked against it.
pub(super) fn run<G: Gpu>(
    memory: &mut Memory<G>,
    frame: &mut Frame,
    loaded: &Loaded<G>,
    inputs: &[&Value],
    scalars: &[Scalar],
) -> Result<SmallVec<[Value; 4]>, Failure> {
    let plan = &loaded.plan;
    let arena = match plan.arena {
        0 => None,
        bytes => Some(memory.alloc(bytes).map_err(Failure::Clean)?),
    };
    let alloc = |id: BufferId| memory.alloc(plan.sizes[id.index()]);
    let homes = plan.layout.homes(|i| is_sole(inputs[i]), alloc).map_err(Failure::Clean)?;
    let start = arena.as_ref().map_or(0, |block| memory.address(block));
    frame.place(&memory.gpu, plan, start, |i| inputs[i].address() as u64, &homes);
    plan.fill_words(scalars, &mut frame.words);
    frame.upload_words(&memory.gpu).map_err(Failure::Broken)?;
    let (barrier, kept) = (plan.barrier(), first_overwrite(plan, &homes));
    let checks = memory.needs_check(plan, inputs);
    steps(memory, frame, loaded, 0..barrier, kept)?;
    if checks && let Some(error) = frame.index_error(&memory.gpu, plan).map_err(Failure::Broken)? {
        return Err(Failure::Clean(error));
    }
    steps(memory, frame, loaded, barrier..plan.steps.len(), kept)?;
    results(memory, plan, inputs, &homes).map_err(Failure::Broken)
}

/// Enqueues steps. Where the device has no memory for one (a library's workspace), it is asked once
/// more with nothing kept for later.
fn steps<G: Gpu>(
    memory: &mut Memory<G>,
    frame: &mut Frame,
    loaded: &Loaded<G>,
    range: Range<usize>,
    kept: usize,
) -> Result<(), Failure> {
    for step in range {
        let mut done = frame.step(&memory.gpu, loaded, step);
        if is_out_of_memory(&done) {
            memory.trim();
            done = frame.step(&memory.gpu, loaded, step);
        }
        let is_clean = is_out_of_memory(&done) && step <= kept;
        done.map_err(|e| if is_clean { Failure::Clean(e) } else { Failure::Broken(e) })?;
    }
    Ok(())
}

/// The first step that overwrites an input.
fn first_overwrite<B>(plan: &Plan, homes: &Homes<B>) -> usize {
    let taken =
        plan.layout.made.iter().zip(homes).filter(|(_, home)| matches!(home, Home::Donor(_)));
    let first = taken.map(|(made, _)| plan.first_write[made.buffer.index()]);
    first.min().unwrap_or(plan.steps.len())
}

/// The values of a run.
pub(super) fn results<G: Gpu>(
    memory: &Memory<G>,
    plan: &Plan,
    inputs: &[&Value],
    homes: &Homes<Arc<G::Block>>,
) -> Result<SmallVec<[Value; 4]>, EngineError> {
    plan.layout.values(&plan.outputs, inputs, homes, |ty, home| match home {
        Home::Fresh(block) => Ok(memory.value(ty, block.clone(), None)),
        Home::Donor(i) => {
            memory.resident(inputs[*i])?.overwrite();
            Ok(Value { ty, storage: inputs[*i].storage.clone() })
        }
    })
}
