//! Filetests of the compiler: every `*.gt` under `tests/files`.
//!
//! - `; test optimize [POLICY]`: the graph that the passes leave under a numerics policy (`exact`
//!   where none is named), what the cost model says of it before and after, and the rules that
//!   fired if the search found a cheaper graph.
//! - `; test schedule [POLICY|BYTES]`: what the native engine runs, on two threads: the launches,
//!   the tiles in them, and the formulas of the kernels; with a number, if a run may allocate so
//!   many bytes.
//! - `; test shard N`: the layouts of values on `N` members and the exchanges between members,
//!   under the signals that lines `; config batch: {shard: {axis: 0}}` configure. An input with the
//!   name of an output is state, and is where the step before has left it. Of the others, an input
//!   that the tape frees is an upload; the first member holds the rest. Nothing is run.
//! - `; test order N`: the phases of each member's work in their order, and what it sends.
//! - `; test dot N`: the same in Graphviz's language, each member's work in its own color.
//!
//! A tape is a whole program: only its outputs are read. The memory of an input may be reused where
//! the tape frees it. Graphs and schedules are also run, on random inputs and on those of lines
//! `; in %0 = ..`: a graph by the interpreter, a schedule by the engine. The interpreter finds the
//! results of the tape for both; under `exact`, the bits of the results.

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, path::Path, sync::Arc};

use gt_compiler::{
    Dump, Engine, Machine, Numerics, Options, Value,
    pipeline::{self, Optimized, optimize},
    shard::{self, Explained, Rates, Request},
};
use gt_ir::{
    Entry, Graph, HostTensor, Segment, Tape, Type, ValueId,
    canonical::{Bindings, canonical},
    interp,
    layout::Layout,
    signal::Signals,
    testing::{
        Source, difference,
        filetest::{Action, Case, Command, run_folder},
        inputs, same_bits, units,
    },
    text::{self, Loaded},
};

use crate::random::{native, owned};

const COMMANDS: &[Command] = &[
    Command { name: "optimize", action: Action::Text(print_optimized) },
    Command { name: "schedule", action: Action::Text(print_schedule) },
    Command { name: "shard", action: Action::Text(print_shard) },
    Command { name: "order", action: Action::Text(print_order) },
    Command { name: "dot", action: Action::Text(print_dot) },
];

/// How many random inputs a program is run on.
const RUNS: u64 = 4;

#[test]
fn every_file_is_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let n = run_folder(&root, COMMANDS).unwrap_or_else(|failures| panic!("{failures}"));
    assert!(n > 20, "only {n} files found");
}

/// A rule earns its row by a program that it makes cheaper: the filetests print the rules that
/// fired where the search found a cheaper graph.
#[test]
fn every_rule_makes_a_program_of_the_filetests_cheaper() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let mut fired = BTreeSet::new();
    for folder in ["optimize", "rules"] {
        for file in fs::read_dir(root.join(folder)).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let lines = text.lines().filter_map(|line| line.strip_prefix(";| rules "));
            fired.extend(lines.flat_map(|line| line.split(", ").map(str::to_owned)));
        }
    }
    let silent: Vec<&str> =
        pipeline::rules().map(|(rule, _)| rule).filter(|rule| !fired.contains(*rule)).collect();
    assert!(silent.is_empty(), "no filetest shows these rules: {}", silent.join(", "));
}

fn print_optimized(program: &str, policy: &str) -> Result<String, String> {
    let (program, options) = (Program::parse(program)?, options(policy)?);
    let made = optimize(&program.segment.graph, &options, &Machine::PROCESSOR);
    let Optimized { graph, report, .. } = made.map_err(|error| error.to_string())?;
    for run in program.runs()? {
        let found = run_graph(&graph, &run.inputs)?;
        agree(&run, &found, |wanted, found| match options.numerics {
            Numerics::Exact => (!same_bits(wanted, found)).then(|| "other bits".to_owned()),
            Numerics::Reassociate | Numerics::Approximate => difference(wanted, found, 1e3),
        })?;
    }
    let mut text = graph.to_string();
    let [before, after] = [report.before, report.after];
    text += &format!("bytes {} -> {}\n", before.bytes, after.bytes);
    text += &format!("launches {} -> {}\n", before.launches, after.launches);
    text += &format!("peak bytes {} -> {}\n", report.peak[0], report.peak[1]);
    if report.egraph.improved {
        let rules: Vec<&str> = report.rules.iter().map(|(name, _)| name.as_str()).collect();
        text += &format!("rules {}\n", rules.join(", "));
    }
    let recognized: Vec<&str> = report.recognized.iter().map(|(name, _)| name.as_str()).collect();
    if !recognized.is_empty() {
        text += &format!("recognized {}\n", recognized.join(", "));
    }
    Ok(text)
}

fn print_schedule(program: &str, policy: &str) -> Result<String, String> {
    let (program, options) = (Program::parse(program)?, options(policy)?);
    let Segment { graph, donated, .. } = &program.segment;
    let mut engine = native(2);
    let compiled = engine.compiler().compile(graph, donated, &options);
    let made = compiled.map_err(|error| error.to_string())?.program;
    let told = |error: gt_compiler::EngineError| error.to_string();
    for run in program.runs()? {
        let mut values: Vec<Value> = Vec::new();
        for tensor in &run.inputs {
            values.push(owned(&mut engine, tensor).map_err(told)?);
        }
        let results = engine.run(&made, &mut values, graph.slots()).map_err(told)?;
        let found: Result<Vec<HostTensor>, _> =
            results.iter().map(|value| engine.download(value)).collect();
        let tolerance = if options.numerics == Numerics::Exact { 8.0 } else { 1e3 };
        agree(&run, &found.map_err(told)?, |wanted, found| {
            difference(wanted, found, tolerance * units(graph, wanted.ty().dtype))
        })?;
    }
    let dump = |what| made.dump(what).map_err(told);
    Ok(dump(Dump::Plan)? + &dump(Dump::Kernels)?)
}

fn print_shard(program: &str, n_members: &str) -> Result<String, String> {
    shard(program, n_members, |sharded, alone, tape, bindings| {
        sharded.sums(alone) + &sharded.tables(tape, bindings)
    })
}

fn print_order(program: &str, n_members: &str) -> Result<String, String> {
    shard(program, n_members, |sharded, alone, tape, bindings| {
        let parts = sharded.parts(tape, bindings, None);
        let shown = |line: &&str| ["# worker", "phase", "send"].iter().any(|w| line.starts_with(w));
        let lines = parts.lines().filter(shown).map(|line| format!("{line}\n"));
        sharded.sums(alone) + &lines.collect::<String>()
    })
}

fn print_dot(program: &str, n_members: &str) -> Result<String, String> {
    shard(program, n_members, |sharded, _, tape, bindings| sharded.dot(tape, bindings))
}

/// Prints a program on so many members, and on one.
fn shard(
    program: &str,
    n_members: &str,
    print: impl FnOnce(&Explained, &Explained, &Tape, &Bindings) -> String,
) -> Result<String, String> {
    let n_members = n_members.parse().map_err(|error| format!("{n_members:?}: {error}"))?;
    let lines = program.lines().filter_map(|line| line.strip_prefix("; config "));
    let config = lines.collect::<Vec<_>>().join("\n");
    let signals: Signals = serde_yaml::from_str(&config).map_err(|error| error.to_string())?;
    let tape = Program::parse(program)?.tape;
    let freed: BTreeSet<ValueId> = tape.entries.iter().filter_map(freed).collect();
    let (mut body, mut held) = (Tape::default(), BTreeMap::new());
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, ty, name }
                if !freed.contains(out) || after(&tape, name).is_some() =>
            {
                held.insert(*out, (*ty, after(&tape, name)));
            }
            entry => body.entries.push(entry.clone()),
        }
    }
    let (template, bindings) = canonical(&body);
    let mut inputs: Vec<_> = bindings.inputs.iter().map(|id| (held[id].0, shard::at(0))).collect();
    let explain = |inputs: &[(Type, Layout)], n_members, signals| {
        let rates = Rates::default();
        let request = Request {
            template: &template,
            inputs,
            uploads: &[],
            signals,
            n_members,
            auto: None,
            rates,
        };
        shard::explain(&request, None).map_err(|error| error.to_string())
    };
    let none = Signals::new();
    let alone = explain(&inputs, 1, &none)?;
    let first = explain(&inputs, n_members, &signals)?;
    for (id, input) in bindings.inputs.iter().zip(&mut inputs) {
        let number = |after| bindings.defined.iter().position(|defined| Some(defined) == after);
        let left = number(held[id].1).map(|at| (template.n_inputs + at) as u32);
        let mut kept = first.partition.kept.iter();
        let kept = kept.find(|kept| Some(kept.value) == left);
        kept.into_iter().for_each(|kept| input.1 = kept.layout.clone());
    }
    let sharded = explain(&inputs, n_members, &signals)?;
    Ok(print(&sharded, &alone, &tape, &bindings))
}

/// The output of this name.
fn after(tape: &Tape, name: &Option<Arc<str>>) -> Option<ValueId> {
    let output = |entry: &Entry| match entry {
        Entry::Output { value, name: own } if own.is_some() && own == name => Some(*value),
        _ => None,
    };
    tape.entries.iter().find_map(output)
}

/// The value that an entry frees.
fn freed(entry: &Entry) -> Option<ValueId> {
    if let Entry::Free(value) = entry { Some(*value) } else { None }
}

/// The options that the argument of a command names.
fn options(policy: &str) -> Result<Options, String> {
    let memory = policy.parse().ok();
    match policy {
        _ if memory.is_some() => Ok(Options { memory, ..Options::default() }),
        "" => Ok(Options::default()),
        named => {
            let numerics = named.parse().map_err(|e| format!("{e}"))?;
            Ok(Options { numerics, ..Options::default() })
        }
    }
}

/// A tape as a program, and the inputs its file gives.
struct Program {
    tape: Tape,
    segment: Segment,
    given: BTreeMap<ValueId, HostTensor>,
}

/// Inputs, and what the program computes from them.
struct Run {
    inputs: Vec<HostTensor>,
    wanted: Vec<HostTensor>,
}

impl Program {
    fn parse(text: &str) -> Result<Program, String> {
        let loaded = text::load(text).map_err(|errors| {
            errors.iter().map(|error| format!("{}\n", error.message)).collect::<String>()
        })?;
        let given = given(text, &loaded)?;
        Ok(Program { segment: segment(&loaded.tape)?, tape: loaded.tape, given })
    }

    /// What the interpreter finds for random inputs.
    fn runs(&self) -> Result<Vec<Run>, String> {
        let expanded = self.segment.graph.expanded().map_err(|error| error.to_string())?;
        (0..RUNS)
            .map(|seed| {
                let mut data = inputs(&self.tape, &mut Source::from_seed(seed));
                data.extend(self.given.clone());
                let inputs: Vec<HostTensor> =
                    self.segment.inputs.iter().map(|id| data[id].clone()).collect();
                Ok(Run { wanted: run_graph(&expanded, &inputs)?, inputs })
            })
            .collect()
    }
}

/// The inputs that lines of a file give.
fn given(text: &str, loaded: &Loaded) -> Result<BTreeMap<ValueId, HostTensor>, String> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let inputs = (0..lines.len()).filter(|at| lines[*at].starts_with("; in ")).collect();
    Case { inputs, expected: Vec::new() }.tensors(&lines, loaded)
}

/// The segment of a whole program. An input that the tape does not free is needed afterwards.
fn segment(tape: &Tape) -> Result<Segment, String> {
    let freed: BTreeSet<ValueId> = tape.entries.iter().filter_map(freed).collect();
    let made = tape.entries.iter().filter_map(Entry::defines);
    let left = made.filter(|value| !freed.contains(value)).map(Entry::Free);
    let whole = Tape { entries: tape.entries.iter().cloned().chain(left).collect() };
    let mut segment = gt_ir::segment(&whole, |_| None).map_err(|error| error.to_string())?;
    for (donated, input) in segment.donated.iter_mut().zip(&segment.inputs) {
        *donated &= freed.contains(input);
    }
    Ok(segment)
}

fn run_graph(graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
    interp::run_graph(graph, inputs, graph.slots()).map_err(|fault| format!("{fault:?}"))
}

/// Whether every result is the wanted one.
fn agree(
    run: &Run,
    found: &[HostTensor],
    fault: impl Fn(&HostTensor, &HostTensor) -> Option<String>,
) -> Result<(), String> {
    for (i, (wanted, found)) in run.wanted.iter().zip(found).enumerate() {
        if let Some(fault) = fault(wanted, found) {
            return Err(format!("output {i} is not what the tape computes: {fault}"));
        }
    }
    Ok(())
}
