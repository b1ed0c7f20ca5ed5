//! Attention as one call forwards and one backwards: where it is taken, where it may not be, and
//! that it computes what the op means.

use std::fmt::Write;

use gt_compiler::{Dump, Numerics, simulated::SimulationConfig};
use gt_ir::{HostTensor, Scalar, Tape, interp, testing::Source, testing::difference};

use super::{Lab, segment};

/// A call: element type, kind, sizes, and whether the operands are parts of one projection, as a
/// transformer makes them.
#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: &'static str,
    kind: &'static str,
    /// Batch, heads, queries, keys, width.
    sizes: [usize; 5],
    packed: bool,
    /// Which of the result and the gradients of query, key and value are read.
    wanted: [bool; 4],
}

const USUAL: Case =
    Case { dtype: "f32", kind: "causal", sizes: [2, 3, 8, 8, 16], packed: true, wanted: [true; 4] };

impl Case {
    fn text(&self) -> String {
        let Case { dtype, kind, sizes: [b, h, s, p, w], packed, wanted } = *self;
        let (q, k) = (format!("{dtype}[{b},{h},{s},{w}]"), format!("{dtype}[{b},{h},{p},{w}]"));
        let mut text = match packed {
            true => projection(self),
            false => format!("%1 = input : {q}\n%2 = input : {k}\n%3 = input : {k}\n"),
        };
        let _ = writeln!(text, "%4 = input : {q}\n%5 = full[f32[]] 0.3 : f32[]");
        let (forward, grad) = ("scaled_dot_product_attention", "scaled_dot_product_attention_grad");
        let calls = [
            format!("%6 = {forward}[{kind}] %1, %2, %3, %5 : {q}\n"),
            format!("%7 = {grad}[{kind},query] %4, %1, %2, %3, %5 : {q}\n"),
            format!("%8 = {grad}[{kind},key] %4, %1, %2, %3, %5 : {k}\n"),
            format!("%9 = {grad}[{kind},value] %4, %1, %2, %3, %5 : {k}\n"),
        ];
        let wanted = || (6..).zip(wanted).filter(|(_, wanted)| *wanted).map(|(id, _)| id);
        wanted().for_each(|id| text += &calls[id - 6]);
        let made = if packed { &[1, 2, 3, 5, 20, 21, 22, 30, 31, 32][..] } else { &[5] };
        for (word, id) in
            made.iter().map(|id| ("free", *id)).chain(wanted().map(|id| ("output", id)))
        {
            let _ = writeln!(text, "{word} %{id}");
        }
        text
    }
}

/// Query, key and value as thirds of the last axis of `[batch, length, 3 * heads * width]`, their
/// heads an axis.
fn projection(case: &Case) -> String {
    let Case { dtype, sizes: [b, h, s, _, w], .. } = *case;
    let all = h * w;
    let mut text = format!("%0 = input : {dtype}[{b},{s},{}]\n", 3 * all);
    for i in 0..3 {
        let (from, to) = (i * all, (i + 1) * all);
        let _ = write!(
            text,
            "%{a} = slice[2,{from},{to},1] %0 : {dtype}[{b},{s},{all}]\n%{c} = \
             reshape[{b},{s},{h},{w}] %{a} : {dtype}[{b},{s},{h},{w}]\n%{q} = permute[0,2,1,3] \
             %{c} : {dtype}[{b},{h},{s},{w}]\n",
            a = 20 + i,
            c = 30 + i,
            q = 1 + i,
        );
    }
    text
}

fn tape(text: &str) -> Tape {
    gt_ir::text::parse(&format!("gt tape 1\n{text}")).unwrap().0
}

fn plan(text: &str, numerics: Numerics) -> String {
    Lab::under(SimulationConfig::default(), text, numerics).program.dump(Dump::Plan).unwrap()
}

fn data(tape: &Tape, seed: u64) -> Vec<HostTensor> {
    gt_ir::testing::inputs(tape, &mut Source::from_seed(seed)).into_values().collect()
}

/// Runs a program often enough that it is replayed, each time compared with the interpreter.
fn check(text: &str, scales: &[f64], tolerance: f64) -> u64 {
    let tape = tape(text);
    let mut lab = Lab::under(SimulationConfig::default(), text, Numerics::Approximate);
    let graph = segment(text).graph.expanded().unwrap();
    for (run, scale) in (0..).zip(scales) {
        lab.scalars.iter_mut().for_each(|s| *s = Scalar::F64(*scale));
        let given = data(&tape, run);
        let wanted = interp::run_graph(&graph, &given, &lab.scalars).unwrap();
        let inputs = given.iter().map(|t| lab.engine.upload(t).unwrap()).collect();
        let got = lab.run(inputs).unwrap();
        for (wanted, got) in wanted.iter().zip(&got) {
            let got = lab.engine.download(got).unwrap();
            assert_eq!(difference(wanted, &got, tolerance), None, "run {run} of {text}");
        }
    }
    lab.replays()
}

#[test]
fn attention_is_a_call_forwards_and_one_backwards() {
    let text = USUAL.text();
    let found = plan(&text, Numerics::Approximate);
    assert_eq!(found.matches(" = attention (").count(), 1, "{found}");
    assert_eq!(found.matches(" = attention backward (").count(), 1, "{found}");
    // The operands are read where the projection left them; what is asked for is copied from where
    // the calls left it, all at once.
    assert_eq!(found.lines().count(), 3, "{found}");
    // A gradient alone needs its forward call; a result alone no gradient.
    let alone = Case { wanted: [false, true, false, false], ..USUAL };
    assert_eq!(plan(&alone.text(), Numerics::Approximate).lines().count(), 3);
    let forward = Case { wanted: [true, false, false, false], ..USUAL };
    assert_eq!(plan(&forward.text(), Numerics::Approximate).lines().count(), 2);
}

#[test]
fn between_projections_nothing_is_copied() {
    let forward = Case { wanted: [true, false, false, false], ..USUAL }.text();
    let asked = forward.split("output").next().unwrap();
    let text = format!(
        "{asked}%40 = permute[0,2,1,3] %6 : f32[2,8,3,16]\n%41 = reshape[2,8,48] %40 : \
         f32[2,8,48]\n%42 = input : f32[48,5]\n%43 = matmul %41, %42 : f32[2,8,5]\nfree %6\nfree \
         %40\nfree %41\noutput %43\n"
    );
    let found = plan(&text, Numerics::Approximate);
    assert_eq!(found.lines().count(), 2, "{found}");
    check(&text, &[0.3; 5], 16.0);
}

#[test]
fn attention_stays_what_it_is_where_a_call_would_be_another() {
    for numerics in [Numerics::Exact, Numerics::Reassociate] {
        assert!(!plan(&USUAL.text(), numerics).contains("attention"), "{numerics}");
    }
    let odd = Case { sizes: [2, 3, 8, 8, 12], ..USUAL };
    let later = Case { sizes: [2, 3, 4, 8, 16], packed: false, ..USUAL };
    let exact = Case { dtype: "f64", ..USUAL };
    let mut texts: Vec<String> = [odd, later, exact].iter().map(Case::text).collect();
    texts.push(
        "%0 = input : f32[2,3,8,16]\n%1 = input : bool[8,8]\n%2 = \
         scaled_dot_product_attention[full] %0, %0, %0, 0.3, %1 : f32[2,3,8,16]\noutput %2\n"
            .into(),
    );
    texts.push(
        "%0 = input : f32[2,3,8,16]\n%1 = input : f32[]\n%2 = scaled_dot_product_attention[full] \
         %0, %0, %0, %1 : f32[2,3,8,16]\noutput %2\n"
            .into(),
    );
    for text in texts {
        assert!(!plan(&text, Numerics::Approximate).contains("attention"), "{text}");
        check(&text, &[0.3; 2], 16.0);
    }
}

#[test]
fn the_scale_may_change_from_run_to_run() {
    // A graph holds the scale it was captured with: it serves runs with this one.
    let replays = check(&USUAL.text(), &[0.3; 8], 16.0);
    assert!(replays > 3, "{replays}");
    check(&USUAL.text(), &[0.3, 0.3, 0.3, 0.3, 0.3, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1], 16.0);
}

#[test]
fn one_tensor_may_be_query_key_and_value() {
    let text = "%0 = input : f32[1,2,8,8]\n%3 = input : f32[1,2,8,8]\n%4 = full[f32[]] 0.3 : \
                f32[]\n%5 = scaled_dot_product_attention_grad[full,query] %3, %0, %0, %0, %4 : \
                f32[1,2,8,8]\n%6 = scaled_dot_product_attention_grad[full,key] %3, %0, %0, %0, %4 \
                : f32[1,2,8,8]\n%7 = scaled_dot_product_attention_grad[full,value] %3, %0, %0, \
                %0, %4 : f32[1,2,8,8]\n%8 = add %5, %6 : f32[1,2,8,8]\n%9 = add %8, %7 : \
                f32[1,2,8,8]\noutput %9\n";
    assert!(plan(text, Numerics::Approximate).contains("attention backward"));
    check(text, &[0.3; 4], 16.0);
}

#[test]
fn memory_does_not_grow_with_the_square_of_the_length() {
    let bytes = |length: usize, numerics| {
        let text = Case { sizes: [1, 2, length, length, 16], ..USUAL }.text();
        Lab::under(SimulationConfig::default(), &text, numerics).program.temporary_bytes()
    };
    let growth = |numerics| bytes(1024, numerics) / bytes(256, numerics);
    assert!(growth(Numerics::Approximate) <= 4);
    assert!(growth(Numerics::Exact) > 8);
}

#[test]
fn attention_of_any_shape_is_what_the_op_means() {
    for seed in 0..40 {
        let mut source = Source::from_seed(seed);
        let mut size = |most: usize| 1 + source.below(most);
        let (length, width) = (size(40), 8 * size(4));
        let sizes = [size(3), size(3), length, length, width];
        let mut flip = || source.below(2) == 0;
        let mut case = Case {
            dtype: if flip() { "f32" } else { "bf16" },
            kind: if flip() { "causal" } else { "full" },
            sizes,
            packed: flip(),
            wanted: [flip(), flip(), flip(), true],
        };
        if !case.packed && case.kind == "full" {
            case.sizes[3] = 1 + source.below(40);
        }
        let text = case.text();
        assert!(plan(&text, Numerics::Approximate).contains("attention"), "{case:?}");
        check(&text, &[0.3, 0.3, 0.3, 0.3, 0.3], 24.0);
    }
}
