//! Plans respect the memory of members: of those that fit the fastest, else the one that needs
//! least.

use gt_compiler::shard::{Alternative, Auto, Explained, Rates, Request, at, explain};
use gt_ir::canonical::canonical;
use gt_ir::layout::Layout;
use gt_ir::signal::Signals;
use gt_ir::{Entry, Tape, Type, ValueId};

/// A step with momentum. The parameter and its momentum are there before it.
const STEP: &str = "gt tape 1
%0 = input : f32[512,512]
%1 = input : f32[512,512]
%2 = input : f32[256,512]
%3 = matmul %2, %0
%4 = relu %3
%5 = permute[1,0] %2
%6 = matmul %5, %4
%7 = add %1, %6
%8 = sub %0, %7
free %0
free %1
free %2
free %3
free %4
free %5
free %6
";

/// The step on four members with so many bytes each, and the memory of the fullest when it comes
/// again.
fn planned(memory: u64) -> (Vec<Alternative>, u64) {
    let (tape, _) = gt_ir::text::parse(STEP).unwrap();
    let is_state = |value: ValueId| value.0 < 2;
    let state = |entry: &&Entry| entry.defines().is_some_and(is_state);
    let mut inputs: Vec<(Type, Layout)> = tape.entries.iter().filter(state).map(held).collect();
    let body = tape.entries.iter().filter(|entry| !state(entry)).cloned().collect();
    let (template, bindings) = canonical(&Tape { entries: body });
    let step = |inputs: &[(Type, Layout)]| {
        let request = Request {
            template: &template,
            inputs,
            signals: &Signals::new(),
            uploads: &[],
            n_members: 4,
            auto: Some(Auto { zero: 0, memory }),
            rates: Rates::default(),
        };
        explain(&request, None).unwrap()
    };
    let first = step(&inputs);
    for (value, input) in [(8, 0), (7, 1)] {
        let input = bindings.inputs.iter().position(|id| id.0 == input).unwrap();
        let made = bindings.defined.iter().position(|id| id.0 == value).unwrap();
        let number = (bindings.inputs.len() + made) as u32;
        let kept = first.partition.kept.iter().find(|kept| kept.value == number).unwrap();
        inputs[input].1 = kept.layout.clone();
    }
    let Explained { peaks, .. } = step(&inputs);
    (first.plans, peaks.into_iter().max().unwrap())
}

fn held(entry: &Entry) -> (Type, Layout) {
    match entry {
        Entry::Input { ty, .. } => (*ty, at(0)),
        other => panic!("{other:?} is no input"),
    }
}

#[test]
fn plans_that_do_not_fit_are_not_taken() {
    let (all, least) = planned(1);
    let peaks: Vec<u64> = all.iter().map(|way| way.peak.unwrap()).collect();
    assert_eq!(peaks.iter().min(), Some(&least), "nothing fits, so the smallest is taken");
    let (alone, most) = (peaks[0], *peaks.iter().max().unwrap());
    assert!(2 * least < alone, "four members need {least} bytes each, one needs {alone}");
    for &memory in &peaks {
        let (tried, peak) = planned(memory);
        assert!(peak <= memory, "{peak} bytes are needed of {memory}: {tried:?}");
    }
    let (tried, _) = planned(most * 100);
    assert!(tried.iter().all(|way| way.peak.is_none()), "plenty of memory is not counted");
}
