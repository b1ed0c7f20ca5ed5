//! Long loops as jobs: a plan of some rounds, which runs again and again.
//!
//! A long loop is not unrolled: its code is that of [`INSTRUCTIONS`] instructions, however many
//! rounds there are. Shorter loops are unrolled (`kept`). `run/rounds` runs a loop.

use gt_ir::{Graph, Op, Scan, Type, body::places};
use smallvec::SmallVec;

use super::{
    kept::is_kept,
    plan::{Loop, Output, Part, Plan},
};
use crate::{error::EngineError, schedule::Routine};

/// Instructions of a part, about: enough that the time of a part is not that of starting it.
const INSTRUCTIONS: usize = 512;

/// Alignment of carried values.
const ALIGN: usize = 64;

/// A routine as a loop, if it is one. `plan` makes the plans of the graphs of its parts.
pub(super) fn of_routine(
    routine: &Routine,
    plan: impl Fn(&Graph) -> Result<Plan, EngineError>,
) -> Result<Option<Loop>, EngineError> {
    let Op::Scan(scan) = routine.op else { return Ok(None) };
    let types: SmallVec<[Type; 4]> = routine.inputs.iter().map(|(_, ty)| *ty).collect();
    let all = scan.length as usize;
    if all == 0 {
        return Ok(None);
    }
    let at_once = at_once(&scan);
    let mut parts = SmallVec::new();
    for (n_rounds, times) in [(at_once, all / at_once), (all % at_once, 1)] {
        if n_rounds > 0 {
            let graph = scan.part(&types, n_rounds as u64, is_kept)?;
            parts.push(Part { plan: plan(&graph)?, n_rounds, times });
        }
    }
    let slice = |i: usize| if scan.scanned().contains(&i) { types[i].bytes() / all } else { 0 };
    Ok(Some(Loop {
        routine: routine.clone(),
        n_rounds: all,
        reverse: scan.reverse,
        parts,
        slices: (0..types.len()).map(slice).collect(),
        outputs: outputs(&scan, &types)?,
    }))
}

/// The rounds of a part: a divisor of all rounds if one is near, so that no rounds are left over,
/// whose code would be another plan.
fn at_once(scan: &Scan) -> usize {
    let n_rounds = scan.length as usize;
    let most = (INSTRUCTIONS * n_rounds / scan.work()).clamp(1, n_rounds);
    (most.div_ceil(2)..=most).rev().find(|n| n_rounds.is_multiple_of(*n)).unwrap_or(most)
}

/// Where the outputs of a part go.
fn outputs(scan: &Scan, operands: &[Type]) -> Result<SmallVec<[Output; 4]>, EngineError> {
    let results = scan.results(operands)?;
    let size = scan.dtype.size();
    let (mut outputs, mut end) = (SmallVec::new(), 0);
    for (i, (ty, at)) in results.iter().zip(places(scan.dtype, &results)).enumerate() {
        let at = at.map(|element| element as usize * size);
        if scan.carried().contains(&i) {
            outputs.push(Output::Carried { bytes: ty.bytes(), at: end, end: at });
            end += ty.bytes().next_multiple_of(ALIGN);
        } else if let Some(at) = at {
            outputs.push(Output::Stacked { at, slice: ty.bytes() / scan.length as usize });
        }
    }
    Ok(outputs)
}

impl Loop {
    /// The bytes of a block of carried values.
    pub(super) fn block(&self) -> usize {
        let end = |output: &Output| match output {
            Output::Carried { bytes, at, .. } => at + bytes,
            Output::Stacked { .. } => 0,
        };
        self.outputs.iter().map(end).max().unwrap_or(0).next_multiple_of(ALIGN)
    }

    /// The bytes of the arena of each part.
    pub(super) fn arena(&self) -> usize {
        let arenas = self.parts.iter().map(|part| part.plan.arena);
        arenas.max().unwrap_or(0).next_multiple_of(ALIGN)
    }

    /// Work in elements, about.
    pub(super) fn work(&self) -> usize {
        let works = self.parts.iter().map(|part| part.plan.work.saturating_mul(part.times));
        works.fold(0, usize::saturating_add)
    }
}
