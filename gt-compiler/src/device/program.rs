//! A compiled region of a device: its plan, its functions, and the graphs captured from it.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use super::{
    gpu::{Gpu, Work},
    graphs::Graphs,
    memory::HasGraphs,
    plan::{Plan, Step},
};
use crate::{
    device::Way,
    error::EngineError,
    program::{Dump, Executable},
    schedule::{Attention, BufferId},
};

/// A program of devices of one kind.
pub(super) struct DeviceProgram<G: Gpu>(pub(super) Arc<Loaded<G>>);

/// The part of a program that its clones share.
pub(super) struct Loaded<G: Gpu> {
    pub(super) plan: Plan,
    pub(super) functions: Vec<G::Function>,
    /// That of the compiler it comes from.
    pub(super) mark: Arc<()>,
    /// Held while the program runs; whoever looks for memory skips what is held.
    pub(super) graphs: Mutex<Graphs<G>>,
}

impl<G: Gpu> DeviceProgram<G> {
    pub(super) fn new(plan: Plan, functions: Vec<G::Function>, mark: Arc<()>) -> DeviceProgram<G> {
        DeviceProgram(Arc::new(Loaded { plan, functions, mark, graphs: Mutex::default() }))
    }
}

impl<G: Gpu> HasGraphs for Loaded<G> {
    fn oldest(&self) -> Option<u64> {
        self.graphs.try_lock().ok()?.oldest()
    }

    fn drop_oldest(&self) {
        if let Ok(mut graphs) = self.graphs.try_lock() {
            graphs.drop_oldest();
        }
    }
}

impl<G: Gpu> Executable for DeviceProgram<G> {
    fn n_steps(&self) -> usize {
        self.0.plan.steps.len()
    }

    fn n_kernels(&self) -> usize {
        self.0.plan.steps.len()
    }

    fn temporary_bytes(&self) -> usize {
        self.0.plan.arena
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        None
    }

    fn dump(&self, what: Dump) -> Result<String, EngineError> {
        match what {
            Dump::Plan => Ok(steps(&self.0.plan)),
            Dump::Kernels => Ok(works(&self.0.plan)),
            Dump::Clif | Dump::Asm => Err(EngineError::Missing {
                what: "kernels of a device have no such text".into(),
                hint: "ask for the plan or the kernels",
            }),
        }
    }
}

fn works(plan: &Plan) -> String {
    let lines = plan.works.iter().enumerate();
    lines.map(|(n, work)| format!("f{n}: {work:?}\n")).collect()
}

fn steps(plan: &Plan) -> String {
    let mut out = String::new();
    for step in &plan.steps {
        let line = match step {
            Step::Launch { function, buffers, .. } => {
                let kind = match &plan.works[*function] {
                    Work::Kernel { .. } => "kernel".into(),
                    Work::Joint(joint) => match &joint.way {
                        Way::Beside => format!("{} kernels side by side", joint.parts.len()),
                        Way::Rows { rows, .. } => {
                            format!("{} kernels along {rows} rows", joint.parts.len())
                        }
                    },
                    Work::Fold(_) => "fold".into(),
                    Work::Routine(r) => r.op.to_string(),
                };
                let names: Vec<String> = buffers.iter().map(|b| name(plan, *b)).collect();
                format!("f{function} {kind} ({})", names.join(", "))
            }
            Step::Host(work) => work.told(),
            Step::Attention(a, _) => attention(plan, a),
            Step::Product(m, affine) => format!(
                "{} = {} * {}{}{} : {} {:?} {}x{}x{}",
                name(plan, m.out),
                name(plan, m.lhs.buffer),
                name(plan, m.rhs.buffer),
                affine.map(|a| format!(" + {}", name(plan, a.bias))).unwrap_or_default(),
                affine
                    .and_then(|a| a.activation)
                    .map(|activation| format!(", {activation:?}").to_lowercase())
                    .unwrap_or_default(),
                m.dtype,
                m.batch,
                m.m,
                m.k,
                m.n
            ),
        };
        let _ = writeln!(out, "{line}");
    }
    out
}

fn attention(plan: &Plan, a: &Attention) -> String {
    let list = |buffers: &mut dyn Iterator<Item = BufferId>| {
        buffers.map(|b| name(plan, b)).collect::<Vec<_>>().join(", ")
    };
    format!(
        "{} = attention{}({}) : {} {}x{}x{}x{}x{}",
        list(&mut a.writes()),
        if a.back.is_some() { " backward " } else { " " },
        list(&mut a.reads()),
        a.dtype,
        a.batch,
        a.heads,
        a.length,
        a.positions,
        a.width
    )
}

fn name(plan: &Plan, buffer: BufferId) -> String {
    format!("b{}:{:?}", buffer.0, plan.layout.places[buffer.index()])
}
