//! From the graph of a segment to the graph that engines compile: the list of passes, and the
//! driver that runs and checks them.
//!
//! Guarantees: the result is a valid expanded graph with the inputs, slots and output types of the
//! argument, and depends on the argument, the options and the stated machine alone. Under
//! [`Numerics::Exact`] every output has the same bits as the instructions executed one by one. No
//! pass is trusted: after each one the driver checks the stage and the signature.
//!
//! `GT_DUMP=<pass>` (or `all`) prints the graph after that pass on standard error.

use std::io::Write as _;

use gt_ir::{
    Graph, NodeKind, OpError, Type,
    graph::{Calls, Stage},
};

use crate::{
    clock::Clock,
    cost::{self, Machine},
    egraph::{self, Rewrite},
    options::{Numerics, Options},
    passes::{
        CancelCasts, Canonicalize, Context, Cse, Dce, Fold, JoinPads, Movement, OneHots, Pass,
        Reciprocals, SinkPermutes, Slices, TurnProducts,
    },
    report::{PassReport, Report},
};

/// The passes, in order.
const PASSES: &[&dyn Pass] = &[
    // First, so that what follows meets one spelling of everything.
    &Canonicalize,
    // Before folding: a cast less is a constant more.
    &CancelCasts,
    &Fold,
    // Before movements compose: it makes some that cancel.
    &TurnProducts,
    // After folding, which makes constants of expressions that are moved afterwards.
    &Movement,
    // Looks for permutations that undo each other, which movements that have been composed show.
    &SinkPermutes,
    &Movement,
    // After everything that makes spellings equal; before the search, whose blocks should hold each
    // value once.
    &Cse,
    // Before Dce, since an index is no longer expanded.
    &Slices,
    &Dce,
    // Behind Dce, since it relies on the checks of other nodes, which must be needed.
    &OneHots,
    &JoinPads,
    // The search sees the graph without noise.
    &Rewrite,
    // After the search, whose patterns hold divisions.
    &Reciprocals,
    // Blocks are rewritten one by one and may have come to the same thing.
    &Movement,
    &Cse,
];

/// The environment variable that names the pass whose result is printed.
const DUMP_VARIABLE: &str = "GT_DUMP";

/// A graph made cheaper, and how.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// Primitives, ready to be scheduled.
    pub graph: Graph,
    /// The report of the passes.
    pub report: Report,
    /// The graph after each pass, the expanded one first; empty unless asked for.
    pub stages: Vec<(&'static str, Graph)>,
}

/// Makes a graph cheaper without changing what it computes, as far as `options` tell.
///
/// # Errors
/// The graph is not one [`gt_ir::lower`] or [`gt_ir::expand`] made, or a pass has a bug.
pub fn optimize(
    traced: &Graph,
    options: &Options,
    machine: &Machine,
) -> Result<Optimized, OpError> {
    optimize_around(traced, options, machine, |_, _| false)
}

/// As [`optimize`], for an engine that has calls for some derived ops, which stay whole.
pub(crate) fn optimize_around(
    traced: &Graph,
    options: &Options,
    machine: &Machine,
    calls: Calls,
) -> Result<Optimized, OpError> {
    drive(traced, calls, options, machine, Stages::Drop)
}

/// As [`optimize`], and keeps the graph after each pass.
///
/// # Errors
/// As [`optimize`].
pub fn explain(traced: &Graph, options: &Options, machine: &Machine) -> Result<Optimized, OpError> {
    drive(traced, |_, _| false, options, machine, Stages::Keep)
}

/// The name of each rule of the e-graph, and the strictest policy under which it applies.
pub fn rules() -> impl Iterator<Item = (&'static str, Numerics)> {
    egraph::rules()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stages {
    Keep,
    Drop,
}

fn drive(
    traced: &Graph,
    calls: Calls,
    options: &Options,
    machine: &Machine,
    keep: Stages,
) -> Result<Optimized, OpError> {
    let clock = Clock::start();
    let mut stages = Vec::new();
    let mut after = |name: &'static str, graph: &Graph, report: &mut Report, took: u64| {
        report.passes.push(PassReport {
            name: name.to_owned(),
            nodes: graph.len(),
            nanoseconds: took,
        });
        dump(name, graph);
        if keep == Stages::Keep {
            stages.push((name, graph.clone()));
        }
    };
    let mut cx = Context { options, machine, report: Report::default() };
    let mut graph = traced.expanded_with(calls)?;
    after("expand", &graph, &mut cx.report, clock.nanoseconds());
    let (nodes, before, peak) = (graph.len(), cost::cost(&graph, machine), cost::peak(&graph));
    for pass in PASSES {
        let clock = Clock::start();
        if let Some(next) = pass.run(&graph, &mut cx)? {
            check(pass.name(), &graph, &next)?;
            graph = next;
        }
        after(pass.name(), &graph, &mut cx.report, clock.nanoseconds());
    }
    let mut report = cx.report;
    report.instructions =
        traced.ids().filter(|id| matches!(traced.node(*id).kind, NodeKind::Op(_))).count();
    report.nodes = [nodes, graph.len()];
    (report.before, report.after) = (before, cost::cost(&graph, machine));
    report.peak = [peak, cost::peak(&graph)];
    report.compile_ns = clock.nanoseconds();
    Ok(Optimized { graph, report, stages })
}

/// Whether a pass left the stage and the signature alone.
fn check(pass: &str, before: &Graph, after: &Graph) -> Result<(), OpError> {
    let broken = |what: &str| Err(OpError::new(format!("pass {pass}: {what}")));
    let types = |graph: &Graph, ids: &[gt_ir::NodeId]| -> Vec<Type> {
        ids.iter().map(|id| graph.node(*id).ty).collect()
    };
    let same = |a: &[Type], b: &[Type]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_layout(b))
    };
    if after.stage() != Stage::Expanded {
        return broken("the result is not an expanded graph");
    }
    if types(before, before.inputs()) != types(after, after.inputs()) {
        return broken("the inputs changed");
    }
    if before.slots() != after.slots() {
        return broken("the scalar slots changed");
    }
    if !same(&types(before, before.outputs()), &types(after, after.outputs())) {
        return broken("the types of the outputs changed");
    }
    Ok(())
}

fn dump(pass: &str, graph: &Graph) {
    let Some(wanted) = gt_settings::var_os(DUMP_VARIABLE) else { return };
    if wanted == pass || wanted == "all" {
        // Whoever closes standard error has read enough.
        let _ = writeln!(std::io::stderr(), "# after {pass}\n{graph}");
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::{
        HostTensor, Tape, interp, lower,
        testing::{Config, Source, difference, inputs, tape},
    };

    use super::*;

    #[test]
    fn every_pass_can_be_dumped_and_no_other() {
        let dumped = gt_settings::Setting::of_variable(DUMP_VARIABLE).unwrap().values.names;
        let passes = ["all", "expand"].into_iter().chain(PASSES.iter().map(|pass| pass.name()));
        let passes: std::collections::BTreeSet<&str> = passes.collect();
        assert_eq!(passes, dumped.iter().copied().collect());
    }

    /// Runs a graph on data for the inputs of the tape it was made from.
    fn run(graph: &Graph, tape: &Tape, source: &mut Source<'_>) -> Option<Vec<HostTensor>> {
        let data = inputs(tape, source).into_values().collect::<Vec<_>>();
        interp::run_graph(graph, &data, graph.slots()).ok()
    }

    /// Whether two results are the same to the bit, every `nan` being the same.
    fn same(a: &HostTensor, b: &HostTensor) -> bool {
        let nan = |x: f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
        let bits = |t: &HostTensor| t.to_f64().into_iter().map(nan).collect::<Vec<_>>();
        a.ty().same_layout(b.ty()) && (a.bytes() == b.bytes() || bits(a) == bits(b))
    }

    fn check(numerics: Numerics, config: &Config, seeds: std::ops::Range<u64>) {
        let options = Options { numerics, ..Options::default() };
        for seed in seeds {
            let mut source = Source::from_seed(seed);
            let tape = tape(&mut source, config);
            let graph = lower(&tape).unwrap();
            let optimized = optimize(&graph, &options, &Machine::PROCESSOR).unwrap().graph;
            let expanded = graph.expanded().unwrap();
            let want = run(&expanded, &tape, &mut Source::from_seed(seed));
            let got = run(&optimized, &tape, &mut Source::from_seed(seed));
            let (Some(want), Some(got)) = (want, got) else { continue };
            for (want, got) in want.iter().zip(&got) {
                let fault = match numerics {
                    Numerics::Exact => (!same(want, got))
                        .then(|| format!("{:?} {:?}", want.to_f64(), got.to_f64())),
                    // Its rules may turn NaN and infinities into numbers.
                    Numerics::Approximate if !want.to_f64().iter().all(|x| x.is_finite()) => None,
                    Numerics::Reassociate | Numerics::Approximate => difference(want, got, 1e3),
                };
                assert_eq!(fault, None, "seed {seed}, {numerics}\n{expanded}\n{optimized}");
            }
        }
    }

    #[test]
    fn exact_results_keep_their_bits() {
        let config = Config { jumps: true, instrs: 24, ..Config::default() };
        check(Numerics::Exact, &config, 0..150);
        check(Numerics::Exact, &Config { instrs: 30, ..Config::integers() }, 1000..1100);
    }

    #[test]
    fn other_results_stay_near() {
        check(Numerics::Reassociate, &Config::default(), 2000..2100);
        check(Numerics::Approximate, &Config::default(), 3000..3100);
    }

    #[test]
    fn passes_are_idempotent_and_deterministic() {
        let options = Options { numerics: Numerics::Reassociate, ..Options::default() };
        let machine = Machine::PROCESSOR;
        for seed in 0..60 {
            let tape =
                tape(&mut Source::from_seed(seed), &Config { instrs: 30, ..Config::default() });
            let graph = lower(&tape).unwrap();
            let mut cx =
                Context { options: &options, machine: &machine, report: Report::default() };
            let mut at = graph.expanded().unwrap();
            for pass in PASSES.iter().filter(|p| p.name() != Rewrite.name()) {
                at = pass.run(&at, &mut cx).unwrap().unwrap_or(at);
                let again = pass.run(&at, &mut cx).unwrap().unwrap_or_else(|| at.clone());
                assert_eq!(at.to_string(), again.to_string(), "seed {seed}, pass {}", pass.name());
            }
            let text = || optimize(&graph, &options, &machine).unwrap().graph.to_string();
            assert_eq!(text(), text(), "seed {seed}");
        }
    }
}
