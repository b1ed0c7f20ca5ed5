//! A tape, instruction by instruction: the reference interpreter's `run`, on libtorch.

use std::collections::BTreeMap;

use gt_ir::{Entry, HostTensor, Instr, Operand, Tape, ValueId};
use tch::Tensor;

use super::{Arg, Made, download, eval, upload};
use crate::{Device, error::EngineError};

/// Runs a tape on the data of its inputs and gives the values it outputs.
///
/// # Errors
/// The first instruction that fails, or a value that is not there.
pub fn run(
    tape: &Tape,
    inputs: &BTreeMap<ValueId, HostTensor>,
    device: Device,
) -> Result<BTreeMap<ValueId, HostTensor>, EngineError> {
    let (mut values, mut outputs) = (BTreeMap::new(), BTreeMap::new());
    let device = device.into();
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, .. } => {
                let data = inputs.get(out).ok_or_else(|| missing(*out))?;
                values.insert(*out, upload(data, device)?);
            }
            Entry::Instr(instr) => {
                let result = step(instr, &values, device)?;
                values.insert(instr.out, result);
            }
            Entry::Free(value) => drop(values.remove(value)),
            Entry::Output { value, .. } => {
                outputs.insert(*value, download(get(&values, *value)?)?);
            }
            Entry::Enter(_) | Entry::Exit(_) => (),
        }
    }
    Ok(outputs)
}

fn step(instr: &Instr, values: &BTreeMap<ValueId, Tensor>, device: tch::Device) -> Made {
    let args = instr.inputs.iter().map(|operand| match operand {
        Operand::Value(value) => get(values, *value).map(Arg::Tensor),
        Operand::Scalar(scalar) => Ok(Arg::Scalar(*scalar)),
    });
    eval(&instr.op, &args.collect::<Result<Vec<_>, _>>()?, device)
}

fn get(values: &BTreeMap<ValueId, Tensor>, value: ValueId) -> Result<&Tensor, EngineError> {
    values.get(&value).ok_or_else(|| missing(value))
}

fn missing(value: ValueId) -> EngineError {
    EngineError::Call(format!("no data for {value}"))
}
