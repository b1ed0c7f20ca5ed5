//! `gt-cli compile`: verifies a tape file, and prints it at any stage on its way to machine code.
//!
//! The tape is a whole program: values alive at its end are freed there, inputs included. The text
//! of a stage depends only on the tape and the options. Only the report contains times.

mod report;
mod sharded;
mod signals;
mod stages;

use crate::args::{CompileArgs, Emit};
use crate::files::{self, Checked};
use anyhow::{Result, bail};
use gt_compiler::Options;
use gt_compiler::shard::Auto;
use gt_ir::backend::Demand;
use gt_ir::config::ConfigFile;
use gt_ir::signal::Signals;
use gt_ir::{Entry, Graph};
use serde_json::{Value, json};
use sharded::Sharded;
pub(crate) use stages::Stages;
use std::path::Path;

pub(crate) fn compile(args: &CompileArgs, json: bool) -> Result<()> {
    let checked = files::tape(&args.file)?;
    let memory = args.memory.and_then(|bytes| usize::try_from(bytes).ok());
    let stages = Stages::new(&checked.tape, options(args)?)?.within(memory);
    let config = args.config.as_deref().map(signals::read).transpose()?;
    if let Some(file) = &args.output {
        files::write(file, &stages.artifact()?)?;
        if file == Path::new("-") || (!json && args.emit.is_none()) {
            return Ok(());
        }
    }
    let sharded = sharded(args, &checked, config.as_ref())?;
    let config = config.map(|file| file.signals);
    let text = match (args.emit, json) {
        (emit, true) => {
            let mut object = object(&checked, &stages, config.as_ref(), emit)?;
            add_sharded(&mut object, sharded.as_ref(), emit);
            format!("{object}\n")
        }
        (Some(Emit::Sharded), false) => sharded.as_ref().map_or_else(String::new, Sharded::text),
        (Some(Emit::Dot), false) if sharded.is_some() => {
            sharded.as_ref().map_or_else(String::new, Sharded::dot)
        }
        (Some(emit), false) => stages.text(emit)?,
        (None, false) => {
            format!("{}\n# graph\n{}", stages.text(Emit::Tape)?, stages.text(Emit::Graph)?)
        }
    };
    // The configuration is printed with stages that show the scopes.
    let scoped = matches!(
        args.emit,
        None | Some(Emit::Tape | Emit::Canonical | Emit::Graph | Emit::Optimized)
    );
    let text = match &config {
        Some(config) if scoped && !json => {
            let warnings = sharded.as_ref().map_or(&[][..], Sharded::warnings);
            signals::comments(&checked.tape, config, warnings) + &text
        }
        Some(_) | None => text,
    };
    files::write(Path::new("-"), text.as_bytes())
}

/// The tape on several workers, if that stage or a configuration is requested.
fn sharded(
    args: &CompileArgs,
    checked: &Checked,
    config: Option<&ConfigFile>,
) -> Result<Option<Sharded>> {
    let drawn = args.emit == Some(Emit::Dot) && args.workers.is_some();
    if config.is_none() && args.emit != Some(Emit::Sharded) && !drawn {
        return Ok(None);
    }
    let none = ConfigFile::default();
    let ConfigFile { session, signals } = config.unwrap_or(&none);
    let asked = session.workers.and_then(|n| u32::try_from(n).ok());
    let n_workers = args.workers.or(asked).or_else(|| sharded::named(signals));
    match (n_workers, args.emit) {
        (Some(n), _) => {
            let asked = Demand {
                auto: Some(args.auto).filter(|auto| *auto),
                zero: args.zero,
                ..Demand::new()
            };
            let memory = args.memory.unwrap_or(0);
            let auto = asked.or(session).plans().map(|zero| Auto { zero, memory });
            let rates = args.rates.unwrap_or_default();
            let about = (signals, auto, rates);
            Sharded::new(&checked.tape, about, (n, args.worker), args.explain).map(Some)
        }
        (None, Some(Emit::Sharded | Emit::Dot)) => {
            bail!("the signals name more than 64 workers; add --workers N")
        }
        (None, _) => Ok(None),
    }
}

fn add_sharded(object: &mut Value, sharded: Option<&Sharded>, emit: Option<Emit>) {
    let Some(sharded) = sharded else { return };
    object["warnings"] = json!(sharded.warnings());
    match emit {
        Some(Emit::Sharded) => {
            object["sharded"] = sharded.object();
            object["text"] = json!(sharded.text());
        }
        Some(Emit::Dot) => object["text"] = json!(sharded.dot()),
        _ => {}
    }
}

/// The options of the command line, or else of the environment.
fn options(args: &CompileArgs) -> Result<Options> {
    let mut options = Options::from_env()?;
    if let Some(numerics) = args.numerics {
        options.numerics = numerics;
    }
    Ok(options)
}

/// The object of `--json`, with the requested stage.
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
        if emit != Emit::Sharded {
            object["text"] = json!(stages.text(emit)?);
        }
    }
    // Last, because it covers the work for the stage too.
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
