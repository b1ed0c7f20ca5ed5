//! The command `run`: the interpreter against written results.

use std::collections::BTreeMap;

use gt_ir::{
    DType, HostTensor, Scalar, Type, ValueId,
    interp::{self, RunFault},
    text::{self, Loaded},
};
use half::{bf16, f16};

use super::file::File;

/// One run: the lines that give inputs, and those that say what is expected.
#[derive(Default)]
struct Case {
    inputs: Vec<usize>,
    expected: Vec<usize>,
}

pub(super) fn run(file: &File) -> Result<(), String> {
    let loaded = load(file)?;
    let cases = cases(file);
    if cases.is_empty() {
        return Err("no `; out` or `; error` line".into());
    }
    cases.iter().try_for_each(|case| {
        let result = result(file, &loaded, case)?;
        case.expected.iter().try_for_each(|line| {
            let wanted = &file.lines[*line];
            check_line(wanted, &loaded, &result)
                .map_err(|failure| format!("line {}: {wanted}\n  {failure}", line + 1))
        })
    })
}

pub(super) fn bless(file: &mut File) -> Result<(), String> {
    let loaded = load(file)?;
    for case in cases(file) {
        let result = result(file, &loaded, &case)?;
        for line in case.expected {
            if check_line(&file.lines[line], &loaded, &result).is_ok() {
                continue; // Values worked out elsewhere stay as they were written.
            }
            file.lines[line] = match &result {
                Err(fault) => format!("; error = {}", fault.error),
                Ok(outputs) => {
                    let id = value(&file.lines[line])?;
                    let found = outputs.get(&id).ok_or_else(|| format!("{id} is no output"))?;
                    format!("; out {id} = {}", list(found))
                }
            };
        }
    }
    Ok(())
}

fn load(file: &File) -> Result<Loaded, String> {
    text::load(&file.text())
        .map_err(|errors| errors.iter().map(|error| format!("{}\n", error.message)).collect())
}

fn cases(file: &File) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (at, line) in file.lines.iter().enumerate() {
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

type Outcome = Result<BTreeMap<ValueId, HostTensor>, RunFault>;

fn result(file: &File, loaded: &Loaded, case: &Case) -> Result<Outcome, String> {
    let mut inputs = BTreeMap::new();
    for line in &case.inputs {
        let id = value(&file.lines[*line])?;
        let ty = loaded.verified.ty(id).ok_or_else(|| format!("{id} is no input"))?;
        inputs.insert(id, tensor(ty, &numbers(&file.lines[*line])?)?);
    }
    Ok(interp::run(&loaded.tape, &inputs))
}

fn check_line(line: &str, loaded: &Loaded, result: &Outcome) -> Result<(), String> {
    let outputs = match (result, line.strip_prefix("; error = ")) {
        (Err(fault), Some(wanted)) if fault.error.to_string() == wanted.trim() => return Ok(()),
        (Err(fault), _) => return Err(format!("failed: {fault}")),
        (Ok(_), Some(_)) => return Err("did not fail".into()),
        (Ok(outputs), None) => outputs,
    };
    let id = value(line)?;
    let found = outputs.get(&id).ok_or_else(|| format!("{id} is no output"))?;
    let wanted = numbers(line)?;
    let ty = loaded.verified.ty(id).unwrap_or(*found.ty());
    let ok = wanted.len() == ty.shape.numel()
        && exact(found, &wanted).unwrap_or_else(|| {
            found.to_f64().iter().zip(&wanted).all(|(a, b)| near(ty.dtype, *a, b.as_f64()))
        });
    if ok { Ok(()) } else { Err(format!("found {}", list(found))) }
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
    let same = found == wanted
        && (found != 0.0 || found.is_sign_negative() == wanted.is_sign_negative() || unit > 0.0);
    same || (found.is_nan() && wanted.is_nan())
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
