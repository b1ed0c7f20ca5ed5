//! Shortened segments beside the whole ones: values stand for values of their type, and what is
//! found for all layers is near to what a walk over all of them finds.

use std::fmt::Write as _;

use gt_ir::op::infer;
use gt_ir::testing::Source;
use gt_ir::{Entry, Type};

use super::Short;
use crate::shard::auto::tests::{by_all, with_request};
use crate::shard::future::operand_types;
use crate::shard::report::Alternative;
use crate::shard::{Request, explain};

/// A step of training of `n` random layers alike, as text: values from outside first. Updates come
/// with the gradients of each layer, or after all of them.
fn step(source: &mut Source<'_>, n: usize, size: usize, updates_last: bool) -> String {
    let mut text = format!("gt tape 1\n%0 = input : f32[{size},{size}]\n");
    let mut next = 1;
    let mut line = |text: &mut String, what: &str| {
        writeln!(text, "%{next} = {what}").unwrap();
        next += 1;
        next - 1
    };
    let matrix = format!("input : f32[{size},{size}]");
    let parameters: Vec<usize> = (0..n).map(|_| line(&mut text, &matrix)).collect();
    let biases: Vec<usize> =
        (0..n).map(|_| line(&mut text, &format!("input : f32[{size}]"))).collect();
    let block: Vec<usize> = (0..4 + source.below(5)).map(|_| source.below(5)).collect();
    let (mut x, mut kept) = (0, Vec::new());
    for (w, b) in parameters.iter().zip(&biases) {
        let first = x;
        x = line(&mut text, &format!("matmul %{x}, %{w}"));
        for kind in &block {
            x = match kind {
                0 => line(&mut text, &format!("add %{x}, %{b}")),
                1 => line(&mut text, &format!("relu %{x}")),
                2 => line(&mut text, &format!("softmax[1] %{x}")),
                3 => line(&mut text, &format!("add %{x}, %{first}")),
                _ => line(&mut text, &format!("mul %{x}, 0.5")),
            };
        }
        kept.push((first, x));
    }
    let mut gradient = line(&mut text, &format!("mul %{x}, 0.001"));
    let mut pending = Vec::new();
    let update = |text: &mut String,
                  of: usize,
                  w: usize,
                  line: &mut dyn FnMut(&mut String, &str) -> usize| {
        let change = line(text, &format!("mul %{of}, 0.1"));
        line(text, &format!("sub %{w}, %{change}"));
        writeln!(text, "free %{w}\nfree %{change}\nfree %{of}").unwrap();
    };
    for (layer, (first, last)) in kept.iter().enumerate().rev() {
        let w = parameters[layer];
        let mask = line(&mut text, &format!("gt %{last}, 0.0"));
        let inner = line(&mut text, &format!("where %{mask}, %{gradient}, 0.0"));
        let turned = line(&mut text, &format!("permute[1,0] %{first}"));
        let of = line(&mut text, &format!("matmul %{turned}, %{inner}"));
        let turned = line(&mut text, &format!("permute[1,0] %{w}"));
        gradient = line(&mut text, &format!("matmul %{inner}, %{turned}"));
        writeln!(text, "free %{mask}\nfree %{inner}\nfree %{last}").unwrap();
        match updates_last {
            true => pending.push((of, w)),
            false => update(&mut text, of, w, &mut line),
        }
    }
    for (of, w) in pending.into_iter().rev() {
        update(&mut text, of, w, &mut line);
    }
    text
}

/// The types of all values of a segment.
fn types(request: &Request<'_>) -> Vec<Type> {
    let mut types: Vec<Type> = request.inputs.iter().map(|(ty, _)| *ty).collect();
    for entry in &request.template.tape.entries {
        match entry {
            Entry::Input { ty, .. } => types.push(*ty),
            Entry::Instr(instr) => {
                types.push(infer(&instr.op, &operand_types(instr, &types)).unwrap());
            }
            Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
        }
    }
    types
}

#[test]
fn a_value_stands_for_values_of_its_type() {
    for seed in 0..60 {
        let mut source = Source::from_seed(seed);
        let (n, last) = (100 + source.below(60), source.chance(1, 2));
        let text = step(&mut source, n, 64, last);
        with_request(&text, 2, |request| {
            let whole = types(request);
            let shorts =
                Short::pair(request).unwrap_or_else(|| panic!("{seed}: not shortened\n{text}"));
            for short in &shorts {
                let own = short.request(request);
                let own = types(&own);
                assert!(own.len() * 2 < whole.len(), "{seed}");
                assert_eq!(own.len(), short.originals.len());
                for (value, stand_in) in short.stand_ins.iter().enumerate() {
                    assert_eq!(whole[value], own[*stand_in], "{seed}: value {value}\n{text}");
                }
                for (here, original) in short.originals.iter().enumerate() {
                    assert_eq!(short.stand_ins[*original], here, "{seed}");
                }
                let all: f64 = short.times().iter().sum();
                assert_eq!(all as usize, whole.len());
            }
        });
    }
}

/// The least time of some ways.
fn best(ways: &[Alternative]) -> f64 {
    ways.iter().map(|way| way.seconds).fold(f64::INFINITY, f64::min)
}

#[test]
fn few_layers_tell_what_all_take() {
    let mut gaps = Vec::new();
    for seed in 0..16 {
        let mut source = Source::from_seed(seed);
        let size = [128, 512, 1024][source.below(3)];
        let n = 100 + source.below(40);
        let text = step(&mut source, n, size, seed % 2 == 0);
        for members in [2, 4] {
            with_request(&text, members, |request| {
                let planned = explain(request, None).unwrap();
                let (few, all) = (planned.plans, by_all(request));
                let gap = best(&few) / best(&all) - 1.0;
                assert!(gap.abs() < 0.06, "{seed} on {members}: {few:?} and {all:?}");
                gaps.push(gap.abs());
            });
        }
    }
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!(mean < 0.01, "{mean}: {gaps:?}");
}

/// Rounds that do the same and are not alike: a stack that grows, matrices of two sizes in turn, a
/// chain of values that members make by themselves up to a length.
fn unlike() -> [String; 3] {
    let mut growing = String::from("gt tape 1\n%0 = input : f32[4,64]\n%1 = input : f32[64,64]\n");
    let mut turns = String::from("gt tape 1\n%0 = input : f32[64,64]\n");
    for layer in 0..128 {
        let sizes = if layer % 2 == 0 { "64,256" } else { "256,64" };
        writeln!(turns, "%{} = input : f32[{sizes}]", layer + 1).unwrap();
    }
    let mut chain = String::from("gt tape 1\n%0 = input : f32[64,64]\n%1 = full[f32[64,64]] 1.0\n");
    let (mut stack, mut x, mut made, mut sum) = (0, 0, 1, 0);
    for round in 0..128 {
        let n = 2 + 6 * round;
        writeln!(growing, "%{n} = slice[0,0,4,1] %{stack}\n%{} = matmul %{n}, %1", n + 1).unwrap();
        writeln!(growing, "%{} = relu %{}\n%{} = mul %{}, 0.5", n + 2, n + 1, n + 3, n + 2)
            .unwrap();
        writeln!(growing, "%{} = cat[0] %{stack}, %{}", n + 4, n + 3).unwrap();
        writeln!(growing, "%{} = mul %{}, 0.5\nfree %{}", n + 5, n + 4, n + 4).unwrap();
        stack = n + 5;
        let n = 129 + 8 * round;
        writeln!(turns, "%{n} = matmul %{x}, %{}", round + 1).unwrap();
        for (at, op) in ["relu", "neg", "exp", "abs", "tanh", "neg", "relu"].iter().enumerate() {
            writeln!(turns, "%{} = {op} %{}\nfree %{}", n + at + 1, n + at, n + at).unwrap();
        }
        x = n + 7;
        let n = 2 + 8 * round;
        writeln!(chain, "%{n} = add %{made}, 1.0\n%{} = matmul %{sum}, %{n}", n + 1).unwrap();
        for at in 1..7 {
            writeln!(chain, "%{} = mul %{}, 0.5\nfree %{}", n + at + 1, n + at, n + at).unwrap();
        }
        (made, sum) = (n, n + 7);
    }
    [growing, turns, chain]
}

#[test]
fn rounds_that_are_not_alike_are_not_taken_for_such() {
    for text in unlike() {
        for members in [2, 4] {
            with_request(&text, members, |request| {
                let found = explain(request, None).unwrap_or_else(|e| panic!("{e}\n{text}"));
                let (few, all) = (best(&found.plans), best(&by_all(request)));
                assert!((few / all - 1.0).abs() < 0.1, "{few} and {all}\n{text}");
            });
        }
    }
}
