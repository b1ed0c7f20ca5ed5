//! Compiled programs in files: what `compile -o` writes and `run` runs without compiling.
//!
//! A file holds the names and types a tape gives its inputs and outputs, its literals, and the program as the compiler writes it. Whether
//! that fits this build and this processor the compiler checks, which also finds damage. It holds machine code: it is as trusted as a
//! program that somebody gives you.

use crate::compile::Stages;
use crate::files;
use crate::run::{self, Wanted};
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use gt_compiler::{Engine, Native, NativeConfig, Value};
use gt_ir::{HostTensor, Scalar, Type};
use gt_lang::state::StateDict;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The first bytes of such a file, with the number of its format.
const MAGIC: &[u8] = b"gt program 1\n";

/// A program and what its user calls what goes in and comes out.
#[derive(Serialize, Deserialize)]
pub(crate) struct Artifact {
    inputs: Vec<(String, Type)>,
    /// Names, and which result of the program each is.
    outputs: Vec<(String, usize)>,
    scalars: Vec<Scalar>,
    program: Vec<u8>,
}

/// Whether a file holds a compiled program.
pub(crate) fn is_artifact(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The file of a compiled tape.
pub(crate) fn print(stages: &Stages<'_>) -> Result<Vec<u8>> {
    let program = stages.compiled()?.program.to_bytes();
    let segment = &stages.segment;
    let inputs = run::inputs(stages.tape);
    let place = |value| segment.outputs.iter().position(|output| *output == value);
    let outputs = run::outputs(stages.tape)?.into_iter();
    let outputs = outputs.map(|(value, name)| Some((name, place(value)?)));
    let artifact = Artifact {
        inputs: inputs.into_iter().map(|Wanted { name, ty, .. }| (name, ty)).collect(),
        outputs: outputs.collect::<Option<_>>().context("an output is not computed")?,
        scalars: segment.graph.slots().to_vec(),
        program: program.context("the program cannot be written")?,
    };
    Ok([MAGIC, &postcard::to_stdvec(&artifact)?].concat())
}

/// The program of a file's bytes.
pub(crate) fn parse(path: &Path, bytes: &Bytes) -> Result<Artifact> {
    let damaged = || anyhow!("{} is damaged\nhint: compile it again", files::shown(path));
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
    postcard::from_bytes(rest).map_err(|_| damaged())
}

impl Artifact {
    /// What has to be given.
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
