//! Filetests of autograd: every `*.gt` under `tests/files`.
//!
//! `; test grad` prints the tape that the backward walk records: for each output, given a gradient
//! of its type, the gradients of the inputs it depends on. Values of the tape keep their numbers,
//! so that what the walk needs of the forward instructions is seen in its inputs; the gradients
//! given are its last inputs.
//!
//! The walk is also run, on random inputs and on those that `; in %0 = ..` gives. Where all of them
//! that have gradients are `f64`, the gradients are compared with finite differences.

use std::collections::BTreeMap;
use std::path::Path;

use gt::autograd::{Graph, grad_with};
use gt::core::Arg;
use gt::prelude::*;
use gt::reference::Reference;
use gt_ir::testing::filetest::{Action, Case, Command, run_folder};
use gt_ir::testing::{Source, inputs};
use gt_ir::text::Loaded;
use gt_ir::{Entry, Loc, Operand, Tape, ValueId, interp};

const COMMANDS: &[Command] = &[Command { name: "grad", action: Action::Text(print_gradients) }];

type Data = BTreeMap<ValueId, HostTensor>;

#[test]
fn every_file_is_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let n = run_folder(&root, COMMANDS).unwrap_or_else(|failures| panic!("{failures}"));
    assert!(n > 5, "only {n} files found");
}

fn print_gradients(program: &str, _: &str) -> Result<String, String> {
    let told = |error: Error| error.to_string();
    let loaded = gt_ir::text::load(program).map_err(|errors| {
        errors.iter().map(|error| format!("{}\n", error.message)).collect::<String>()
    })?;
    let mut source = Source::from_seed(1);
    let mut data = inputs(&loaded.tape, &mut source);
    data.extend(given(program, &loaded)?);

    let (session, _system) = Reference::session();
    let _current = session.enter();
    let values = replay(&loaded.tape, &data);
    let outputs: Vec<&DynTensor> = outputs(&loaded.tape).map(|id| &values[&id]).collect();
    let random = |ty: &gt_ir::Type, source: &mut Source<'_>| {
        DynTensor::from_host(gt_ir::testing::tensor(*ty, source))
    };
    let seeds: Vec<DynTensor> = outputs.iter().map(|y| random(&y.ty(), &mut source)).collect();
    let leaves: Vec<(ValueId, &DynTensor)> =
        values.iter().filter(|(_, x)| x.is_leaf()).map(|(id, x)| (*id, x)).collect();
    let wanted: Vec<&DynTensor> = leaves.iter().map(|(_, x)| *x).collect();
    session.start_trace();
    let mut results = Vec::new();
    for (output, seed) in outputs.iter().zip(&seeds).filter(|(y, _)| y.is_tracked()) {
        let found = grad_with(output, Some(seed), &wanted, Graph::Retain).map_err(told)?;
        let read: Result<Vec<HostTensor>> = found.iter().map(DynTensor::to_host).collect();
        results.push((*output, seed, read.map_err(told)?));
    }
    let recorded = session.stop_trace();
    for (output, seed, found) in &results {
        let id = output.value_id().ok_or("an output without a value")?;
        let seed = seed.to_host().map_err(told)?.to_f64();
        for ((leaf, _), found) in leaves.iter().zip(found) {
            compare(&loaded.tape, &data, (id, &seed), *leaf, &found.to_f64())?;
        }
    }
    Ok(gt_ir::text::print(&without_lines(recorded)))
}

/// The tape as a program of the language: inputs of floats are leaves.
fn replay(tape: &Tape, data: &Data) -> BTreeMap<ValueId, DynTensor> {
    let mut values: BTreeMap<ValueId, DynTensor> = BTreeMap::new();
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, ty, .. } => {
                let value = DynTensor::from_host(data[out].clone());
                let value = if ty.dtype.is_float() { value.requires_grad() } else { value };
                values.insert(*out, value);
            }
            Entry::Instr(instr) => {
                let operands = instr.inputs.iter().map(|operand| match operand {
                    Operand::Value(value) => Arg::Tensor(&values[value]),
                    Operand::Scalar(scalar) => Arg::Scalar(*scalar),
                });
                let operands: Vec<Arg<'_>> = operands.collect();
                values.insert(instr.out, DynTensor::record(instr.op, &operands));
            }
            Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => (),
        }
    }
    values
}

fn outputs(tape: &Tape) -> impl Iterator<Item = ValueId> {
    tape.entries.iter().filter_map(|entry| match entry {
        Entry::Output { value, .. } => Some(*value),
        _ => None,
    })
}

/// The inputs that lines of a file give.
fn given(text: &str, loaded: &Loaded) -> Result<Data, String> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let inputs = (0..lines.len()).filter(|at| lines[*at].starts_with("; in ")).collect();
    Case { inputs, expected: Vec::new() }.tensors(&lines, loaded)
}

/// Whether a gradient is the slope of the output along every element of a leaf.
fn compare(
    tape: &Tape,
    data: &Data,
    (output, seed): (ValueId, &[f64]),
    leaf: ValueId,
    found: &[f64],
) -> Result<(), String> {
    const STEP: f64 = 1e-5;
    if data[&leaf].ty().dtype != DType::F64 {
        return Ok(());
    }
    let value = |at: usize, step: f64| -> Result<f64, String> {
        let mut elements = data[&leaf].to_f64();
        elements[at] += step;
        let moved = HostTensor::from_vec(elements, data[&leaf].ty().shape);
        let mut data = data.clone();
        data.insert(leaf, moved.map_err(|error| error.message)?);
        let results = interp::run(tape, &data).map_err(|fault| fault.error.to_string())?;
        Ok(results[&output].to_f64().iter().zip(seed).map(|(y, seed)| y * seed).sum())
    };
    for (at, found) in found.iter().enumerate() {
        let slope = (value(at, STEP)? - value(at, -STEP)?) / (2.0 * STEP);
        if (slope - found).abs() > 1e-6 * slope.abs().max(1.0) {
            return Err(format!("element {at} of the gradient of {leaf} is {found}, not {slope}"));
        }
    }
    Ok(())
}

/// A tape without places in this file.
fn without_lines(mut tape: Tape) -> Tape {
    for entry in &mut tape.entries {
        if let Entry::Instr(instr) = entry {
            instr.loc = Loc::NONE;
        }
    }
    tape
}
