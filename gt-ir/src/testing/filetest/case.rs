//! The cases of the command `run`: inputs, and the results expected of them.
//!
//! Everything that runs tapes can be held to the same files: the interpreter, an engine, the
//! command line. Integers agree exactly, floats to a few units and in the sign of zeros; a failure
//! agrees in its message.

use std::collections::BTreeMap;

use half::{bf16, f16};

use crate::{DType, HostTensor, Scalar, Type, ValueId, text::Loaded};

/// The values a run gave, or what it said when it failed.
pub type Outcome = Result<BTreeMap<ValueId, HostTensor>, String>;

/// One run: the lines that give inputs, and those that say what is expected, by their numbers from
/// 0.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// `; in %0 = 1 2 3`
    pub inputs: Vec<usize>,
    /// `; out %4 = 6`, `; error = ..`
    pub expected: Vec<usize>,
}

impl Case {
    /// The runs that the lines of a file ask for, in order.
    pub fn all(lines: &[String]) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let input = line.starts_with("; in ");
            if !(input || line.starts_with("; out ") || line.starts_with("; error ")) {
                continue;
            }
            if cases.last().is_none_or(|case| input && !case.expected.is_empty()) {
                cases.push(Case::default());
            }
            if let Some(case) = cases.last_mut() {
                if input { case.inputs.push(at) } else { case.expected.push(at) }
            }
        }
        cases.retain(|case| !case.expected.is_empty());
        cases
    }

    /// The tensors of its inputs.
    ///
    /// # Errors
    /// A line that gives no input of the tape, or not as many numbers as it has elements.
    pub fn tensors(
        &self,
        lines: &[String],
        loaded: &Loaded,
    ) -> Result<BTreeMap<ValueId, HostTensor>, String> {
        let one = |line: &usize| {
            let id = value(&lines[*line])?;
            let ty = loaded.verified.ty(id).ok_or_else(|| format!("{id} is no input"))?;
            Ok((id, tensor(ty, &numbers(&lines[*line])?)?))
        };
        self.inputs.iter().map(one).collect()
    }

    /// Whether a run's outcome is the one that is expected.
    ///
    /// # Errors
    /// The first line that does not hold, and what was found.
    pub fn check(
        &self,
        lines: &[String],
        loaded: &Loaded,
        outcome: &Outcome,
    ) -> Result<(), String> {
        self.expected.iter().try_for_each(|line| {
            let wanted = &lines[*line];
            holds(wanted, loaded, outcome)
                .map_err(|failure| format!("line {}: {wanted}\n  {failure}", line + 1))
        })
    }
}

/// Whether one line that expects something holds.
///
/// # Errors
/// What was found instead.
pub fn holds(line: &str, loaded: &Loaded, outcome: &Outcome) -> Result<(), String> {
    let outputs = match (outcome, line.strip_prefix("; error = ")) {
        (Err(fault), Some(wanted)) if fault == wanted.trim() => return Ok(()),
        (Err(fault), _) => return Err(format!("failed: {fault}")),
        (Ok(_), Some(_)) => return Err("did not fail".into()),
        (Ok(outputs), None) => outputs,
    };
    let id = value(line)?;
    let found = outputs.get(&id).ok_or_else(|| format!("{id} is no output"))?;
    let wanted = numbers(line)?;
    let ty = loaded.verified.ty(id).unwrap_or(*found.ty());
    let near = |(a, b): (&f64, &Scalar)| near(ty.dtype, *a, b.as_f64());
    let ok = wanted.len() == ty.shape.numel()
        && exact(found, &wanted).unwrap_or_else(|| found.to_f64().iter().zip(&wanted).all(near));
    if ok { Ok(()) } else { Err(format!("found {}", list(found))) }
}

/// The line that expects what was found.
///
/// # Errors
/// The line is about a value that is no output.
pub fn expecting(line: &str, outcome: &Outcome) -> Result<String, String> {
    match outcome {
        Err(fault) => Ok(format!("; error = {fault}")),
        Ok(outputs) => {
            let id = value(line)?;
            let found = outputs.get(&id).ok_or_else(|| format!("{id} is no output"))?;
            Ok(format!("; out {id} = {}", list(found)))
        }
    }
}

/// Whether 64-bit integers agree; `None` for other dtypes, which an `f64` holds.
fn exact(found: &HostTensor, wanted: &[Scalar]) -> Option<bool> {
    let found = found.to_vec::<i64>().ok()?;
    Some(found.iter().zip(wanted).all(|(a, b)| *a == b.as_i64()))
}

fn near(dtype: DType, found: f64, wanted: f64) -> bool {
    let unit = match dtype {
        DType::F64 => 1e-9, // Expectations are written with ten digits.
        DType::F32 => 2e-6,
        DType::F16 => 1e-3,
        DType::Bf16 => 8e-3,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => 0.0,
    };
    if found == 0.0 && wanted == 0.0 {
        return found.is_sign_negative() == wanted.is_sign_negative() || !dtype.is_float();
    }
    found == wanted
        || (found.is_nan() && wanted.is_nan())
        || (found - wanted).abs() <= unit * wanted.abs().max(0.2)
}

/// The value a line is about: `; out %3 = ..`.
fn value(line: &str) -> Result<ValueId, String> {
    let id = line
        .split_once('%')
        .and_then(|(_, rest)| rest.split_once(" ="))
        .and_then(|(id, _)| id.trim().parse().ok());
    id.map(ValueId).ok_or_else(|| format!("no value in `{line}`"))
}

fn numbers(line: &str) -> Result<Vec<Scalar>, String> {
    let (_, list) = line.split_once(" =").ok_or_else(|| format!("no `=` in `{line}`"))?;
    list.split_whitespace()
        .map(|word| word.parse().map_err(|()| format!("`{word}` is no number")))
        .collect()
}

fn list(tensor: &HostTensor) -> String {
    let words: Vec<String> = match tensor.to_vec::<i64>() {
        Ok(integers) => integers.iter().map(i64::to_string).collect(),
        Err(_) => tensor.to_f64().iter().map(|x| Scalar::F64(*x).to_string()).collect(),
    };
    words.join(" ")
}

fn tensor(ty: Type, numbers: &[Scalar]) -> Result<HostTensor, String> {
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|x| match ty.dtype {
            DType::F32 => (x.as_f64() as f32).to_ne_bytes().to_vec(),
            DType::F64 => x.as_f64().to_ne_bytes().to_vec(),
            DType::Bf16 => bf16::from_f64(x.as_f64()).to_ne_bytes().to_vec(),
            DType::F16 => f16::from_f64(x.as_f64()).to_ne_bytes().to_vec(),
            DType::I64 => x.as_i64().to_ne_bytes().to_vec(),
            DType::I32 => (x.as_i64() as i32).to_ne_bytes().to_vec(),
            DType::U8 | DType::Bool => vec![x.as_i64() as u8],
        })
        .collect();
    HostTensor::new(ty, bytes.into()).map_err(|error| error.to_string())
}
