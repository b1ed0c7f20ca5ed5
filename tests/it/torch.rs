//! Programs on the engine `torch` read the values that they read on the native engine.
//!
//! The tests run every program of the zoo, and the examples, on the engine. The tapes of the zoo
//! also run by libtorch's own operators, instruction by instruction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use gt::ir::backend::{Backend, RunError, Stats};
use gt::ir::testing::difference;
use gt::ir::{HostTensor, Tape, ValueId};
use gt::prelude::*;
use gt_compiler::Device;
use gt_compiler::torch::ops::run_tape;
use gt_runtime::choice::{Devices, EngineKind, Wish};
use gt_runtime::embedded::System;

use crate::process::Process;
use crate::zoo::Step;

/// A session that keeps its inputs and outputs.
struct Recorder {
    system: Arc<dyn Backend>,
    record: Mutex<Record>,
}

#[derive(Clone, Default)]
struct Record {
    tape: Tape,
    inputs: BTreeMap<ValueId, HostTensor>,
    reads: Vec<(ValueId, HostTensor)>,
}

impl Recorder {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }
}

impl Backend for Recorder {
    fn submit(&self, segment: Tape) {
        self.record().tape.entries.extend(segment.entries.iter().cloned());
        self.system.submit(segment);
    }

    fn upload(&self, value: ValueId, data: HostTensor) {
        self.record().inputs.insert(value, data.clone());
        self.system.upload(value, data);
    }

    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError> {
        let data = self.system.fetch(value)?;
        self.record().reads.push((value, data.clone()));
        Ok(data)
    }

    fn stats(&self) -> Result<Stats, RunError> {
        self.system.stats()
    }

    fn close(&self) {
        self.system.close();
    }
}

/// Runs some steps of a program on an engine of the CPU.
fn recorded(engine: EngineKind, program: fn() -> Step) -> Record {
    let devices = Some(Devices::List(vec![Device::Cpu]));
    let system = System::own(&Wish { engine: Some(engine), devices }, None).unwrap();
    let recorder =
        Arc::new(Recorder { system: system.session(), record: Mutex::new(Record::default()) });
    let session = Session::with_backend(recorder.clone());
    let _current = session.enter();
    session.manual_seed(0);
    let mut step = program();
    (0..3).for_each(|_| step().unwrap());
    session.close();
    recorder.record().clone()
}

/// Compares tensors, with a tolerance of 1e-5 of the largest element.
fn same(what: &str, native: &HostTensor, other: &HostTensor) {
    let found = difference(native, other, 10.0);
    assert_eq!(found, None, "{what}: native and libtorch differ");
}

/// Checks that a program of the zoo reads the same values on the native engine, on the engine
/// `torch`, and by libtorch's operators.
pub(crate) fn agrees(name: &str, program: fn() -> Step) {
    let [native, torch] = [EngineKind::Native, EngineKind::Torch].map(|e| recorded(e, program));
    assert!(!native.reads.is_empty() && native.reads.len() == torch.reads.len(), "{name}");
    let by_ops = run_tape(&native.tape, &native.inputs, Device::Cpu).unwrap();
    for ((value, native), (_, torch)) in native.reads.iter().zip(&torch.reads) {
        same(&format!("{name}, the engine"), native, torch);
        same(&format!("{name}, its operators"), native, &by_ops[value]);
    }
}

/// The output of a program on an engine of the CPU.
fn said(program: &str, words: &[&str], engine: &str) -> String {
    let env = [("GT_ENGINE", engine), ("GT_DEVICE", "cpu")];
    Process::start_with(program, words, &env).finish().good()
}

/// Checks that losses agree up to the rounding of products.
fn near(native: &[f64], torch: &[f64]) {
    assert_eq!(native.len(), torch.len());
    for (native, torch) in native.iter().zip(torch) {
        assert!((native - torch).abs() <= 1e-3 * native.abs(), "{native} and {torch}");
    }
}

/// A number in a line of JSON.
fn number(line: &str, key: &str) -> f64 {
    let (_, rest) = line.split_once(&format!("\"{key}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn digits_learns_the_same_on_both_engines() {
    let losses = |engine| {
        let said = said("examples/digits", &["--json", "--seed", "7", "--epochs", "3"], engine);
        let epochs = said.lines().filter(|line| line.contains("\"epoch\""));
        epochs.map(|line| number(line, "loss")).collect::<Vec<_>>()
    };
    let [native, torch] = ["native", "torch"].map(losses);
    assert_eq!(native.len(), 3);
    near(&native, &torch);
}

#[test]
fn gpt_learns_the_same_on_both_engines() {
    let loss = |engine| {
        let said = said("examples/gpt", &["--steps", "12", "--sample", "1", "--seed", "3"], engine);
        let last = said.trim_end().lines().last().unwrap();
        let loss = last.strip_prefix("validation loss: ").unwrap();
        vec![loss.parse().unwrap()]
    };
    let [native, torch] = ["native", "torch"].map(loss);
    near(&native, &torch);
}
