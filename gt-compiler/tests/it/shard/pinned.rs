//! Pinned sums have the bits of one worker: of random programs on the interpreter, and of a step of
//! training on the native engine.

use std::cell::RefCell;
use std::collections::BTreeMap;

use gt_compiler::engine::{Arg, Engine as _};
use gt_compiler::shard::{Rates, at};
use gt_compiler::{Native, NativeConfig, Options};
use gt_ir::layout::Layout;
use gt_ir::signal::{Reduction, ShardConfig, SignalConfig, Signals};
use gt_ir::testing::{self, Source};
use gt_ir::{Entry, HostTensor, Tape, ValueId};

use super::members::{Case, Values, interpreted, part};
use super::random::check;

#[test]
fn pinned_sums_are_those_of_one_worker() {
    for seed in 0..1_000 {
        check(seed, &testing::Config::default(), Reduction::Pinned, &interpreted);
    }
}

/// Long enough dimensions to be added in another order, and short enough that parts are single rows
/// and columns, whose sums and products the engine computes in other ways.
#[test]
fn pinned_sums_of_the_native_engine_are_those_of_one_worker() {
    let config = testing::Config { max_size: 7, max_numel: 4_000, ..testing::Config::default() };
    let engine = RefCell::new(engine());
    let run = |tape: &Tape, data: &_| compiled(&mut engine.borrow_mut(), tape, data);
    for seed in 0..150 {
        check(seed, &config, Reduction::Pinned, &run);
    }
}

fn engine() -> Native {
    let config = NativeConfig {
        threads: 2,
        memory_limit: 1 << 30,
        cache_capacity: 256,
        store: None,
        ..NativeConfig::host()
    };
    Native::new(config).unwrap()
}

/// A tape as a compiled program.
fn compiled(engine: &mut Native, tape: &Tape, data: &Values) -> Values {
    let segment = gt_ir::segment(tape, |_| None).unwrap();
    let options = Options::default();
    let program = engine.compiler().compile(&segment.graph, &segment.donated, &options).unwrap();
    let mut values = Vec::new();
    for id in &segment.inputs {
        let value = engine.upload(&data[id]).unwrap();
        let shape = value.ty.shape;
        // A copy in the engine's own memory, which a donated input may give away.
        values.push(engine.execute(&gt_ir::Op::Expand(shape), &[Arg::Value(&value)]).unwrap());
    }
    let results = engine.run(&program.program, &mut values, segment.graph.slots()).unwrap();
    let asked = |id: &ValueId| {
        tape.entries.iter().any(|e| matches!(e, Entry::Output { value, .. } if value == id))
    };
    let results = segment.outputs.iter().copied().zip(&results).filter(|(id, _)| asked(id));
    results.map(|(id, value)| (id, engine.download(value).unwrap())).collect()
}

/// A tape with its scopes cut along the given axes on so many members: the layout of each value
/// that it leaves, and the parts of the members. The values `outside` are there before it.
fn left(
    tape: &Tape,
    outside: &[u64],
    axes: &[(&str, i64)],
    n_members: u32,
    reduction: Reduction,
) -> BTreeMap<ValueId, (Layout, Vec<HostTensor>)> {
    let data = testing::inputs(tape, &mut Source::from_seed(1));
    let mut body = tape.clone();
    body.entries.retain(|entry| match entry {
        Entry::Input { out, .. } => !outside.contains(&out.0),
        Entry::Output { .. } => false,
        Entry::Instr(_) | Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) => true,
    });
    let outside = outside.iter().map(|&id| (ValueId(id), at(0))).collect();
    let mut signals = Signals::new();
    for (name, axis) in axes {
        let shard = ShardConfig { axis: (*axis).into(), reduction, ..ShardConfig::default() };
        let config = SignalConfig { shard: Some(shard), ..SignalConfig::default() };
        signals.set(name, config).unwrap();
    }
    let case = Case {
        segment: body,
        outside,
        uploads: Vec::new(),
        signals,
        n_members,
        auto: None,
        rates: Rates::default(),
    };
    let engine = RefCell::new(engine());
    let run = |tape: &Tape, data: &_| compiled(&mut engine.borrow_mut(), tape, data);
    let is_output = |id: &ValueId| {
        tape.entries.iter().any(|e| matches!(e, Entry::Output { value, .. } if value == id))
    };
    let left = case.left(&run, &data).into_iter();
    left.map(|(id, layout, parts)| (id, (layout, parts))).filter(|(id, _)| is_output(id)).collect()
}

/// Pinned values are those of one worker on any number of workers.
fn check_bits(text: &str, outside: &[u64], axes: &[(&str, i64)]) {
    let (tape, _) = gt_ir::text::parse(text).unwrap();
    let alone = left(&tape, outside, axes, 1, Reduction::Usual);
    for n_members in 1..=4 {
        let pinned = left(&tape, outside, axes, n_members, Reduction::Pinned);
        assert_eq!(pinned.len(), alone.len());
        for (id, (layout, parts)) in pinned {
            let whole = &alone[&id].1[0];
            for (rank, got) in parts.iter().enumerate() {
                let same = testing::same_bits(got, &part(whole, &layout, rank));
                assert!(same, "{id} on {n_members} members, {layout}");
            }
        }
    }
}

const STEP: &str = include_str!("../../files/shard/data_parallel.gt");

#[test]
fn a_pinned_step_of_training_has_the_bits_of_one_worker_on_any_number() {
    let text = STEP.split(";>").next().unwrap();
    check_bits(text, &[2, 3], &[("batch", 0)]);
    // The step is one whose sums differ otherwise.
    let (tape, _) = gt_ir::text::parse(text).unwrap();
    let [alone, usual] = [1, 3].map(|n| left(&tape, &[2, 3], &[("batch", 0)], n, Reduction::Usual));
    assert!(usual.iter().any(|(id, (_, parts))| !testing::same_bits(&parts[0], &alone[id].1[0])));
}

/// The engine multiplies single rows, and adds columns that stand alone, in another order.
#[test]
fn rows_and_columns_that_would_stand_alone_are_not_cut_apart() {
    let text = "gt tape 1
%0 = input : f32[4,600]
%1 = input : f32[600,3]
%2 = exp %1
enter \"rows\"
%3 = matmul %0, %2
exit \"rows\"
enter \"columns\"
%4 = reshape[600,3] %2
%5 = sum[0] %4
exit \"columns\"
free %0
free %1
free %2
free %4
output %3
output %5
";
    check_bits(text, &[], &[("rows", 0), ("columns", 1)]);
}

/// The engine multiplies in `f64`, one element after the other; the expansions in `f32`, in pairs.
#[test]
fn products_along_a_cut_axis_are_those_of_one_worker() {
    let text = "gt tape 1
%0 = input : f32[6,40]
enter \"columns\"
%1 = sin %0
%2 = cumprod[1] %1
%3 = prod[1] %1
exit \"columns\"
free %0
free %1
output %2
output %3
";
    check_bits(text, &[], &[("columns", 1)]);
}
