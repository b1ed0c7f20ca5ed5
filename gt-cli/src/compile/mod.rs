//! `gt-cli compile`: a tape file, verified, at any stage on its way to machine code.
//!
//! The tape is taken as a whole program: what it does not read nobody needs, so it is freed at the
//! end, inputs included. Every stage is a text that is the same for the same tape and options;
//! times are in the report only.

mod report;
mod signals;
mod stages;

use crate::args::{CompileArgs, Emit};
use crate::files::{self, Checked};
use anyhow::Result;
use gt_compiler::Options;
use gt_ir::signal::Signals;
use gt_ir::{Entry, Graph};
use serde_json::{Value, json};
pub(crate) use stages::Stages;
use std::path::Path;

pub(crate) fn compile(args: &CompileArgs, json: bool) -> Result<()> {
    let checked = files::tape(&args.file)?;
    let stages = Stages::new(&checked.tape, options(args)?)?;
    let config = args.config.as_deref().map(signals::read).transpose()?;
    if let Some(file) = &args.output {
        files::write(file, &stages.artifact()?)?;
        if file == Path::new("-") || (!json && args.emit.is_none()) {
            return Ok(());
        }
    }
    let text = match (args.emit, json) {
        (emit, true) => format!("{}\n", object(&checked, &stages, config.as_ref(), emit)?),
        (Some(emit), false) => stages.text(emit)?,
        (None, false) => {
            format!("{}\n# graph\n{}", stages.text(Emit::Tape)?, stages.text(Emit::Graph)?)
        }
    };
    // Where the scopes are to be seen, so is what is said about them.
    let scoped = matches!(
        args.emit,
        None | Some(Emit::Tape | Emit::Canonical | Emit::Graph | Emit::Optimized)
    );
    let text = match &config {
        Some(config) if scoped && !json => signals::comments(&checked.tape, config) + &text,
        Some(_) | None => text,
    };
    files::write(Path::new("-"), text.as_bytes())
}

/// What the command line or the environment says.
fn options(args: &CompileArgs) -> Result<Options> {
    let mut options = Options::from_env()?;
    if let Some(numerics) = args.numerics {
        options.numerics = numerics;
    }
    Ok(options)
}

/// What a program wants to know of a tape, and the stage it asked for.
fn object(
    checked: &Checked,
    stages: &Stages<'_>,
    config: Option<&Signals>,
    emit: Option<Emit>,
) -> Result<Value> {
    let mut object = summary(checked, &stages.segment.graph);
    if let Some(config) = config {
        object["signals"] = signals::object(&checked.tape, config);
    }
    object["key"] = json!(stages.template().key.to_string());
    if let Some(emit) = emit {
        object["stage"] = json!(emit.name());
        object["text"] = json!(stages.text(emit)?);
    }
    // Last: it tells of all that had to be done for the stage.
    object["report"] = report::json(stages.report()?)?;
    Ok(object)
}

fn summary(Checked { tape, types }: &Checked, graph: &Graph) -> Value {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, ty, name } => {
                inputs.push(
                    json!({ "value": out.to_string(), "name": name, "type": ty.to_string() }),
                );
            }
            Entry::Output { value, name } => {
                let ty = types.ty(*value).map(|ty| ty.to_string());
                outputs.push(json!({ "value": value.to_string(), "name": name, "type": ty }));
            }
            Entry::Instr(_) | Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) => {}
        }
    }
    let n_instructions = tape.instrs().count();
    json!({
        "inputs": inputs,
        "outputs": outputs,
        "instructions": n_instructions,
        "nodes": graph.len(),
    })
}
