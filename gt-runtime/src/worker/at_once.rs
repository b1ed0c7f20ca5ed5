//! Compilation of a segment at its first run, for a few instructions on large values, and for
//! segments that need more memory than there is.
//!
//! Instruction by instruction, each instruction moves its values through memory, which can take
//! longer than generating code for all of them together. A segment is compiled only if the estimate
//! says so by a wide margin, so a program does not wait for a compilation that does not pay. Each
//! result also takes memory of its own, while a program may make values again in place of keeping
//! them. If any step fails, nothing has changed, and the segment runs instruction by instruction,
//! which reports the error.

use gt_compiler::engine::{Engine, Value};
use gt_ir::graph::{Segment, segment};
use gt_ir::{Entry, NodeKind, Operand, Tape, ValueId};

use super::device::Device;
use super::job::Inputs;
use super::need;
use super::plans::Plans;
use super::table::{Outcome, Table};
use crate::profile;

/// The most entries of such a segment. A longer segment is likely to come again, and is then
/// compiled in the background.
pub(super) const MAX_ENTRIES: usize = 64;
/// The bytes of a large value. Segments without one are not considered.
const LARGE: usize = 16 << 20;
/// The bytes per second that single instructions move. Low, because they write to new pages.
const BANDWIDTH: f64 = 4e9;
/// The seconds to compile an instruction, and how many times this cost must be saved.
const COMPILE: f64 = 5e-4;
const MARGIN: f64 = 2.0;

/// Runs a segment as one program, if this pays or if memory is too short for anything else. Of a
/// launch, a plan is made in the background, so only memory counts. Returns the number of
/// instructions if it ran.
pub(super) fn run(
    device: &mut Device,
    plans: &Plans,
    table: &mut Table,
    (tape, is_launch): (&Tape, bool),
    inputs: &Inputs,
) -> Option<u64> {
    let is_short = tape.entries.len() <= MAX_ENTRIES;
    if is_short && !touches_large(table, tape, inputs) {
        return None;
    }
    let ty = |value: ValueId| table.ty(value);
    let room = device.room();
    let memory = need::most(tape, ty).filter(|need| *need > room).map(|_| need::coarse(room));
    if memory.is_none() && (is_launch || !is_short) {
        return None;
    }
    let segment = segment(tape, ty).ok()?;
    if memory.is_none() && !pays(&segment) {
        return None;
    }
    let mut bytes_in = compiled(device, plans, table, (&segment, memory), inputs);
    if bytes_in.is_none() && memory.is_some_and(|memory| memory < room) {
        // To the byte, since nothing else is left.
        bytes_in = compiled(device, plans, table, (&segment, Some(room)), inputs);
    }
    let bytes_in = bytes_in?;
    if profile::is_on() {
        tape.instrs().for_each(|instr| table.made_at(instr.out, instr.loc));
    }
    for entry in &tape.entries {
        if let Entry::Free(value) = entry {
            table.remove(*value);
        }
    }
    let instructions = tape.instrs().count() as u64;
    table.ran_at_once(instructions, bytes_in);
    Some(instructions)
}

fn touches_large(table: &Table, tape: &Tape, inputs: &Inputs) -> bool {
    let held = |value: ValueId| match table.get(value) {
        Some(Outcome::Ready(held)) => held.bytes() >= LARGE,
        Some(Outcome::Failed(_)) | None => false,
    };
    let operands = tape.instrs().flat_map(|i| &i.inputs);
    let mut values = operands.filter_map(Operand::value);
    let uploads = inputs.values().any(|d| d.as_ref().is_ok_and(|d| d.bytes().len() >= LARGE));
    uploads || values.any(held)
}

/// Whether the instructions' traffic of memory costs more than compiling them.
fn pays(segment: &Segment) -> bool {
    let graph = &segment.graph;
    let results = graph.ids().filter(|id| matches!(graph.node(*id).kind, NodeKind::Op(_)));
    let (n, bytes) =
        results.fold((0, 0), |(n, bytes), id| (n + 1, bytes + graph.node(id).ty.bytes()));
    n > 1 && bytes as f64 / BANDWIDTH > MARGIN * COMPILE * f64::from(n)
}

/// Compiles and runs a segment, in so much memory if it is short. Puts its results and its lasting
/// uploads into the table. Returns the bytes uploaded.
fn compiled(
    device: &mut Device,
    plans: &Plans,
    table: &mut Table,
    (segment, memory): (&Segment, Option<usize>),
    inputs: &Inputs,
) -> Option<u64> {
    let program = plans.compiled_now(segment, memory)?;
    let mut bytes_in = 0;
    let mut given: Vec<Value> = Vec::with_capacity(segment.inputs.len());
    for value in &segment.inputs {
        given.push(match (table.get(*value), inputs.get(value)) {
            (Some(Outcome::Ready(held)), _) => held.clone(),
            (_, Some(Ok(data))) => {
                bytes_in += data.bytes().len() as u64;
                device.engine.upload(data).ok()?
            }
            _ => return None,
        });
    }
    // The table gives up what the segment frees, so that the program can reuse its memory.
    let donated = segment.inputs.iter().zip(&segment.donated).enumerate();
    let donated = donated.filter(|(_, (_, is_donated))| **is_donated);
    let taken: Vec<(usize, ValueId)> =
        donated.filter_map(|(at, (value, _))| table.remove(*value).map(|_| (at, *value))).collect();
    let run = |engine: &mut dyn Engine| engine.run(&program, &mut given, segment.graph.slots());
    let Ok(results) = device.retried(run) else {
        for (at, value) in taken {
            table.insert(value, Outcome::Ready(given[at].clone()));
        }
        return None;
    };
    for ((value, ty), result) in segment.typed_outputs().zip(results) {
        // A program knows only sizes. The names of dimensions come from the type rules.
        table.insert(value, Outcome::Ready(result.retyped(ty).unwrap_or(result)));
    }
    Some(bytes_in)
}
