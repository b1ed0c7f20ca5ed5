//! A partition as Graphviz draws it: a frame and a color for each worker, and a dashed edge with
//! its bytes for each value that a worker sends another.
//!
//! The text depends on the segment, the signals and the number of members only.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gt_ir::canonical::Bindings;
use gt_ir::graph::DOT_HEAD;
use gt_ir::op::infer;
use gt_ir::units::bytes;
use gt_ir::{Entry, Instr, Operand, OperandType, Tape, Type, ValueId};

use super::memory::held;
use super::print::Names;
use super::{Explained, Local, Phase, Step};

/// The colors of workers, which repeat.
const COLORS: [&str; 8] =
    ["#bfdbfe", "#fed7aa", "#bbf7d0", "#fecaca", "#ddd6fe", "#fef08a", "#a5f3fc", "#fbcfe8"];

/// What distinguishes values that a worker does not compute.
const ROUND: &str = ", shape=ellipse, style=filled";

/// One worker's part of a drawing.
#[derive(Default)]
struct Frame {
    nodes: String,
    /// The types of the values that it makes or receives.
    types: BTreeMap<Local, Type>,
}

impl Explained {
    /// The work of all members in Graphviz's language. The values are those of the tape of which
    /// the bindings were made.
    #[must_use]
    pub fn dot(&self, tape: &Tape, bindings: &Bindings) -> String {
        let names = Names::new(tape, bindings);
        let (mut out, mut edges) = (String::from(DOT_HEAD), String::new());
        for (member, part) in self.partition.parts.iter().enumerate() {
            let mut frame = Frame::default();
            for (number, ty) in held(part, member as u32, &self.values) {
                let value = names.value(number);
                let label = format!("{value} {}", names.origin(value));
                frame.node(member, Local::Given(number), &label, Some(ty), ROUND);
            }
            for step in &part.steps {
                match step {
                    Step::Run(phase) => frame.phase(member, phase, &mut edges),
                    Step::Send { value, to, made } => {
                        let size = frame.types.get(value).map_or(0, Type::bytes);
                        sent(&mut edges, (member, *value), (*to, *made), size);
                    }
                }
            }
            self.kept(member, &names, &mut frame, &mut edges);
            let color = COLORS[member % COLORS.len()];
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "  subgraph cluster_{member} {{\n    label=\"worker {member}\"; style=\"rounded\"; \
                 color=\"#94a3b8\";\n    node [fillcolor=\"{color}\"];\n{}  }}\n",
                frame.nodes
            );
        }
        out + &edges + "}\n"
    }

    /// The values that a member leaves.
    fn kept(&self, member: usize, names: &Names<'_>, frame: &mut Frame, edges: &mut String) {
        for kept in &self.partition.kept {
            let Some(rank) = kept.layout.mesh.rank_of(member as u32) else { continue };
            let (value, from) = (names.value(kept.value), node(member, kept.names[rank]));
            // Writing to a string cannot fail.
            let _ = writeln!(
                frame.nodes,
                "    k{member}_{} [label=\"keep {value}\\n{}\", shape=plaintext, style=\"\"];",
                value.0, kept.layout
            );
            let _ = writeln!(edges, "  {from} -> k{member}_{};", value.0);
        }
    }
}

impl Frame {
    fn node(&mut self, member: usize, local: Local, label: &str, ty: Option<Type>, style: &str) {
        let label = label.replace('\\', "\\\\").replace('"', "\\\"");
        let name = node(member, local);
        let shown = ty.map_or_else(String::new, |ty| format!("\\n{ty}"));
        // Writing to a string cannot fail.
        let _ = writeln!(self.nodes, "    {name} [label=\"{label}{shown}\"{style}];");
        self.types.extend(ty.map(|ty| (local, ty)));
    }

    fn phase(&mut self, member: usize, phase: &Phase, edges: &mut String) {
        let local = |value: ValueId| match phase.inputs.get(value.0 as usize) {
            Some(input) => *input,
            None => Local::Made(phase.first + (value.0 as usize - phase.inputs.len()) as u32),
        };
        for entry in &phase.template.tape.entries {
            match entry {
                Entry::Input { out, ty, .. } => {
                    self.node(member, local(*out), "received", Some(*ty), ROUND);
                }
                Entry::Instr(instr) => self.instruction(member, instr, local, edges),
                Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
            }
        }
    }

    fn instruction(
        &mut self,
        member: usize,
        instr: &Instr,
        local: impl Fn(ValueId) -> Local,
        edges: &mut String,
    ) {
        let out = local(instr.out);
        let operand = |input: &Operand| match input {
            Operand::Value(value) => {
                self.types.get(&local(*value)).map(|ty| OperandType::Tensor(*ty))
            }
            Operand::Scalar(scalar) => Some(OperandType::Scalar(*scalar)),
        };
        let types: Option<Vec<OperandType>> = instr.inputs.iter().map(operand).collect();
        let ty = types.and_then(|types| infer(&instr.op, &types).ok());
        self.node(member, out, &instr.op.to_string(), ty, "");
        for input in &instr.inputs {
            let Operand::Value(value) = input else { continue };
            // Writing to a string cannot fail.
            let _ = writeln!(edges, "  {} -> {};", node(member, local(*value)), node(member, out));
        }
    }
}

/// What a worker sends another, as a dashed edge.
fn sent(edges: &mut String, (from, value): (usize, Local), (to, made): (u32, u32), size: usize) {
    let (from, to) = (node(from, value), node(to as usize, Local::Made(made)));
    let color = "color=\"#dc2626\", fontcolor=\"#dc2626\"";
    // Writing to a string cannot fail.
    let label = bytes(size as u64);
    let _ = writeln!(edges, "  {from} -> {to} [style=dashed, {color}, label=\" {label}\"];");
}

/// The name of a value of a member.
fn node(member: usize, local: Local) -> String {
    match local {
        Local::Given(number) => format!("g{member}_{number}"),
        Local::Made(number) => format!("m{member}_{number}"),
    }
}
