//! Programs that may allocate little make values again, and have the bits of those that may
//! allocate all they like.

use std::fmt::Write as _;

use gt_compiler::{Engine, Options, Value};
use gt_ir::{
    HostTensor, Tape, ValueId,
    testing::{Source, inputs, same_bits},
};

use crate::random::{native, owned};

const LAYERS: usize = 8;

/// A training step of a deep network: layers of a product, a normalization and an activation, their
/// gradients, and parameters that are updated in place.
fn network() -> Tape {
    let (rows, width) = (4096, 64);
    let (wide, square) = (format!("f32[{rows},{width}]"), format!("f32[{width},{width}]"));
    let mut text = format!("gt tape 1\n%0 = input : {wide}\n");
    let mut n = 1;
    let mut line = |text: &mut String, op: &str, ty: &str| {
        writeln!(text, "%{n} = {op} : {ty}").unwrap();
        n += 1;
        n - 1
    };
    let weights: Vec<usize> = (0..LAYERS).map(|_| line(&mut text, "input", &square)).collect();
    let (mut x, mut kept) = (0, Vec::new());
    for weight in &weights {
        let product = line(&mut text, &format!("matmul %{x}, %{weight}"), &wide);
        let scores = line(&mut text, &format!("softmax[1] %{product}"), &wide);
        let active = line(&mut text, &format!("tanh %{product}"), &wide);
        let next = line(&mut text, &format!("add %{scores}, %{active}"), &wide);
        kept.push((x, *weight, scores, active));
        x = next;
    }
    let (mut grad, mut updated) = (x, Vec::new());
    for (x, weight, scores, active) in kept.into_iter().rev() {
        let square_of = line(&mut text, &format!("mul %{active}, %{active}"), &wide);
        let slope = line(&mut text, &format!("sub %{scores}, %{square_of}"), &wide);
        let inner = line(&mut text, &format!("mul %{grad}, %{slope}"), &wide);
        let turned =
            line(&mut text, &format!("transpose[0,1] %{x}"), &format!("f32[{width},{rows}]"));
        let change = line(&mut text, &format!("matmul %{turned}, %{inner}"), &square);
        let scaled = line(&mut text, &format!("mul %{change}, 1e-3"), &square);
        updated.push(line(&mut text, &format!("sub %{weight}, %{scaled}"), &square));
        let turned = line(&mut text, &format!("transpose[0,1] %{weight}"), &square);
        grad = line(&mut text, &format!("matmul %{inner}, %{turned}"), &wide);
    }
    updated.push(grad);
    for value in (0..n).filter(|value| !updated.contains(value)) {
        writeln!(text, "free %{value}").unwrap();
    }
    updated.iter().for_each(|value| writeln!(text, "output %{value}").unwrap());
    gt_ir::text::parse(&text).unwrap().0
}

/// The results under these options; the bytes that the program allocates, and how much of it runs
/// again.
fn run(tape: &Tape, threads: usize, options: &Options) -> (Vec<HostTensor>, u64, usize) {
    let segment = gt_ir::graph::segment(tape, |_| None).unwrap();
    let data = inputs(tape, &mut Source::from_seed(7));
    let mut engine = native(threads);
    let compiled = engine.compiler().compile(&segment.graph, &segment.donated, options).unwrap();
    let upload = |id: &ValueId| owned(&mut engine, &data[id]).unwrap();
    let mut values: Vec<Value> = segment.inputs.iter().map(upload).collect();
    let live = engine.stats().live_bytes;
    let results = engine.run(&compiled.program, &mut values, segment.graph.slots()).unwrap();
    let report = &compiled.report;
    let most = engine.stats().peak_bytes - live;
    assert!(most as u64 <= report.bytes, "{most} bytes are allocated, not {}", report.bytes);
    let results = results.iter().map(|value| engine.download(value).unwrap()).collect();
    (results, report.bytes, report.again)
}

#[test]
fn values_are_made_again_and_no_bit_changes() {
    let tape = network();
    let (wanted, bytes, again) = run(&tape, 2, &Options::default());
    assert_eq!(again, 0, "there is memory enough");
    for (part, threads) in [(4, 1), (3, 2), (0, 2)] {
        let memory = bytes as usize * part / 5;
        let options = Options { memory: Some(memory), ..Options::default() };
        let (found, bytes, again) = run(&tape, threads, &options);
        assert!(again > 0, "{memory} bytes are too few to keep all");
        assert!(part == 0 || bytes <= memory as u64, "{bytes} bytes, not {memory}");
        let are_same = wanted.iter().zip(&found).all(|(wanted, found)| same_bits(wanted, found));
        assert!(are_same, "{memory} bytes: other bits");
    }
}
