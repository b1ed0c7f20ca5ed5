//! How many launches a program is: what belongs together is one, and what must not be joined is not.

use std::fmt::Write;

use gt_compiler::{Dump, Numerics, device::SimulationConfig};
use gt_ir::{
    DType, HostTensor, Op, Shape, Type, interp,
    testing::{difference, units},
};

use super::Lab;

/// The steps of a program's plan.
fn steps(text: &str) -> Vec<String> {
    steps_with(text, Numerics::Exact)
}

fn steps_with(text: &str, numerics: Numerics) -> Vec<String> {
    let lab = Lab::under(SimulationConfig::default(), text, numerics);
    let plan = lab.program.dump(Dump::Plan).unwrap();
    plan.lines().map(|line| line.split(" (").next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn what_hands_on_rows_is_one_launch() {
    let programs = [
        "%0 = input : f32[64,128]\n%1 = softmax[1] %0 : f32[64,128]\noutput %1\n",
        "%0 = input : f32[64,1000]\n%1 = log_softmax[1] %0 : f32[64,1000]\noutput %1\n",
        "%0 = input : f32[2,64,768]\n%1 = input : f32[768]\n%2 = input : f32[768]\n\
         %3 = layer_norm[1] %0, %1, %2, 1e-5 : f32[2,64,768]\noutput %3\n",
        "%0 = input : bf16[128,512]\n%1 = input : bf16[512]\n%2 = rms_norm[1] %0, %1, 1e-5 : bf16[128,512]\noutput %2\n",
        // What a softmax hands back: y * (g - sum(y * g)), with the softmax computed again.
        "%0 = input : f32[64,128]\n%1 = input : f32[64,128]\n%2 = softmax[1] %0 : f32[64,128]\n\
         %3 = mul %2, %1 : f32[64,128]\n%4 = sum[1] %3 : f32[64]\n%5 = reshape[64,1] %4 : f32[64,1]\n\
         %6 = sub %1, %5 : f32[64,128]\n%7 = mul %2, %6 : f32[64,128]\noutput %7\n",
    ];
    for program in programs {
        let steps = steps(program);
        assert_eq!(steps.len(), 1, "{steps:?}\n{program}");
        assert!(steps[0].contains("along"), "{steps:?}\n{program}");
    }
}

/// A step of Adam over so many parameters of three sizes, in place.
fn adam(n: usize) -> String {
    let mut text = String::new();
    let size = |i: usize| [4096, 1000, 64][i % 3];
    let mut next = 0;
    for i in 0..n {
        for name in ["p", "m", "v", "g"] {
            let _ = writeln!(text, "%{next} = input \"{name}{i}\" : f32[{}]", size(i));
            next += 1;
        }
    }
    let mut outputs = String::new();
    for i in 0..n {
        let (ty, at) = (format!("f32[{}]", size(i)), 4 * i);
        let (p, m, v, g) = (at, at + 1, at + 2, at + 3);
        let mut say = |op: String| {
            let _ = writeln!(text, "%{next} = {op} : {ty}");
            next += 1;
            next - 1
        };
        let kept = say(format!("mul %{m}, 0.9"));
        let new = say(format!("mul %{g}, 0.1"));
        let m2 = say(format!("add %{kept}, %{new}"));
        let kept = say(format!("mul %{v}, 0.999"));
        let square = say(format!("mul %{g}, %{g}"));
        let new = say(format!("mul %{square}, 0.001"));
        let v2 = say(format!("add %{kept}, %{new}"));
        let root = say(format!("sqrt %{v2}"));
        let root = say(format!("add %{root}, 1e-8"));
        let way = say(format!("div %{m2}, %{root}"));
        let way = say(format!("mul %{way}, 0.01"));
        let p2 = say(format!("sub %{p}, %{way}"));
        let made = (p2 - 11..p2).filter(|id| ![m2, v2].contains(id));
        for id in made.chain([p, m, v, g]) {
            let _ = writeln!(text, "free %{id}");
        }
        let _ = writeln!(outputs, "output %{p2}\noutput %{m2}\noutput %{v2}");
    }
    text + &outputs
}

#[test]
fn an_optimizer_over_all_parameters_is_few_launches() {
    assert_eq!(steps(&adam(1)), ["f0 kernel"]);
    assert_eq!(steps(&adam(30)), ["f0 30 kernels side by side"]);
    // As many as a launch takes arguments.
    assert_eq!(steps(&adam(150)).len(), 3);
}

#[test]
fn an_optimizer_side_by_side_works_in_place() {
    let mut lab = Lab::with(&adam(30));
    let mut inputs = Vec::new();
    for i in 0..120 {
        let size = [4096, 1000, 64][i / 4 % 3];
        let value = if i % 4 == 2 { 0.0 } else { (i % 7) as f32 * 0.1 };
        inputs.push(lab.give(&vec![value; size]));
    }
    let addresses: Vec<usize> = inputs.iter().map(gt_compiler::Value::address).collect();
    for _ in 0..6 {
        let grads: Vec<_> = inputs.iter().skip(3).step_by(4).cloned().collect();
        let results = lab.run(inputs).unwrap();
        // In the order they are computed: both moments, then the parameter.
        let next = results.chunks(3).zip(grads);
        inputs = next
            .flat_map(|(new, grad)| [new[2].clone(), new[0].clone(), new[1].clone(), grad])
            .collect();
        drop(results);
        assert!(inputs.iter().map(gt_compiler::Value::address).eq(addresses.iter().copied()));
    }
    assert!(lab.replays() > 2);
    // The first parameter: value 0, first moment 0.1, gradient 0.3.
    let (mut p, mut m, mut v) = (0.0f32, 0.1f32, 0.0f32);
    for _ in 0..6 {
        m = m * 0.9 + 0.3 * 0.1;
        v = v * 0.999 + 0.3 * 0.3 * 0.001;
        p -= m / (v.sqrt() + 1e-8) * 0.01;
    }
    let got = lab.read(&inputs[0]);
    assert!(got.iter().all(|x| (x - p).abs() < 1e-5), "{} {p}", got[0]);
}

#[test]
fn what_reads_other_rows_or_needs_a_result_in_between_is_not_joined() {
    // Each row less the sum of all: a row cannot be finished before the others.
    let all = "%0 = input : f32[256,128]\n%1 = sum[0,1] %0 : f32[]\n%2 = sub %0, %1 : f32[256,128]\noutput %2\n";
    assert!(steps(all).len() > 1, "{:?}", steps(all));
    // A kernel that reads what the one before it makes is not put beside it.
    let chain = "%0 = input : f32[64,128]\n%1 = exp %0 : f32[64,128]\n%2 = transpose[0,1] %1 : f32[128,64]\n\
         %3 = add %2, 1.0 : f32[128,64]\n%4 = softmax[1] %3 : f32[128,64]\noutput %1\noutput %4\n";
    assert!(!steps(chain).iter().any(|step| step.contains("side by side")), "{:?}", steps(chain));
}

/// A layer: a product, a row added, perhaps nothing below zero.
fn layer(dtype: &str, [m, k, n]: [usize; 3], relu: bool, transposed: bool) -> String {
    let weight = match transposed {
        true => {
            format!("%1 = input : {dtype}[{n},{k}]\n%3 = transpose[0,1] %1 : {dtype}[{k},{n}]\n")
        }
        false => {
            format!("%1 = input : {dtype}[{k},{n}]\n%3 = reshape[{k},{n}] %1 : {dtype}[{k},{n}]\n")
        }
    };
    let last = match relu {
        true => format!("%6 = relu %5 : {dtype}[{m},{n}]\nfree %3\nfree %4\nfree %5\noutput %6\n"),
        false => "free %3\nfree %4\noutput %5\n".into(),
    };
    format!(
        "%0 = input : {dtype}[{m},{k}]\n{weight}%2 = input : {dtype}[{n}]\n\
         %4 = matmul %0, %3 : {dtype}[{m},{n}]\n%5 = add %4, %2 : {dtype}[{m},{n}]\n{last}"
    )
}

#[test]
fn a_layer_is_one_product_where_that_is_allowed() {
    let [plain, cut] = [false, true].map(|relu| layer("f32", [64, 32, 48], relu, true));
    assert_eq!(steps(&plain).len(), 2);
    assert_eq!(steps_with(&plain, Numerics::Reassociate).len(), 1);
    assert_eq!(steps_with(&cut, Numerics::Reassociate).len(), 2);
    assert_eq!(steps_with(&cut, Numerics::Approximate).len(), 1);
    // The product itself is asked for too; the row is computed; the row is a column.
    let asked = plain.replace("free %4\n", "output %4\n");
    let computed = plain.replace("%5 = add %4, %2", "%9 = neg %2 : f32[48]\n%5 = add %4, %9");
    let column = plain.replace("%2 = input : f32[48]", "%2 = input : f32[64,1]");
    for text in [asked, computed, column] {
        assert!(steps_with(&text, Numerics::Approximate).len() > 1, "{text}");
    }
}

#[test]
fn layers_are_right_whatever_they_are_made_of() {
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16] {
        for (sizes, transposed) in [([5, 7, 9], true), ([64, 32, 48], false), ([2, 1, 3], true)] {
            for relu in [false, true] {
                check_layer(dtype, sizes, relu, transposed);
            }
        }
    }
}

fn check_layer(dtype: DType, sizes: [usize; 3], relu: bool, transposed: bool) {
    let text = layer(&dtype.to_string(), sizes, relu, transposed);
    let mut lab = Lab::under(SimulationConfig::default(), &text, Numerics::Approximate);
    let segment = super::segment(&text);
    let ramp = |ty: Type| {
        let values = (0..ty.shape.numel()).map(|i| ((i * 37 + 11) % 23) as f64 / 8.0 - 1.25);
        let wide = HostTensor::from_vec(values.collect(), Shape::new(ty.shape.sizes()).unwrap());
        interp::eval(&Op::Cast(ty.dtype), &[interp::Arg::Tensor(&wide.unwrap())]).unwrap()
    };
    let types = segment.graph.inputs().iter().map(|id| segment.graph.node(*id).ty);
    let data: Vec<HostTensor> = types.map(ramp).collect();
    let tape = gt_ir::text::parse(&format!("gt tape 1\n{text}")).unwrap().0;
    let named = segment.inputs.iter().copied().zip(data.iter().cloned()).collect();
    let wanted = interp::run(&tape, &named).unwrap();
    // Step by step, then replayed.
    for _ in 0..5 {
        let inputs = data.iter().map(|t| lab.engine.upload(t).unwrap()).collect();
        let got = lab.one(inputs);
        let got = lab.engine.download(&got).unwrap();
        let wanted = wanted.values().next().unwrap();
        let found = difference(wanted, &got, 4.0 * units(&segment.graph, dtype));
        assert_eq!(found, None, "{text}");
    }
}
