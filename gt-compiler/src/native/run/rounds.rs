//! Runs a loop, a part at a time.
//!
//! A part takes the slices of its rounds where they lie, and stacks its results where they belong.
//! What it carries goes to and fro between two blocks of memory.
#![expect(unsafe_code, reason = "copies between buffers of a plan by their addresses")]

use smallvec::SmallVec;

use super::{Call, Context, EngineError, Loaded, Memory};
use crate::{
    buffer::Storage,
    native::plan::{Loop, Output, Part},
    schedule::{Found, Home, Homes},
};

/// Runs all rounds.
pub(super) fn run(
    context: &Context<'_>,
    loaded: &Loaded,
    job: &Loop,
    memory: &Memory<'_>,
) -> Result<(), EngineError> {
    let (arena, block) = (job.arena(), job.block());
    let own = context.pool.alloc_briefly(arena + 2 * block)?;
    let blocks = own.ptr().wrapping_add(arena);
    let mut under_way = UnderWay {
        of: job,
        operands: job.routine.inputs.iter().map(|(b, _)| memory.address(*b)).collect(),
        result: memory.address(job.routine.out),
        arena: &own,
        blocks: [blocks, blocks.wrapping_add(block)],
    };
    let mut n_done = 0;
    for part in &job.parts {
        for _ in 0..part.times {
            under_way.part(part, n_done, context, loaded)?;
            n_done += part.n_rounds;
        }
    }
    under_way.finish();
    Ok(())
}

/// A loop in a run.
struct UnderWay<'a> {
    of: &'a Loop,
    /// The addresses of the operands. Those of carried values move.
    operands: SmallVec<[*mut u8; 8]>,
    result: *mut u8,
    arena: &'a Storage,
    /// The block for the next carried values, then the block of the last ones.
    blocks: [*mut u8; 2],
}

impl UnderWay<'_> {
    /// Runs a part when so many rounds are over.
    fn part(
        &mut self,
        part: &Part,
        n_done: usize,
        context: &Context<'_>,
        loaded: &Loaded,
    ) -> Result<(), EngineError> {
        let start = match self.of.reverse {
            true => self.of.n_rounds - n_done - part.n_rounds,
            false => n_done,
        };
        let input = |i: usize| self.operands[i].wrapping_add(start * self.of.slices[i]);
        let output = |i: usize| match self.of.outputs[i] {
            Output::Carried { at, .. } => self.blocks[0].wrapping_add(at),
            Output::Stacked { at, slice } => self.result.wrapping_add(at + start * slice),
        };
        let plan = &part.plan;
        // The first output that is found in a result has the result where it belongs.
        let made = |n: usize| plan.layout.found.iter().position(|found| *found == Found::Made(n));
        let homes: Homes<*mut u8> = (0..plan.layout.made.len())
            .map(|n| Home::Fresh(made(n).map_or(std::ptr::null_mut(), output)))
            .collect();
        let start_of_arena = self.arena.ptr();
        let addresses = plan.layout.addresses(
            &homes,
            input,
            |at| start_of_arena.wrapping_add(at),
            |address| *address,
            std::ptr::null_mut(),
        );
        let memory = Memory {
            addresses: addresses.collect(),
            sizes: &plan.sizes,
            scratch: (start_of_arena.wrapping_add(plan.scratch.0), plan.scratch.1),
        };
        let call = Call { context, loaded, memory: &memory, scalars: &[] };
        plan.waves.iter().try_for_each(|wave| call.wave(wave, &[]))?;
        for (i, found) in plan.layout.found.iter().enumerate() {
            let from = match found {
                Found::Made(_) => continue,
                Found::Given(i) => input(*i),
                Found::Again(earlier) => output(*earlier),
            };
            // SAFETY: both are as large as the output; an output is none of the operands, and no
            // other output.
            unsafe { std::ptr::copy_nonoverlapping(from, output(i), plan.outputs[i].1.bytes()) };
        }
        for (i, output) in self.of.outputs.iter().enumerate() {
            if let Output::Carried { at, .. } = output {
                self.operands[i] = self.blocks[0].wrapping_add(*at);
            }
        }
        self.blocks.swap(0, 1);
        Ok(())
    }

    /// Brings what is carried out of the last round where it belongs.
    fn finish(&self) {
        for (i, output) in self.of.outputs.iter().enumerate() {
            if let Output::Carried { bytes, end: Some(end), .. } = *output {
                // SAFETY: the result has the carried values from there on, and is no operand.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        self.operands[i],
                        self.result.wrapping_add(end),
                        bytes,
                    );
                }
            }
        }
    }
}
