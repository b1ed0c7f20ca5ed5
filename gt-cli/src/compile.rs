//! `gt-cli compile`: a tape file, verified, as text, as a graph, or for Graphviz.

use crate::args::{CompileArgs, Emit};
use crate::files::{self, Checked};
use anyhow::Result;
use gt_ir::{Entry, Graph};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn compile(args: &CompileArgs, json: bool) -> Result<()> {
    let checked = files::tape(&args.file)?;
    let graph = gt_ir::lower(&checked.tape)?;
    let tape = || gt_ir::text::print(&checked.tape);
    let text = match args.emit {
        _ if json => format!("{}\n", summary(&checked, &graph)),
        Some(Emit::Tape) => tape(),
        Some(Emit::Graph) => graph.to_string(),
        Some(Emit::Dot) => graph.to_dot(),
        None => format!("{}\n# graph\n{graph}", tape()),
    };
    files::write(Path::new("-"), text.as_bytes())
}

/// What a program wants to know of a tape before it runs it.
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
    json!({ "inputs": inputs, "outputs": outputs, "instructions": n_instructions, "nodes": graph.len() })
}
