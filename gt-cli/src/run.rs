//! `gt-cli run`: a tape on tensors from a file, in this process or on a server; or a compiled
//! program, in this process.

use crate::args::RunArgs;
use crate::{artifact, fault, files, signals, system, tensors};
use anyhow::{Context, Result, bail, ensure};
use gt_ir::backend::Backend;
use gt_ir::{Entry, HostTensor, Tape, Type, ValueId};
use gt_lang::state::StateDict;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Elements of an output that are printed when no file takes them.
const MAX_PRINTED: usize = 100;

/// An input that has to be given.
pub(crate) struct Wanted {
    pub(crate) value: ValueId,
    pub(crate) name: String,
    pub(crate) ty: Type,
}

impl Wanted {
    /// An input of a program whose values have no numbers.
    pub(crate) fn new(name: String, ty: Type) -> Wanted {
        Wanted { value: ValueId(0), name, ty }
    }
}

pub(crate) fn run(args: &RunArgs, json: bool) -> Result<()> {
    let bytes = files::read(&args.file)?;
    let interrupted = "the run was interrupted; nothing was written";
    let results = if artifact::is_artifact(&bytes) {
        ensure!(
            args.connect.is_none(),
            "a compiled program runs in this process, not on a server\nhint: leave out \
             `--connect`, or give the tape it was compiled from"
        );
        ensure!(
            !args.compute.is_given(),
            "a compiled program runs on the engine it was compiled for\nhint: leave out \
             `--engine` and `--device`, or give the tape it was compiled from"
        );
        let program = artifact::parse(&args.file, &bytes)?;
        let inputs = bind(&program.inputs(), &given(args)?)?;
        signals::end_at_interrupt(interrupted)?;
        program.run(&inputs).with_context(|| files::shown(&args.file))?
    } else {
        let tape = files::tape_of(&args.file, bytes)?.tape;
        let wanted = inputs(&tape);
        let tensors = bind(&wanted, &given(args)?)?;
        let inputs = wanted.iter().map(|input| input.value).zip(tensors).collect();
        let wanted = outputs(&tape)?;
        signals::end_at_interrupt(interrupted)?;
        let backend = system::open(args.connect.as_deref(), &args.compute)?;
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

/// The tensors the user gives.
fn given(args: &RunArgs) -> Result<StateDict> {
    args.inputs.as_deref().map_or_else(|| Ok(StateDict::new()), tensors::read)
}

/// The inputs of a tape.
pub(crate) fn inputs(tape: &Tape) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for entry in &tape.entries {
        if let Entry::Input { out, ty, name } = entry {
            wanted.push(Wanted { value: *out, name: name_of(*out, name.as_ref()), ty: *ty });
        }
    }
    wanted
}

/// The tensor of each input, found by its name, with the type that is declared.
pub(crate) fn bind(wanted: &[Wanted], given: &StateDict) -> Result<Vec<HostTensor>> {
    let names = given.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let mut bound = Vec::new();
    for Wanted { name, ty, .. } in wanted {
        let Some(tensor) = given.get(name) else {
            let there = if names.is_empty() {
                "no tensors are given".into()
            } else {
                format!("given are: {names}")
            };
            bail!(
                "no tensor for input `{name}` ({ty}); {there}\nhint: `--inputs FILE.safetensors` \
                 names a file with it"
            );
        };
        let fits = tensor.ty().dtype == ty.dtype && tensor.ty().shape.sizes() == ty.shape.sizes();
        ensure!(
            fits,
            "input `{name}` is {ty} on the tape, but {} in the file\nhint: dtype and sizes must \
             be the same",
            tensor.ty()
        );
        bound.push(HostTensor::new(*ty, tensor.clone().into_bytes())?);
    }
    Ok(bound)
}

/// The outputs with their names, in the tape's order.
pub(crate) fn outputs(tape: &Tape) -> Result<Vec<(ValueId, String)>> {
    let mut taken = BTreeSet::new();
    let mut wanted = Vec::new();
    for entry in &tape.entries {
        let Entry::Output { value, name } = entry else { continue };
        let name = name_of(*value, name.as_ref());
        ensure!(
            taken.insert(name.clone()),
            "two outputs are called `{name}`\nhint: write `output %N \"NAME\"` with a name of its \
             own for each"
        );
        wanted.push((*value, name));
    }
    ensure!(
        !wanted.is_empty(),
        "the tape has no output, so there is nothing to run for\nhint: add `output %N` for what \
         is to be computed"
    );
    Ok(wanted)
}

fn name_of(value: ValueId, name: Option<&Arc<str>>) -> String {
    name.map_or_else(|| value.to_string(), |name| name.to_string())
}

/// Runs the tape as one segment. Outputs stay alive until they are read, whatever the tape frees
/// after them; the rest ends with the session.
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

/// The outputs for people: name and type, then the values, the first of them where there are many.
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gt_ir::{DType, Shape, Type};

    fn tape(text: &str) -> Tape {
        gt_ir::text::load(text).unwrap().tape
    }

    fn tensor(dtype: DType, sizes: &[usize]) -> HostTensor {
        let ty = Type::new(dtype, Shape::new(sizes).unwrap());
        HostTensor::new(ty, Bytes::from(vec![0; ty.bytes()])).unwrap()
    }

    #[test]
    fn inputs_are_found_by_name_or_number() {
        let tape = tape("gt tape 1\n%0 = input \"x\" : f32[B=2]\n%3 = input : i64[]\noutput %0\n");
        let given = [
            ("x", tensor(DType::F32, &[2])),
            ("%3", tensor(DType::I64, &[])),
            ("unused", tensor(DType::U8, &[1])),
        ];
        let given = |left_out: &str| -> StateDict {
            let rest = given.iter().filter(|(name, _)| *name != left_out);
            rest.map(|(name, tensor)| (name.to_string(), tensor.clone())).collect()
        };
        let wanted = inputs(&tape);
        let bound = bind(&wanted, &given("")).unwrap();
        assert_eq!(
            bound.iter().map(|tensor| tensor.ty().to_string()).collect::<Vec<_>>(),
            ["f32[B=2]", "i64[]"]
        );

        let error = bind(&wanted, &given("x")).unwrap_err().to_string();
        assert!(
            error.starts_with("no tensor for input `x` (f32[B=2]); given are: %3, unused"),
            "{error}"
        );
        let mut wrong = given("");
        wrong.insert("x", tensor(DType::F32, &[3]));
        let error = bind(&wanted, &wrong).unwrap_err().to_string();
        let told = "input `x` is f32[B=2] on the tape, but f32[3] in the file\nhint: ";
        assert!(error.starts_with(told), "{error}");
    }

    #[test]
    fn outputs_have_names_of_their_own() {
        let two = tape("gt tape 1\n%0 = input : f32[]\n%1 = exp %0\noutput %0\noutput %1 \"y\"\n");
        assert_eq!(
            outputs(&two).unwrap(),
            [(ValueId(0), "%0".to_string()), (ValueId(1), "y".to_string())]
        );
        for bad in
            ["gt tape 1\n", "gt tape 1\n%0 = input : f32[]\noutput %0 \"a\"\noutput %0 \"a\"\n"]
        {
            assert!(outputs(&tape(bad)).is_err());
        }
    }
}
