//! How many launches a program is: what belongs together is one, and what must not be joined is
//! not.

use std::fmt::Write;

use gt_compiler::{
    Dump, Numerics,
    simulated::{Simulation, SimulationConfig},
};

use super::Lab;
use crate::sweeps::layers::{layer, layers};

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
        "%0 = input : f32[2,64,768]\n%1 = input : f32[768]\n%2 = input : f32[768]\n%3 = \
         layer_norm[1] %0, %1, %2, 1e-5 : f32[2,64,768]\noutput %3\n",
        "%0 = input : bf16[128,512]\n%1 = input : bf16[512]\n%2 = rms_norm[1] %0, %1, 1e-5 : \
         bf16[128,512]\noutput %2\n",
        // What a softmax hands back: y * (g - sum(y * g)), with the softmax computed again.
        "%0 = input : f32[64,128]\n%1 = input : f32[64,128]\n%2 = softmax[1] %0 : f32[64,128]\n%3 \
         = mul %2, %1 : f32[64,128]\n%4 = sum[1] %3 : f32[64]\n%5 = reshape[64,1] %4 : \
         f32[64,1]\n%6 = sub %1, %5 : f32[64,128]\n%7 = mul %2, %6 : f32[64,128]\noutput %7\n",
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
    let all = "%0 = input : f32[256,128]\n%1 = sum[0,1] %0 : f32[]\n%2 = sub %0, %1 : \
               f32[256,128]\noutput %2\n";
    assert!(steps(all).len() > 1, "{:?}", steps(all));
    // A kernel that reads what the one before it makes is not put beside it.
    let chain = "%0 = input : f32[64,128]\n%1 = exp %0 : f32[64,128]\n%2 = transpose[0,1] %1 : \
                 f32[128,64]\n%3 = add %2, 1.0 : f32[128,64]\n%4 = softmax[1] %3 : \
                 f32[128,64]\noutput %1\noutput %4\n";
    assert!(!steps(chain).iter().any(|step| step.contains("side by side")), "{:?}", steps(chain));
}

#[test]
fn a_layer_is_one_product_where_that_is_allowed() {
    let plain = layer("f32", [64, 32, 48], None, true);
    assert_eq!(steps(&plain).len(), 2);
    assert_eq!(steps_with(&plain, Numerics::Reassociate).len(), 1);
    // The product itself is asked for too; the row is computed; the row is a column.
    let asked = plain.replace("free %4\n", "output %4\n");
    let computed = plain.replace("%5 = add %4, %2", "%9 = neg %2 : f32[48]\n%5 = add %4, %9");
    let column = plain.replace("%2 = input : f32[48]", "%2 = input : f32[64,1]");
    for text in [asked, computed, column] {
        assert!(steps_with(&text, Numerics::Approximate).len() > 1, "{text}");
    }
}

#[test]
fn an_activation_goes_into_the_product_where_that_is_allowed() {
    for dtype in ["f32", "f64", "bf16", "f16"] {
        for activation in ["relu", "gelu_tanh"] {
            let text = layer(dtype, [64, 32, 48], Some(activation), true);
            assert_eq!(steps_with(&text, Numerics::Reassociate).len(), 2, "{text}");
            if (dtype, activation) == ("f64", "gelu_tanh") {
                // The vendor's function has nine digits.
                assert_eq!(steps_with(&text, Numerics::Approximate).len(), 2, "{text}");
                continue;
            }
            let [step] = &steps_with(&text, Numerics::Approximate)[..] else {
                panic!("not one step: {text}");
            };
            assert!(step.contains(activation.trim_end_matches("_tanh")), "{step}");
            let deep = text.replace("[64,", "[4,16,");
            assert_eq!(steps_with(&deep, Numerics::Approximate).len(), 1, "{deep}");
            // The sums are asked for, too, or read by something else.
            let asked = text.replace("free %5\n", "output %5\n");
            let read = text.replace(
                "free %4\n",
                &format!("free %4\n%7 = exp %5 : {dtype}[64,48]\noutput %7\n"),
            );
            for text in [asked, read] {
                let steps = steps_with(&text, Numerics::Approximate);
                assert!(steps.iter().all(|s| !s.contains("elu")) && steps.len() > 1, "{steps:?}");
            }
        }
    }
}

/// What resembles an activation and is another function.
#[test]
fn no_other_function_goes_into_a_product() {
    let tanh = layer("f32", [64, 32, 48], Some("tanh"), true);
    let by_erf = layer("f32", [64, 32, 48], Some("gelu"), true);
    let relu = layer("f32", [64, 32, 48], Some("relu"), true);
    let elsewhere = relu.replace("relu %5", "maximum %5, 1.0");
    // x / 2 * (1 + tanh(x + x^3 / 20)), in the order of the formula.
    let other = relu.replace(
        "%6 = relu %5 : f32[64,48]",
        "%7 = mul %5, %5\n%8 = mul %7, 0.05\n%9 = add %8, 1\n%10 = mul %5, %9\n%11 = mul %10, \
         1.0\n%12 = tanh %11\n%13 = add %12, 1\n%14 = mul %5, 0.5\n%6 = mul %14, %13\nfree \
         %7\nfree %8\nfree %9\nfree %10\nfree %11\nfree %12\nfree %13\nfree %14",
    );
    for text in [tanh, by_erf, elsewhere, other] {
        let steps = steps_with(&text, Numerics::Approximate);
        assert_eq!(steps.len(), 2, "{steps:?}\n{text}");
    }
}

#[test]
fn layers_are_right_whatever_they_are_made_of() {
    layers(Simulation::new(SimulationConfig::default()).engine().unwrap().as_mut());
}

#[test]
fn a_normalization_goes_back_in_one_launch_whatever_stands_beside_it() {
    // The gradient of a layer norm: two sums of each row, and what they make of it.
    let back = "%0 = input : f32[1024,256]\n%1 = input : f32[256]\n%2 = input : f32[1024,256]\n%3 \
                = input : f32[1024,1]\n%4 = mul %0, %1 : f32[1024,256]\n%5 = sum[1,keep] %4 : \
                f32[1024,1]\n%6 = mul %4, %2 : f32[1024,256]\n%7 = sum[1,keep] %6 : \
                f32[1024,1]\n%8 = sub %4, %5 : f32[1024,256]\n%9 = mul %2, %7 : \
                f32[1024,256]\n%10 = sub %8, %9 : f32[1024,256]\n%11 = mul %10, %3 : \
                f32[1024,256]\n";
    let frees = (4..11).fold(String::new(), |text, id| text + &format!("free %{id}\n"));
    // The gradients of its weight and bias, and of a bias before it, are sums over all rows.
    let own = "%12 = mul %0, %2 : f32[1024,256]\n%13 = sum[0] %12 : f32[256]\n%14 = sum[0] %0 : \
               f32[256]\nfree %12\noutput %13\noutput %14\n";
    let before = "%15 = sum[0] %11 : f32[256]\noutput %15\n";
    for (beside, launches) in [("", 1), (own, 2), (before, 2)] {
        let steps = steps(&format!("{back}{beside}{frees}output %11\n"));
        assert_eq!(steps.len(), launches, "{steps:?}");
        assert!(steps.iter().any(|step| step.ends_with("2 kernels along 1024 rows")), "{steps:?}");
    }
}
