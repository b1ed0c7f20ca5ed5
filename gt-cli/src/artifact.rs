//! Compiled programs in files: what `compile -o` writes and `run` runs without compiling.
//!
//! A file holds the names and types a tape gives its inputs and outputs, its literals, and the
//! program as the compiler writes it. A checksum over all of that finds damage; whether the program
//! fits this build and this processor the compiler checks. It holds machine code: trust
//! it as you would any executable.

use crate::boundary::{self, Wanted};
use crate::files::{self, PROGRAM};
use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use gt_compiler::{Engine, Native, NativeConfig, Value, checksum};
use gt_ir::graph::Segment;
use gt_ir::{HostTensor, Scalar, Tape, Type};
use gt_lang::state::StateDict;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The number of the format. In format 1 the checksum covered the program alone.
const VERSION: &[u8] = b"2\n";

/// A program, with the names of its inputs and outputs.
#[derive(Serialize, Deserialize)]
pub(crate) struct Artifact {
    inputs: Vec<(String, Type)>,
    /// Names, and which result of the program each is.
    outputs: Vec<(String, usize)>,
    scalars: Vec<Scalar>,
    program: Vec<u8>,
}

impl Artifact {
    /// A compiled program, with the names of its tape's inputs and outputs.
    pub(crate) fn new(tape: &Tape, segment: &Segment, program: Vec<u8>) -> Result<Artifact> {
        let place = |value| segment.outputs.iter().position(|output| *output == value);
        let outputs = boundary::outputs(tape)?.into_iter();
        let outputs = outputs.map(|(value, name)| Some((name, place(value)?)));
        let inputs = boundary::inputs(tape).into_iter();
        Ok(Artifact {
            inputs: inputs.map(|Wanted { name, ty, .. }| (name, ty)).collect(),
            outputs: outputs.collect::<Option<_>>().context(
                "an output of the tape is not computed\nhint: this is a defect of GT; the tape \
                 shows it",
            )?,
            scalars: segment.graph.slots().to_vec(),
            program,
        })
    }

    /// The bytes of its file: the checksum of everything behind it comes first.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let contents = postcard::to_stdvec(self)?;
        Ok([PROGRAM, VERSION, &checksum(&contents).to_le_bytes(), &contents].concat())
    }

    /// The program in the bytes of a file.
    pub(crate) fn parse(path: &Path, bytes: &Bytes) -> Result<Artifact> {
        let file = files::shown(path);
        let damaged = || {
            anyhow!(
                "{file} is damaged\nhint: compile it again, with `gt-cli compile TAPE -o {file}`"
            )
        };
        let rest = bytes.strip_prefix(PROGRAM).ok_or_else(damaged)?;
        let version = rest.get(..VERSION.len()).ok_or_else(damaged)?;
        ensure!(
            version == VERSION,
            "{file} is a compiled program of another format, or damaged\nhint: compile it again, \
             with `gt-cli compile TAPE -o {file}`"
        );
        let (sum, contents) = rest[VERSION.len()..].split_first_chunk::<8>().ok_or_else(damaged)?;
        ensure!(u64::from_le_bytes(*sum) == checksum(contents), damaged());
        postcard::from_bytes(contents).map_err(|_| damaged())
    }

    /// The inputs that need tensors.
    pub(crate) fn inputs(&self) -> Vec<Wanted> {
        let wanted = |(name, ty): &(String, Type)| Wanted::new(name.clone(), *ty);
        self.inputs.iter().map(wanted).collect()
    }

    /// Runs it on tensors for its inputs, in order.
    pub(crate) fn run(&self, inputs: &[HostTensor]) -> Result<StateDict> {
        let mut engine = Native::new(NativeConfig::host())?;
        let program = engine.compiler().load(&self.program)?;
        let mut given: Vec<Value> =
            inputs.iter().map(|tensor| engine.upload(tensor)).collect::<Result<_, _>>()?;
        let results = engine.run(&program, &mut given, &self.scalars)?;
        let mut named = StateDict::new();
        for (name, place) in &self.outputs {
            let value = results.get(*place).context("the program has fewer results than names")?;
            named.insert(name.clone(), engine.download(value)?);
        }
        Ok(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Stages;
    use gt_compiler::Options;

    const TAPE: &str = "\
gt tape 1
%0 = input \"x\" : f32[2]
%1 = mul %0, 2.5
output %1 \"y\"
";

    fn whole() -> Vec<u8> {
        let tape = gt_ir::text::load(TAPE).unwrap().tape;
        Stages::new(&tape, Options::default()).unwrap().artifact().unwrap().to_bytes().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Artifact> {
        Artifact::parse(Path::new("x.gtp"), &Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn a_program_comes_back_and_computes_what_its_tape_says() {
        let artifact = read(&whole()).unwrap();
        let x =
            HostTensor::from_vec(vec![1.0_f32, -2.0], gt_ir::Shape::new(&[2]).unwrap()).unwrap();
        let results = artifact.run(&[x]).unwrap();
        assert_eq!(results.get("y").unwrap().to_vec::<f32>().unwrap(), [2.5, -5.0]);
    }

    /// Wherever a bit is flipped: in names, types and literals too.
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
                // What no longer looks like a program is taken for a tape, and is none.
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
