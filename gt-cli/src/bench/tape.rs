//! A user's tape as a work. Its inputs are uploaded once, and each step submits the tape and reads
//! its outputs.
//!
//! A session defines each value once, so every step gives the tape's values new numbers. It first
//! frees the values that the previous step left alive, as a recorded loop does. From the second
//! step on all steps are alike.

use super::plan;
use super::step::Step;
use crate::{boundary, fault, files, tensors};
use anyhow::Result;
use bytes::Bytes;
use gt_compiler::{Compile, Report};
use gt_ir::backend::Backend;
use gt_ir::{DType, Entry, HostTensor, Operand, Tape, Type, ValueId};
use half::{bf16, f16};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The first number of a value, far from the values by which the measurement waits for the session.
const FIRST: u64 = 1 << 32;

/// The random numbers of inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    /// Integers are from 0 to below this number.
    pub(crate) below: i64,
    /// Floats are from 0.5 to below 2.5, else from -1 to below 1.
    pub(crate) positive: bool,
}

/// A tape with tensors for its inputs.
pub(crate) struct TapeFile {
    tape: Tape,
    inputs: Vec<HostTensor>,
}

impl TapeFile {
    pub(crate) fn load(file: &Path, inputs: Option<&Path>) -> Result<TapeFile> {
        let tape = files::tape(file)?.tape;
        boundary::outputs(&tape)?;
        let wanted = boundary::inputs(&tape);
        let inputs = match inputs {
            Some(path) => boundary::bind(&wanted, &tensors::read(path)?)?,
            // Without a file: noise for floats, zeros for other dtypes, because zeros are valid
            // indices.
            None => return TapeFile::noise(tape, Noise { below: 1, positive: false }),
        };
        Ok(TapeFile { tape, inputs })
    }

    /// A tape whose inputs are noise.
    pub(crate) fn noise(tape: Tape, noise: Noise) -> Result<TapeFile> {
        let wanted = boundary::inputs(&tape);
        let inputs = wanted.iter().map(|input| filled(input.ty, noise)).collect::<Result<_>>()?;
        Ok(TapeFile { tape, inputs })
    }

    /// What a step comes to as a plan.
    pub(crate) fn report(&self, compiler: &dyn Compile) -> Result<Report> {
        plan::of(&self.tape, compiler, |_| None)
    }

    /// Uploads the inputs and returns the step.
    pub(crate) fn prepare(&self, backend: Arc<dyn Backend>) -> Step {
        let mut numbered = Numbered::new(&self.tape);
        let mut declared = Tape::default();
        for (data, out) in self.inputs.iter().zip((FIRST..).map(ValueId)) {
            declared.entries.push(Entry::Input { out, ty: *data.ty(), name: None });
            backend.upload(out, data.clone());
        }
        backend.submit(declared);
        Box::new(move || {
            backend.submit(numbered.next_step());
            for value in numbered.outputs() {
                backend.fetch(value).map_err(fault::run_error)?;
            }
            Ok(())
        })
    }
}

fn filled(ty: Type, of: Noise) -> Result<HostTensor> {
    let shift = if of.positive { 1.5 } else { 0.0 };
    let floats = || super::step::floats(ty.shape.numel());
    let noise = || floats().into_iter().map(|v| v + shift).collect::<Vec<f32>>();
    let whole = || super::step::integers(ty.shape.numel(), of.below);
    Ok(match ty.dtype {
        DType::F32 => HostTensor::from_vec(noise(), ty.shape)?,
        DType::F64 => HostTensor::from_vec(noise().into_iter().map(f64::from).collect(), ty.shape)?,
        DType::F16 => {
            HostTensor::from_vec(noise().into_iter().map(f16::from_f32).collect(), ty.shape)?
        }
        DType::Bf16 => {
            HostTensor::from_vec(noise().into_iter().map(bf16::from_f32).collect(), ty.shape)?
        }
        DType::I64 => HostTensor::from_vec(whole(), ty.shape)?,
        DType::I32 => {
            HostTensor::from_vec(whole().into_iter().map(|v| v as i32).collect(), ty.shape)?
        }
        DType::U8 => {
            HostTensor::from_vec(whole().into_iter().map(|v| v as u8).collect(), ty.shape)?
        }
        DType::Bool => {
            HostTensor::new(ty, Bytes::from_iter(whole().iter().map(|v| (v & 1) as u8)))?
        }
    })
}

/// A tape without its inputs, with consecutive numbers of values. Inputs begin at [`FIRST`], and
/// the definitions of a step begin where the previous step ended.
struct Numbered {
    body: Vec<Entry>,
    outputs: Vec<ValueId>,
    /// The values that a step leaves alive.
    left: Vec<ValueId>,
    n_inputs: u64,
    n_defined: u64,
    n_steps: u64,
}

impl Numbered {
    fn new(tape: &Tape) -> Numbered {
        let inputs: Vec<ValueId> = defined(tape, true).collect();
        let own: Vec<ValueId> = defined(tape, false).collect();
        let outputs: BTreeSet<ValueId> =
            tape.entries
                .iter()
                .filter_map(|entry| {
                    if let Entry::Output { value, .. } = entry { Some(*value) } else { None }
                })
                .collect();
        // All steps use the inputs, and outputs live until they are read.
        let lasting: BTreeSet<ValueId> = inputs.iter().chain(&outputs).copied().collect();
        let mut left: BTreeSet<ValueId> = own.iter().copied().collect();
        let mut body = tape.entries.clone();
        body.retain(|entry| match entry {
            Entry::Free(value) if lasting.contains(value) => false,
            Entry::Free(value) => left.remove(value),
            Entry::Input { .. } => false,
            Entry::Instr(_) | Entry::Output { .. } | Entry::Enter(_) | Entry::Exit(_) => true,
        });
        let (n_inputs, n_defined) = (inputs.len() as u64, own.len() as u64);
        let dense: BTreeMap<ValueId, ValueId> =
            inputs.into_iter().chain(own).zip((FIRST..).map(ValueId)).collect();
        let renumber = |value: ValueId| dense.get(&value).copied().unwrap_or(value);
        Numbered {
            body: body.into_iter().map(|entry| renumbered(entry, renumber)).collect(),
            outputs: outputs.into_iter().map(renumber).collect(),
            left: left.into_iter().map(renumber).collect(),
            n_inputs,
            n_defined,
            n_steps: 0,
        }
    }

    /// The tape of the next step.
    fn next_step(&mut self) -> Tape {
        let freed: Vec<ValueId> = match self.n_steps {
            0 => vec![],
            _ => self.left.iter().map(|value| self.of_step(*value, self.n_steps)).collect(),
        };
        self.n_steps += 1;
        let number = |value| self.of_step(value, self.n_steps);
        let body = self.body.iter().map(|entry| renumbered(entry.clone(), number));
        Tape { entries: freed.into_iter().map(Entry::Free).chain(body).collect() }
    }

    /// The outputs of the last step.
    fn outputs(&self) -> impl Iterator<Item = ValueId> {
        self.outputs.iter().map(|value| self.of_step(*value, self.n_steps))
    }

    /// The number of a value in the n-th step, from 1.
    fn of_step(&self, ValueId(value): ValueId, n: u64) -> ValueId {
        ValueId(if value < FIRST + self.n_inputs {
            value
        } else {
            value + (n - 1) * self.n_defined
        })
    }
}

/// The inputs, or the other definitions, in order.
fn defined(tape: &Tape, inputs: bool) -> impl Iterator<Item = ValueId> {
    let wanted = move |entry: &&Entry| matches!(entry, Entry::Input { .. }) == inputs;
    tape.entries.iter().filter(wanted).filter_map(Entry::defines)
}

fn renumbered(mut entry: Entry, number: impl Fn(ValueId) -> ValueId) -> Entry {
    match &mut entry {
        Entry::Instr(instr) => {
            instr.out = number(instr.out);
            for operand in &mut instr.inputs {
                if let Operand::Value(value) = operand {
                    *value = number(*value);
                }
            }
        }
        Entry::Input { out: value, .. } | Entry::Free(value) | Entry::Output { value, .. } => {
            *value = number(*value);
        }
        Entry::Enter(_) | Entry::Exit(_) => {}
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_ir::verify::Verifier;

    const TAPE: &str = "gt tape 1
%7 = input \"x\" : f32[3]
%9 = exp %7
%20 = mul %9, %7
free %9
free %7
%21 = sum[0] %20
output %21
free %21
output %20
";

    #[test]
    fn steps_follow_each_other_in_one_session() {
        let tape = gt_ir::text::load(TAPE).unwrap().tape;
        let mut numbered = Numbered::new(&tape);
        let mut verifier = Verifier::new();
        let declared = format!("gt tape 1\n%{FIRST} = input : f32[3]\n");
        let declared = gt_ir::text::load(&declared).unwrap().tape;
        let mut check = |tape: &Tape| {
            tape.entries.iter().for_each(|entry| assert!(verifier.entry(entry).is_ok()));
        };
        check(&declared);
        let steps: Vec<Tape> = (0..3).map(|_| numbered.next_step()).collect();
        steps.iter().for_each(check);
        // Each step but the first begins with frees of the values that the previous step left
        // alive.
        assert_eq!(steps[0].entries.len() + 2, steps[1].entries.len());
        assert_eq!(steps[1].entries.len(), steps[2].entries.len());
        assert_eq!(steps[2].entries[..2], [5, 6].map(|n| Entry::Free(ValueId(FIRST + n))));
        assert_eq!(numbered.outputs().collect::<Vec<_>>(), [8, 9].map(|n| ValueId(FIRST + n)));
    }

    #[test]
    fn every_dtype_is_filled() {
        for dtype in DType::ALL {
            let ty = Type::new(dtype, gt_ir::Shape::new(&[2, 3]).unwrap());
            assert_eq!(*filled(ty, Noise { below: 9, positive: true }).unwrap().ty(), ty);
        }
    }
}
