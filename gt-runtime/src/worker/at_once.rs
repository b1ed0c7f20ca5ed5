//! Segments worth compiling the first time they are seen: a few instructions on large values.
//!
//! Instruction by instruction each of them would move its values through memory, which takes longer
//! than generating code for all of them together. Only where the estimate says so by a wide margin:
//! a program never waits for a compiler that does not pay. When anything at all goes wrong nothing
//! has changed, and the segment runs instruction by instruction, which says what is the matter.

use gt_compiler::engine::{Engine, Value};
use gt_ir::graph::{Segment, segment};
use gt_ir::{Entry, NodeKind, Operand, Tape, ValueId};

use super::device::Device;
use super::job::Inputs;
use super::plans::Plans;
use super::table::{Slot, Table};

/// Entries of a segment looked at: longer ones are likely to come again, and are compiled in the
/// background then.
const MAX_ENTRIES: usize = 64;
/// Bytes of a value that make a segment worth a look.
const LARGE: usize = 16 << 20;
/// Bytes a second that single instructions move; pages that have never been used make it slow.
const BANDWIDTH: f64 = 4e9;
/// Seconds of compiling an instruction, and how many times its cost has to be saved.
const COMPILE: f64 = 5e-4;
const MARGIN: f64 = 2.0;

/// Runs a segment as one program made for it; gives the number of instructions if it did.
pub(super) fn run(
    device: &mut Device,
    plans: &Plans,
    table: &mut Table,
    tape: &Tape,
    inputs: &Inputs,
) -> Option<u64> {
    if tape.entries.len() > MAX_ENTRIES || !touches_large(table, tape, inputs) {
        return None;
    }
    let ty = |value: ValueId| match table.get(value) {
        Some(Slot::Ready(held)) => Some(held.ty),
        Some(Slot::Failed(_)) | None => None,
    };
    let segment = segment(tape, ty).ok()?;
    if !pays(&segment) {
        return None;
    }
    let bytes_in = compiled(device, plans, table, &segment, inputs)?;
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
    let held = |value: &ValueId| match table.get(*value) {
        Some(Slot::Ready(held)) => held.bytes() >= LARGE,
        Some(Slot::Failed(_)) | None => false,
    };
    let operands = tape.instrs().flat_map(|i| &i.inputs);
    let mut values =
        operands.filter_map(|o| if let Operand::Value(value) = o { Some(value) } else { None });
    let uploads = inputs.values().any(|d| d.as_ref().is_ok_and(|d| d.bytes().len() >= LARGE));
    uploads || values.any(held)
}

/// Whether what the instructions would move costs more than compiling them.
fn pays(segment: &Segment) -> bool {
    let graph = &segment.graph;
    let results = graph.ids().filter(|id| matches!(graph.node(*id).kind, NodeKind::Op(_)));
    let (n, bytes) =
        results.fold((0, 0), |(n, bytes), id| (n + 1, bytes + graph.node(id).ty.bytes()));
    n > 1 && bytes as f64 / BANDWIDTH > MARGIN * COMPILE * f64::from(n)
}

/// Compiles and runs it; the results, and the uploads that live on, are in the table afterwards.
/// Gives the bytes uploaded.
fn compiled(
    device: &mut Device,
    plans: &Plans,
    table: &mut Table,
    segment: &Segment,
    inputs: &Inputs,
) -> Option<u64> {
    let program = plans.compiled_now(segment)?;
    let mut bytes_in = 0;
    let mut given: Vec<Value> = Vec::with_capacity(segment.inputs.len());
    for value in &segment.inputs {
        given.push(match (table.get(*value), inputs.get(value)) {
            (Some(Slot::Ready(held)), _) => held.clone(),
            (_, Some(Ok(data))) => {
                bytes_in += data.bytes().len() as u64;
                device.engine.upload(data).ok()?
            }
            _ => return None,
        });
    }
    let run = |engine: &mut dyn Engine| engine.run(&program, &mut given, segment.graph.slots());
    let results = device.retried(run).ok()?;
    for ((value, ty), result) in segment.typed_outputs().zip(results) {
        // A program keeps sizes; the names of dimensions are what the rules infer.
        table.insert(value, Slot::Ready(result.retyped(ty).unwrap_or(result)));
    }
    Some(bytes_in)
}
