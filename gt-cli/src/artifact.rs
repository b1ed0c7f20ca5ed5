//! Files of compiled programs, which `compile -o` writes and `run` runs.
//!
//! A file contains machine code, so it needs the same trust as an executable.

use crate::boundary::{self, Wanted};
use crate::fault::advised;
use crate::files;
use anyhow::{Context, Result};
use gt_compiler::{ArtifactError, Engine, Native, NativeConfig, ProgramFile, Value};
use gt_ir::graph::Segment;
use gt_ir::{HostTensor, Tape};
use gt_lang::state::StateDict;
use std::path::Path;

/// The file of a compiled program, with the names of its tape's inputs and outputs.
pub(crate) fn file(tape: &Tape, segment: &Segment, program: Vec<u8>) -> Result<ProgramFile> {
    let place = |value| segment.outputs.iter().position(|output| *output == value);
    let outputs = boundary::outputs(tape)?.into_iter();
    let outputs = outputs.map(|(value, name)| Some((name, place(value)?)));
    let inputs = boundary::inputs(tape).into_iter();
    Ok(ProgramFile {
        inputs: inputs.map(|Wanted { name, ty, .. }| (name, ty)).collect(),
        outputs: outputs.collect::<Option<_>>().ok_or_else(|| {
            let message = "an output of the tape is not computed";
            advised(message, "this is a defect of GT; please report it with the tape")
        })?,
        scalars: segment.graph.slots().to_vec(),
        program,
    })
}

/// The program in the bytes of a file.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<ProgramFile> {
    ProgramFile::from_bytes(bytes).map_err(|error| {
        let file = files::shown(path);
        let what = match error {
            ArtifactError::Format => "is a compiled program of another format, or damaged",
            _ => "is damaged",
        };
        let hint = format!("compile it again, with `gt-cli compile TAPE -o {file}`");
        advised(format!("{file} {what}"), hint)
    })
}

/// The inputs that need tensors.
pub(crate) fn inputs(file: &ProgramFile) -> Vec<Wanted> {
    file.inputs.iter().map(|(name, ty)| Wanted::new(name.clone(), *ty)).collect()
}

/// Runs a program on tensors for its inputs, in order.
pub(crate) fn run(file: &ProgramFile, inputs: &[HostTensor]) -> Result<StateDict> {
    let mut engine = Native::new(NativeConfig::host())?;
    let program = engine.compiler().load(&file.program)?;
    let mut given: Vec<Value> =
        inputs.iter().map(|tensor| engine.upload(tensor)).collect::<Result<_, _>>()?;
    let results = engine.run(&program, &mut given, &file.scalars)?;
    let mut named = StateDict::new();
    for (name, place) in &file.outputs {
        let value = results.get(*place).context("the program has fewer results than names")?;
        named.insert(name.clone(), engine.download(value)?);
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Stages;
    use bytes::Bytes;
    use gt_compiler::Options;

    const TAPE: &str = "\
gt tape 1
%0 = input \"x\" : f32[2]
%1 = mul %0, 2.5
output %1 \"y\"
";

    fn whole() -> Vec<u8> {
        let tape = gt_ir::text::load(TAPE).unwrap().tape;
        Stages::new(&tape, Options::default()).unwrap().artifact().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<ProgramFile> {
        parse(Path::new("x.gtp"), bytes)
    }

    #[test]
    fn a_program_comes_back_and_computes_what_its_tape_says() {
        let file = read(&whole()).unwrap();
        let x =
            HostTensor::from_vec(vec![1.0_f32, -2.0], gt_ir::Shape::new(&[2]).unwrap()).unwrap();
        let results = run(&file, &[x]).unwrap();
        assert_eq!(results.get("y").unwrap().to_vec::<f32>().unwrap(), [2.5, -5.0]);
    }

    /// Every bit is flipped, also in names, types and literals.
    #[test]
    fn every_flipped_bit_is_refused() {
        let mut bytes = whole();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let refused = read(&bytes).err().map(|error| error.to_string());
                let refused =
                    refused.unwrap_or_else(|| panic!("bit {bit} of byte {at} was flipped"));
                assert!(refused.contains("x.gtp") && refused.contains("hint: "), "{refused}");
                // Bytes that no longer look like a program are read as a tape, and are not a tape.
                let tape = files::tape_of(Path::new("x.gtp"), Bytes::copy_from_slice(&bytes));
                assert!(tape.is_err(), "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
        assert!(read(&bytes).is_ok());
    }

    #[test]
    fn what_is_cut_off_or_longer_is_refused() {
        let bytes = whole();
        for n in 0..bytes.len() {
            assert!(read(&bytes[..n]).is_err(), "{n} of {} bytes", bytes.len());
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_err());
    }
}
