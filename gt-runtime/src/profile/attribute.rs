//! The time of plans by line, op and signal: each job of a plan is divided among the instructions
//! behind it, by their floating-point operations.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gt_compiler::meter::Job;
use gt_ir::graph::segment;
use gt_ir::{Graph, Loc, NodeKind};

use super::recorder::{Launches, Recorder, Total};
use super::report::{Kernel, Row, line_of};

/// The line of what a launch takes beside its kernels: looking up values, memory, waking threads.
const BETWEEN: &str = "(between kernels)";

/// Sums by line, op, signal and kernel.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) lines: BTreeMap<String, Total>,
    pub(super) ops: BTreeMap<String, Total>,
    pub(super) signals: BTreeMap<String, Total>,
    pub(super) kernels: BTreeMap<(String, Vec<String>), Total>,
}

/// An instruction: its line, its op and its signals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) loc: Loc,
    pub(super) op: &'static str,
    pub(super) signal: String,
}

impl Place {
    /// `mlp.rs:12 matmul`.
    pub(super) fn short(&self) -> String {
        format!("{} {}", line_of(self.loc), self.op)
    }
}

impl Sums {
    pub(super) fn of(recorder: &Recorder) -> Sums {
        let mut sums = Sums::default();
        for ((loc, op, signal), total) in ordered(&recorder.instructions) {
            let place = Place { loc: *loc, op, signal: signal.to_string() };
            sums.add(&place, *total);
            let key = (format!("{op}, by itself"), vec![place.short()]);
            sums.kernels.entry(key).or_default().add(*total);
        }
        recorder.plans.iter().for_each(|plan| sums.plan(plan));
        sums
    }

    fn add(&mut self, place: &Place, total: Total) {
        self.lines.entry(line_of(place.loc)).or_default().add(total);
        self.ops.entry(place.op.to_owned()).or_default().add(total);
        let signal = if place.signal.is_empty() { "(none)" } else { &place.signal };
        self.signals.entry(signal.to_owned()).or_default().add(total);
    }

    fn plan(&mut self, plan: &Launches) {
        let jobs = plan.program.jobs();
        let places = places(plan);
        let (runs, mut rest) = (plan.runs as f64, plan.nanos as f64);
        for (job, &nanos) in jobs.iter().zip(&plan.jobs) {
            rest -= nanos as f64;
            let done = Total {
                calls: plan.runs,
                nanos: nanos as f64,
                flops: runs * job.flops() as f64,
                bytes: runs * job.bytes as f64,
            };
            self.job(job, &places, done);
        }
        let rest = Total { calls: plan.runs, nanos: rest.max(0.0), ..Total::default() };
        self.lines.entry(BETWEEN.into()).or_default().add(rest);
        self.ops.entry(BETWEEN.into()).or_default().add(rest);
        self.signals.entry(BETWEEN.into()).or_default().add(rest);
    }

    fn job(&mut self, job: &Job, places: &[Place], done: Total) {
        let all = (job.flops() as f64).max(1.0);
        let known = |origin: u32| places.get(origin as usize);
        for &(origin, flops) in &job.sources {
            let share = flops as f64 / all;
            let part = Total {
                calls: done.calls,
                nanos: done.nanos * share,
                flops: done.flops * share,
                bytes: done.bytes * share,
            };
            let unknown = Place { loc: Loc::NONE, op: "?", signal: String::new() };
            self.add(known(origin).unwrap_or(&unknown), part);
        }
        self.kernels.entry((job.name.clone(), lines(job, places))).or_default().add(done);
    }
}

/// The lines of a job with their ops, those with the most work first, each once.
pub(super) fn lines(job: &Job, places: &[Place]) -> Vec<String> {
    let mut sources = job.sources.clone();
    sources.sort_by_key(|&(origin, flops)| (std::cmp::Reverse(flops), origin));
    let mut lines: Vec<String> = Vec::new();
    for (origin, _) in sources {
        let Some(place) = places.get(origin as usize) else { continue };
        let line = place.short();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The instructions behind the nodes of a plan's graph, by the number of the node.
pub(super) fn places(plan: &Launches) -> Vec<Place> {
    let ty = |value: gt_ir::ValueId| plan.types.get(usize::try_from(value.0).ok()?).copied();
    let Ok(segment) = segment(&plan.tape, ty) else { return Vec::new() };
    let graph: &Graph = &segment.graph;
    let place = |id| {
        let node = graph.node(id);
        let op = match node.kind {
            NodeKind::Op(op) => op.name(),
            NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => "input",
        };
        let signal = node.signal.as_deref().unwrap_or_default().to_owned();
        Place { loc: node.loc, op, signal }
    };
    graph.ids().map(place).collect()
}

pub(super) fn row(name: String, total: Total) -> Row {
    let Total { calls, nanos, flops, bytes } = total;
    Row { name, calls, nanos, flops, bytes }
}

/// A line, an op and its signals.
type Key = (Loc, &'static str, Arc<str>);

/// The entries of a map in the order of their texts, so that sums do not depend on hashes.
fn ordered<T>(map: &HashMap<Key, T>) -> Vec<(&Key, &T)> {
    let mut all: Vec<_> = map.iter().collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    all
}

impl Sums {
    /// The kernels, by time.
    pub(super) fn into_kernels(kernels: BTreeMap<(String, Vec<String>), Total>) -> Vec<Kernel> {
        let kernel = |((name, lines), total): ((String, Vec<String>), Total)| Kernel {
            lines,
            row: row(name, total),
        };
        let mut all: Vec<Kernel> = kernels.into_iter().map(kernel).collect();
        all.sort_by(|a, b| b.row.nanos.total_cmp(&a.row.nanos));
        all
    }
}
