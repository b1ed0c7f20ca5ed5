//! `gt-cli run`: runs a tape on tensors from a file, in this process or on a server, or a compiled
//! program in this process.

use crate::args::RunArgs;
use crate::boundary::{bind, inputs, outputs};
use crate::fault::advised;
use crate::{artifact, fault, files, signals, system, tensors};
use anyhow::{Context, Result, ensure};
use gt_compiler::ProgramFile;
use gt_ir::backend::Backend;
use gt_ir::{Entry, HostTensor, Tape, ValueId};
use gt_lang::state::StateDict;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The most elements that are printed of an output.
const MAX_PRINTED: usize = 100;

pub(crate) fn run(args: &RunArgs, json: bool) -> Result<()> {
    let bytes = files::read(&args.file)?;
    let interrupted = "the run was interrupted; nothing was written";
    let results = if ProgramFile::is(&bytes) {
        ensure!(
            args.connect.is_none(),
            advised(
                "a compiled program runs in this process, not on a server",
                "leave out `--connect`, or run the tape of the program"
            )
        );
        ensure!(
            !args.compute.is_given(),
            advised(
                "a compiled program runs on the engine for which it was compiled",
                "leave out `--engine` and `--device`, or run the tape of the program"
            )
        );
        let program = artifact::parse(&args.file, &bytes)?;
        let inputs = bind(&artifact::inputs(&program), &given(args)?)?;
        signals::end_at_interrupt(interrupted)?;
        artifact::run(&program, &inputs).with_context(|| files::shown(&args.file))?
    } else {
        let tape = files::tape_of(&args.file, bytes)?.tape;
        let wanted = inputs(&tape);
        let tensors = bind(&wanted, &given(args)?)?;
        let inputs = wanted.iter().map(|input| input.value).zip(tensors).collect();
        let wanted = outputs(&tape)?;
        signals::end_at_interrupt(interrupted)?;
        let backend = system::open(args.connect.as_deref(), &args.compute, (false, None))?;
        let results = execute(backend.as_ref(), tape, inputs, &wanted);
        backend.close();
        results?
    };
    match &args.outputs {
        Some(path) => tensors::write(path, &results)?,
        None if !json => files::write(Path::new("-"), shown(&results).as_bytes())?,
        None => {}
    }
    if json && args.outputs.as_deref() != Some(Path::new("-")) {
        let types: BTreeMap<&str, String> =
            results.iter().map(|(name, tensor)| (name, tensor.ty().to_string())).collect();
        files::write(Path::new("-"), format!("{}\n", json!({ "outputs": types })).as_bytes())?;
    }
    Ok(())
}

/// The tensors of the file of inputs.
fn given(args: &RunArgs) -> Result<StateDict> {
    args.inputs.as_deref().map_or_else(|| Ok(StateDict::new()), tensors::read)
}

/// Runs the tape as one segment. Frees of outputs are removed, so outputs stay alive until they are
/// read. All other values end with the session.
fn execute(
    backend: &dyn Backend,
    mut tape: Tape,
    inputs: Vec<(ValueId, HostTensor)>,
    wanted: &[(ValueId, String)],
) -> Result<StateDict> {
    tape.entries.retain(
        |entry| !matches!(entry, Entry::Free(value) if wanted.iter().any(|(w, _)| w == value)),
    );
    inputs.into_iter().for_each(|(value, tensor)| backend.upload(value, tensor));
    backend.submit(tape);
    wanted
        .iter()
        .map(|(value, name)| Ok((name.clone(), backend.fetch(*value).map_err(fault::run_error)?)))
        .collect()
}

/// The outputs as text: name and type, then the first values.
fn shown(results: &StateDict) -> String {
    let mut text = String::new();
    for (name, tensor) in results.iter() {
        let values = tensors::values(tensor, MAX_PRINTED).join(" ");
        let more = tensor.ty().shape.numel().saturating_sub(MAX_PRINTED);
        let more = if more == 0 { String::new() } else { format!(" ... and {more} more") };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} : {}\n  {values}{more}", tensor.ty());
    }
    text
}
