//! Every rule of every table on random tensors: both sides are evaluated by the interpreter and
//! compared.
#![expect(clippy::wildcard_enum_match_arm, reason = "random programs name the ops they single out")]

mod instance;

use std::collections::BTreeSet;

use egg::Id;
use gt_ir::{
    Graph, HostTensor, NodeId, NodeKind, Op, Type,
    attr::{Keep, Reduce},
    graph::Rebuild,
    interp,
    testing::{Source, same_bits},
};
use rustc_hash::FxHashMap;

use super::{
    analysis::{self, Facts},
    block::{Block, Cut},
    language::{Node, Sig, Signatures, Uniform, What},
    rules::{self, BOOK, Compiled},
    saturate::{self, Limits, Stop},
    search::Searcher,
    solve::insert,
};
use crate::{Arg, Engine, Machine, Native, NativeConfig, Numerics, Value};
use instance::Instance;

/// Instances tried for each rule.
const TRIALS: u64 = 60;

/// An e-graph of a whole graph as one block.
fn whole(graph: &Graph) -> (analysis::Graph, Block, Vec<Id>) {
    let mut sigs = Signatures::default();
    let cut = Cut::new(graph, &mut sigs);
    let range = (0, cut.terms.len() as u32);
    let block = cut.block(range, BOOK.depth, &mut sigs, graph);
    let mut egraph = analysis::Graph::new(Facts { sigs });
    let ids = insert(&mut egraph, &cut, &block);
    egraph.rebuild();
    (egraph, block, ids)
}

/// The right sides a rule gives at the root of an instance, as graphs.
fn right_sides(rule: &Compiled, instance: &Instance) -> Vec<Graph> {
    let (mut graph, block, ids) = whole(&instance.graph);
    let output = instance.graph.outputs()[0];
    // A value that is one number after all is no op to match.
    let at = block.locals.iter().position(|l| l.node as usize == output.index());
    let Some(root) = at else { return Vec::new() };
    company(&mut graph);
    let mut found = Vec::new();
    for pattern in &rule.patterns {
        pattern.search(&graph, ids[root], &mut 10_000, &mut |m| {
            found.push(m);
            found.len() < 4
        });
    }
    let mut sides = Vec::new();
    for found in found {
        // A right side that is a part of the left one is fine as well.
        if let Some(made) = rule.apply(&mut graph, &found) {
            sides.push(build(&instance.graph, &graph, &block, made));
        }
    }
    sides
}

/// Adds what a block may hold besides a left side: reductions that drop their axes beside those
/// that keep them.
fn company(graph: &mut analysis::Graph) {
    let nodes: Vec<Node> = graph.nodes().to_vec();
    for node in nodes {
        let op = match analysis::op_of(graph, &node) {
            Some(Op::Sum(r)) => Op::Sum(Reduce { keep: Keep::No, ..r }),
            Some(Op::Max(r)) => Op::Max(Reduce { keep: Keep::No, ..r }),
            Some(Op::Min(r)) => Op::Min(Reduce { keep: Keep::No, ..r }),
            Some(_) | None => continue,
        };
        analysis::add_op(graph, op, &node.children).unwrap();
    }
    graph.rebuild();
}

/// A class as a graph of its own; without unions every class has one e-node.
fn build(original: &Graph, graph: &analysis::Graph, block: &Block, class: Id) -> Graph {
    let mut new = Rebuild::of(original);
    let mut made: FxHashMap<Id, NodeId> = FxHashMap::default();
    let root = visit(original, graph, block, class, &mut new, &mut made);
    new.finish(&[root]).unwrap()
}

fn visit(
    original: &Graph,
    graph: &analysis::Graph,
    block: &Block,
    class: Id,
    new: &mut Rebuild,
    made: &mut FxHashMap<Id, NodeId>,
) -> NodeId {
    if let Some(id) = made.get(&class) {
        return *id;
    }
    let node: &Node = &graph[class].nodes[0];
    let Sig { what, ty } = *graph.analysis.sigs.get(node.sig);
    let id = match what {
        What::External(at) => {
            let node = original.node(original.id(block.locals[at as usize].node as usize));
            new.copy(node, &[]).unwrap()
        }
        What::Uniform(uniform) => {
            let kind = match uniform {
                Uniform::Slot(k) => NodeKind::Scalar(block.slots[k as usize]),
                Uniform::Const(c) => NodeKind::Const(c),
            };
            let scalar = new.leaf(kind, Type::scalar(ty.dtype));
            if ty.shape.rank() == 0 {
                scalar
            } else {
                new.op(Op::Expand(ty.shape), &[scalar]).unwrap()
            }
        }
        What::Op(op) => {
            let children: Vec<NodeId> = node
                .children
                .iter()
                .map(|c| visit(original, graph, block, *c, new, made))
                .collect();
            new.op(op, &children).unwrap()
        }
    };
    made.insert(class, id);
    id
}

fn evaluate(graph: &Graph, data: &[HostTensor]) -> Option<HostTensor> {
    interp::run_graph(graph, data, graph.slots()).ok()?.pop()
}

/// The fault of a right side; every NaN is the same.
fn fault(rule: &Compiled, left: &HostTensor, right: &HostTensor) -> Option<String> {
    let (a, b) = (left.to_f64(), right.to_f64());
    let unit = match left.ty().dtype {
        gt_ir::DType::F64 => 1e-11,
        gt_ir::DType::F32 => 1e-3,
        gt_ir::DType::F16 | gt_ir::DType::Bf16 => 0.2,
        _ => 0.0,
    };
    let exact = rule.rule.numerics == Numerics::Exact;
    if exact && left.bytes() == right.bytes() {
        return None;
    }
    let largest = a.iter().filter(|x| x.is_finite()).fold(1.0, |m: f64, x| m.max(x.abs()));
    let near = |x: f64, y: f64| match rule.rule.numerics {
        Numerics::Exact => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
        // Rounding in another order may overflow or cancel where the other did not.
        Numerics::Reassociate | Numerics::Approximate => {
            !x.is_finite() || !y.is_finite() || (x - y).abs() <= unit * largest
        }
    };
    let at = a.iter().zip(&b).position(|(x, y)| !near(*x, *y))?;
    Some(format!("element {at} is {} on the left and {} on the right", a[at], b[at]))
}

#[test]
fn rules_have_names_and_read() {
    let names: BTreeSet<&str> = BOOK.rules.iter().map(|r| r.rule.name).collect();
    assert_eq!(names.len(), BOOK.rules.len(), "names are unique");
    assert_eq!(
        BOOK.rules.len(),
        rules::TABLES.iter().map(|t| t.len()).sum::<usize>(),
        "every row reads"
    );
}

#[test]
fn both_sides_of_every_rule_are_equal() {
    let (mut silent, mut faults) = (Vec::new(), Vec::new());
    for rule in BOOK.rules.iter().filter(|r| !r.recognizes()) {
        let mut fired = 0;
        for seed in 0..TRIALS * 20 {
            if fired >= TRIALS {
                break;
            }
            let mut source = Source::from_seed(seed);
            let Some(instance) = Instance::of(rule.rule.left, rule.rule.dtypes, &mut source) else {
                continue;
            };
            for right in right_sides(rule, &instance) {
                fired += 1;
                let (Some(want), Some(got)) =
                    (evaluate(&instance.graph, &instance.data), evaluate(&right, &instance.data))
                else {
                    continue;
                };
                if let Some(fault) = fault(rule, &want, &got) {
                    faults.push(format!(
                        "{}, seed {seed}: {fault}\n{}\n{right}",
                        rule.rule.name, instance.graph
                    ));
                    fired = TRIALS;
                    break;
                }
            }
        }
        if fired == 0 {
            silent.push(rule.rule.name);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(silent.is_empty(), "rules that never fired: {silent:?}");
}

/// A graph on the engine, one op after the other, as instructions run.
fn execute(engine: &mut Native, graph: &Graph, data: &[HostTensor]) -> Option<HostTensor> {
    let mut values: Vec<Value> = Vec::new();
    for id in graph.ids() {
        let node = graph.node(id);
        let number =
            |engine: &mut Native, value| engine.execute(&Op::Full(node.ty), &[Arg::Scalar(value)]);
        let value = match node.kind {
            NodeKind::Input(k) => engine.upload(&data[k as usize]),
            NodeKind::Scalar(k) => number(engine, graph.slots()[k as usize]),
            NodeKind::Const(value) => number(engine, value),
            NodeKind::Op(op) => {
                let operands = graph.operands(id);
                let args: Vec<Arg<'_>> =
                    operands.iter().map(|o| Arg::Value(&values[o.index()])).collect();
                engine.execute(&op, &args)
            }
        };
        values.push(value.ok()?);
    }
    engine.download(&values[graph.outputs()[0].index()]).ok()
}

#[test]
fn exact_rules_keep_the_bits_of_the_engine() {
    let config = NativeConfig {
        threads: 1,
        memory_limit: 1 << 28,
        cache_capacity: 4096,
        store: None,
        guarded: false,
        team: None,
    };
    let mut engine = Native::new(config).unwrap();
    for rule in BOOK.rules.iter().filter(|r| !r.recognizes() && r.rule.numerics == Numerics::Exact)
    {
        let mut fired = 0;
        for seed in 5000..5000 + TRIALS * 20 {
            if fired >= 8 {
                break;
            }
            let mut source = Source::from_seed(seed);
            let Some(instance) = Instance::of(rule.rule.left, rule.rule.dtypes, &mut source) else {
                continue;
            };
            for right in right_sides(rule, &instance) {
                fired += 1;
                let want = execute(&mut engine, &instance.graph, &instance.data);
                let got = execute(&mut engine, &right, &instance.data);
                let (Some(want), Some(got)) = (want, got) else { continue };
                let name = rule.rule.name;
                assert!(
                    same_bits(&want, &got),
                    "{name}, seed {seed}: {:?} {:?}\n{}\n{right}",
                    want.to_f64(),
                    got.to_f64(),
                    instance.graph
                );
            }
        }
    }
}

/// A graph from the text of a tape's entries.
fn graph_of(entries: &str) -> Graph {
    let (tape, _) = gt_ir::text::parse(&format!("gt tape 1\n{entries}")).unwrap();
    gt_ir::lower(&tape).unwrap().expanded().unwrap()
}

/// Sums of products with a common factor, of two and of all, and products of powers.
fn adversarial(n: usize) -> Graph {
    let mut text = (0..n).map(|i| format!("%{i} = input : f32[8]\n")).collect::<String>();
    let mut next = n;
    let mut push = |op: &str, a: usize, b: usize| {
        text += &format!("%{next} = {op} %{a}, %{b} : f32[8]\n");
        next += 1;
        next - 1
    };
    let mut sum = push("mul", 0, 1);
    let mut last = sum;
    for i in 2..n {
        let product = push("mul", 0, i);
        let pair = push("add", last, product);
        let both = push("add", sum, pair);
        (sum, last) = (push("mul", both, product), product);
    }
    graph_of(&(text + &format!("output %{sum}\n")))
}

#[test]
fn limits_hold() {
    // No rule adds more e-nodes for one match.
    const SLACK: usize = 16;
    let graph = adversarial(120);
    let run = |limits: Limits| {
        let (mut egraph, ..) = whole(&graph);
        let before = egraph.total_size();
        let outcome = saturate::saturate(&mut egraph, Numerics::Approximate, &limits);
        assert!(
            egraph.total_size() <= before + limits.nodes + SLACK,
            "{} e-nodes",
            egraph.total_size()
        );
        assert!(outcome.iterations <= limits.iterations);
        outcome.stop
    };
    let none = Limits { nodes: usize::MAX / 2, iterations: 3, matches: 1 << 20, fuel: 1 << 30 };
    assert_eq!(run(Limits { nodes: 40, ..none }), Stop::Nodes);
    assert_eq!(run(Limits { iterations: 1, ..none }), Stop::Iterations);
    assert!(run(Limits { matches: 3, ..none }) >= Stop::Matches);
    assert!(run(Limits { fuel: 100, ..none }) >= Stop::Fuel);
}

#[test]
fn blocks_beyond_the_limit_stay_as_they_are() {
    let (mut text, mut at) = ("%0 = input : f32[7]\n".to_owned(), 0);
    for size in 8..180 {
        text += &format!("%{} = pad[0,0,1,0] %{at}, 0.0 : f32[{size}]\n", at + 1);
        for i in at + 1..at + 100 {
            text += &format!("%{} = tanh %{i} : f32[{size}]\n", i + 1);
        }
        at += 100;
    }
    let (graph, machine) = (graph_of(&(text + &format!("output %{at}\n"))), Machine::PROCESSOR);
    let mut search = Searcher::new(&graph, Numerics::Exact, &machine);
    search.run().unwrap();
    assert_eq!(search.stop, Stop::Blocks);
    assert!(search.search.distinct > 150, "{:?}", search.search);
}

/// Layers one after the other: the same ops on other weights.
fn layers(n: usize) -> Graph {
    let mut text = "%0 = input : f32[16,32]\n".to_owned();
    for i in 0..n {
        text += &format!("%{} = input : f32[32,32]\n", 1 + i);
    }
    let (mut x, mut next) = (0, 1 + n);
    for i in 0..n {
        text += &format!("%{next} = matmul %{x}, %{} : f32[16,32]\n", 1 + i);
        for op in ["layer_norm", "gelu", "softmax[1]", "sigmoid", "log_softmax[1]", "gelu_tanh"] {
            let at = next + 1;
            text += &match op {
                "layer_norm" => format!("%{at} = mul %{next}, 0.5 : f32[16,32]\n"),
                _ => format!("%{at} = {op} %{next} : f32[16,32]\n"),
            };
            next = at;
        }
        (x, next) = (next, next + 1);
    }
    graph_of(&(text + &format!("output %{x}\n")))
}

#[test]
fn equal_blocks_are_solved_once() {
    let machine = Machine::PROCESSOR;
    let search = |n| {
        let graph = layers(n);
        let mut search = Searcher::new(&graph, Numerics::Approximate, &machine);
        let result = search.run().unwrap();
        let fired: u32 =
            search.solved.iter().map(|s| s.fired.iter().sum::<u32>() * s.copies as u32).sum();
        (search.search.blocks, search.search.distinct, fired, result.is_some())
    };
    let (few, many) = (search(20), search(40));
    assert!(many.0 >= 2 * few.0 - 2, "{few:?} {many:?}");
    assert!(many.1 <= few.1 + 1 && few.1 * 3 < few.0, "{few:?} {many:?}");
    assert!(many.2 > few.2 * 3 / 2, "{few:?} {many:?}");
}
