//! Updates of single rows of a table: the bits of the instructions one by one, whatever the number,
//! the scale and the index are.

use std::collections::BTreeMap;

use gt_compiler::{Engine, Options};
use gt_ir::{
    DType, Entry, HostTensor, Tape, ValueId, lower,
    testing::{Source, same_bits, special_tensor, tensor},
};

use crate::{
    random::native,
    sweeps::tapes::{compare, eager, fused},
};

const ROWS: usize = 600;

/// A step of gradient descent on a table of which some rows are read. `kept` is how much of what is
/// in between is a result too.
fn step(dtype: &str, [width, named]: [usize; 2], [number, update]: [&str; 2], kept: &str) -> Tape {
    let text = format!(
        "gt tape 1
%0 = input : {dtype}[{ROWS},{width}]
%1 = input : i64[{named}]
%2 = input : {dtype}[{named},{width}]
%3 = index_select[0] %0, %1
%4 = mul %3, %2
%5 = full[{dtype}[{ROWS},{width}]] {number}
%6 = index_add[0] %5, %1, %4
{update}
output %9
{kept}"
    );
    gt_ir::text::parse(&text).unwrap().0
}

/// A table, an index of its rows, many of them again and again, and gradients.
fn data(tape: &Tape, source: &mut Source<'_>, special: bool) -> BTreeMap<ValueId, HostTensor> {
    let types = tape.entries.iter().filter_map(|entry| match entry {
        Entry::Input { out, ty, .. } => Some((*out, *ty)),
        _ => None,
    });
    let values = types.map(|(id, ty)| {
        let value = match ty.dtype {
            DType::I64 => {
                let near = 1 + source.below(ROWS);
                let row = |_| source.below(near) as i64;
                HostTensor::from_vec((0..ty.shape.numel()).map(row).collect(), ty.shape).unwrap()
            }
            _ if special => special_tensor(ty, source),
            _ => tensor(ty, source),
        };
        (id, value)
    });
    values.collect()
}

/// The results of a plan that may take the memory of its inputs.
fn given(
    engine: &mut dyn Engine,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
) -> Vec<HostTensor> {
    let graph = lower(tape).unwrap();
    let compiled = engine.compiler().compile(&graph, &[true; 3], &Options::default()).unwrap();
    let mut inputs: Vec<_> = data.values().map(|value| engine.upload(value).unwrap()).collect();
    let results = engine.run(&compiled.program, &mut inputs, graph.slots()).unwrap();
    let mut named: Vec<_> = tape
        .entries
        .iter()
        .filter_map(|e| if let Entry::Output { value, .. } = e { Some(*value) } else { None })
        .zip(results.iter().map(|value| engine.download(value).unwrap()))
        .collect();
    named.sort_by_key(|(id, _)| *id);
    named.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn some_rows_of_a_table() {
    let mut source = Source::from_seed(21);
    let updates = [
        "%8 = mul %6, 0.1\n%9 = sub %0, %8",
        "%8 = mul %6, -0.1\n%9 = add %0, %8",
        "%8 = mul %6, -0.1\n%9 = sub %0, %8",
        "%8 = mul %6, inf\n%9 = sub %0, %8",
        "%9 = sub %0, %6",
        "%9 = add %0, %6",
        "%9 = add %6, %0",
    ];
    for dtype in ["f32", "f64", "bf16", "f16"] {
        let few = [[128, 1], [111, 77]];
        let more = [[128, 150], [1000, 40]];
        for sizes in few.into_iter().chain(more.into_iter().filter(|_| dtype == "f32")) {
            for (i, update) in updates.iter().enumerate() {
                for number in ["0.0", "-0.0", "1.5"] {
                    let kept = if (i + sizes[1]) % 2 == 0 { "output %6" } else { "output %4" };
                    let tape = step(dtype, sizes, [number, update], kept);
                    let data = data(&tape, &mut source, i % 3 == 1);
                    let mut engine = native(1 + i % 2);
                    let eager = eager(&mut engine, &tape, &data).unwrap();
                    let fused = fused(&mut engine, &tape, &data);
                    for (id, want) in &eager {
                        let got = &fused.as_ref().unwrap()[id];
                        assert!(same_bits(want, got), "{id}: {dtype} {sizes:?} {number}\n{update}");
                    }
                    compare("fused", &tape, &data, fused);
                    let given = given(&mut engine, &tape, &data);
                    assert!(eager.values().zip(&given).all(|(a, b)| same_bits(a, b)), "{update}");
                }
            }
        }
    }
}
