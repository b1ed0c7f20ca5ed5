//! A matrix product has the same bits whatever the strides of its operands, the threads and what it
//! is fused with.

use std::collections::BTreeMap;

use gt_compiler::{Arg, Dump, Engine, Native, Options, Value};
use gt_ir::{
    DType, Entry, Op, Shape, Tape, Type,
    testing::{Source, same_bits, tensor},
};

use crate::{
    random::native,
    sweeps::{layers::layers, tapes::fused},
};

const TAPE: &str = "gt tape 1
%0 = input : f32[M,K]
%1 = input : f32[N,K]
%2 = input : f32[N]
%3 = transpose[0,1] %1
%4 = matmul %0, %3
%5 = add %4, %2
%6 = tanh %5
%7 = transpose[0,1] %6
%8 = matmul %7, %0
free %3
free %4
free %5
free %7
output %6
output %8
";

fn tape(m: usize, n: usize, k: usize) -> Tape {
    let sizes = [("M", m), ("N", n), ("K", k)];
    let text = sizes.iter().fold(TAPE.to_owned(), |text, (name, size)| {
        text.replace(&format!("{name},"), &format!("{size},"))
            .replace(&format!("{name}]"), &format!("{size}]"))
    });
    gt_ir::text::parse(&text).unwrap().0
}

fn inputs(engine: &mut Native, source: &mut Source<'_>, [m, n, k]: [usize; 3]) -> Vec<Value> {
    let shapes: [&[usize]; 3] = [&[m, k], &[n, k], &[n]];
    shapes
        .iter()
        .map(|s| {
            let ty = Type::new(DType::F32, Shape::new(s).unwrap());
            engine.upload(&tensor(ty, source)).unwrap()
        })
        .collect()
}

#[test]
fn bits_do_not_depend_on_strides_threads_and_fusion() {
    let mut source = Source::from_seed(5);
    let sizes = [1, 2, 3, 4, 5, 8, 10, 16, 17, 31, 32, 48, 64, 65, 100, 129, 200, 257, 600, 784];
    // Columns whose places in a cache clash, which are copied in strips: whole blocks, parts of
    // some, several strips.
    let clashing = [
        [1, 40, 512],
        [2, 2, 512],
        [17, 48, 512],
        [5, 1023, 1024],
        [3, 1025, 512],
        [33, 1600, 1536],
    ];
    for round in 0..300 + clashing.len() {
        let mut pick =
            |i: usize| sizes[(round * 7 + i * 5 + source.below(sizes.len())) % sizes.len()];
        let picked = [pick(0), pick(1), pick(2)];
        let dims = *clashing.get(round).unwrap_or(&picked);
        let (mut one, mut two) = (native(1), native(2));
        let values = inputs(&mut one, &mut source, dims);
        let tape = tape(dims[0], dims[1], dims[2]);
        let eager = step_by_step(&mut one, &values);
        for engine in [&mut one, &mut two] {
            let segment = gt_ir::graph::segment(&tape, |_| None).unwrap();
            let compiler = engine.compiler();
            let program =
                compiler.compile(&segment.graph, &[], &Options::default()).unwrap().program;
            let got = engine.run(&program, &mut values.clone(), &[]).unwrap();
            let last = &got[got.len() - 2..];
            for (want, got) in eager.iter().zip(last) {
                let (want, got) = (engine.download(want).unwrap(), engine.download(got).unwrap());
                assert!(same_bits(&want, &got), "{dims:?}");
            }
        }
    }
}

/// The same, every value materialized.
fn step_by_step(engine: &mut Native, inputs: &[Value]) -> Vec<Value> {
    let mut op = |op: &str, args: &[&Value]| {
        let args: Vec<Arg<'_>> = args.iter().map(|v| Arg::Value(v)).collect();
        engine.execute(&op.parse::<Op>().unwrap(), &args).unwrap()
    };
    let transposed = op("transpose[0,1]", &[&inputs[1]]);
    let product = op("matmul", &[&inputs[0], &transposed]);
    let sum = op("add", &[&product, &inputs[2]]);
    let hidden = op("tanh", &[&sum]);
    let back = op("transpose[0,1]", &[&hidden]);
    vec![hidden, op("matmul", &[&back, &inputs[0]])]
}

/// A token of a language model: what follows a normalization of one row is a product with much to
/// read.
const ONE_ROW: &str = "gt tape 1
%0 = input : f32[1,256]
%1 = input : f32[1024,256]
%2 = input : f32[256]
%3 = layer_norm[1] %0, %2, %2, 1e-5
%4 = transpose[0,1] %1
%5 = matmul %3, %4
free %3
free %4
output %5
";

#[test]
fn threads_share_the_product_of_a_single_row() {
    let compiler = native(2).compiler();
    let tape = gt_ir::text::parse(ONE_ROW).unwrap().0;
    let segment = gt_ir::graph::segment(&tape, |_| None).unwrap();
    let compiled = compiler.compile(&segment.graph, &[], &Options::default()).unwrap();
    let plan = compiled.program.dump(Dump::Plan).unwrap();
    let (_, product) = plan.rsplit_once("tile of ").unwrap();
    assert!(product.contains("rows out of 1024") && !product.contains(", 1 tasks"), "{plan}");
}

#[test]
fn layers_by_whatever_formulas_are_allowed() {
    layers(&mut native(2));
}

/// `x y` of integers, whose operands lie row after row or column after column.
fn integers(dtype: DType, [batch, m, n, k]: [usize; 4], turned: [bool; 2]) -> Tape {
    let (mut text, mut operands) = (String::from("gt tape 1\n"), [0, 1]);
    for (i, (rows, columns)) in [(m, k), (k, n)].into_iter().enumerate() {
        let (rows, columns) = if turned[i] { (columns, rows) } else { (rows, columns) };
        text += &format!("%{i} = input : {dtype}[{batch},{rows},{columns}]\n");
        if turned[i] {
            operands[i] = i + 2;
            text += &format!("%{} = transpose[1,2] %{i}\n", i + 2);
        }
    }
    let [x, y] = operands;
    gt_ir::text::parse(&format!("{text}%4 = matmul %{x}, %{y}\noutput %4\n")).unwrap().0
}

/// Vectors, whole panels and parts of some, sums that are taken in several pieces.
#[test]
fn products_of_integers_have_the_interpreters_bits() {
    let mut source = Source::from_seed(10);
    let sizes = [0, 1, 1, 2, 3, 5, 31, 32, 33, 70];
    let depths = [0, 1, 2, 31, 32, 33, 100, 1023, 1024, 1025, 2100];
    for dtype in [DType::I64, DType::I32, DType::U8] {
        for round in 0..150 {
            let mut pick = |of: &[usize]| of[source.below(of.len())];
            let dims = [1 + round % 3, pick(&sizes), pick(&sizes), pick(&depths)];
            if dims.iter().product::<usize>() > 3_000_000 {
                continue;
            }
            let turned = [source.chance(1, 2), source.chance(1, 2)];
            let tape = integers(dtype, dims, turned);
            let mut data = BTreeMap::new();
            for entry in &tape.entries {
                if let Entry::Input { out, ty, .. } = entry {
                    data.insert(*out, tensor(*ty, &mut source));
                }
            }
            let want = gt_ir::interp::run(&tape, &data).unwrap();
            let got = fused(&mut native(1 + round % 2), &tape, &data).unwrap();
            for (id, want) in &want {
                assert!(same_bits(want, &got[id]), "{dtype} {dims:?} {turned:?}");
            }
        }
    }
}
