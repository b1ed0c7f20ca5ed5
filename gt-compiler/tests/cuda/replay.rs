//! Graphs: replays with changed scalars give the bits of runs step by step, and thousands of them
//! take no memory.

use gt_compiler::{Engine, Options, Program, Value};
use gt_ir::{DType, Graph, HostTensor, Scalar, testing::same_bits};
use smallvec::SmallVec;

use crate::{config, device, device_alone, ramp};

/// A step of training in place: a parameter, a batch, a rate that changes; gives the parameter and
/// a loss.
const STEP: &str = "gt tape 1
    %0 = input : f32[64,48]
    %1 = input : f32[32,64]
    %2 = matmul %1, %0 : f32[32,48]
    %3 = tanh %2 : f32[32,48]
    %4 = transpose[0,1] %1 : f32[64,32]
    %5 = matmul %4, %3 : f32[64,48]
    %6 = mul %5, 0.01 : f32[64,48]
    %7 = sub %0, %6 : f32[64,48]
    %8 = mul %3, %3 : f32[32,48]
    %9 = mean[0,1] %8 : f32[]
    output %7
    output %9
";

pub(crate) struct Step {
    graph: Graph,
    pub(crate) program: Program,
}

impl Step {
    pub(crate) fn new(engine: &dyn Engine) -> Step {
        let graph = gt_ir::lower(&gt_ir::text::parse(STEP).unwrap().0).unwrap();
        let donated = [true, false];
        let compiled = engine.compiler().compile(&graph, &donated, &Options::default()).unwrap();
        Step { graph, program: compiled.program }
    }

    /// The parameter and the loss after a step, whose rate depends on its number.
    pub(crate) fn run(
        &self,
        engine: &mut dyn Engine,
        parameter: Value,
        batch: &Value,
        number: usize,
    ) -> SmallVec<[Value; 4]> {
        let mut scalars = self.graph.slots().to_vec();
        for scalar in &mut scalars {
            *scalar = Scalar::F64(scalar.as_f64() / (1.0 + number as f64));
        }
        engine.run(&self.program, &mut vec![parameter, batch.clone()], &scalars).unwrap()
    }
}

pub(crate) fn parameter() -> HostTensor {
    ramp(DType::F32, &[64, 48], 0)
}

/// Of a step.
pub(crate) fn batch(number: usize) -> HostTensor {
    ramp(DType::F32, &[32, 64], number)
}

#[test]
fn a_replay_gives_the_bits_of_a_run_step_by_step() {
    let Some(mut engine) = device(&config()) else { return };
    let step = Step::new(engine.as_ref());
    let [mut fast, mut slow] = [0; 2].map(|_| engine.upload(&parameter()).unwrap());
    for number in 0..24 {
        let batch = engine.upload(&batch(number)).unwrap();
        let mut results = step.run(engine.as_mut(), fast, &batch, number);
        let loss = engine.download(&results.pop().unwrap()).unwrap();
        fast = results.pop().unwrap();
        // A program that was never run before is not captured yet.
        let mut results = Step::new(engine.as_ref()).run(engine.as_mut(), slow, &batch, number);
        let want = engine.download(&results.pop().unwrap()).unwrap();
        slow = results.pop().unwrap();
        assert!(same_bits(&loss, &want), "loss of step {number}");
        let [got, want] = [&fast, &slow].map(|v| engine.download(v).unwrap());
        assert!(same_bits(&got, &want), "parameter of step {number}");
    }
    assert!(engine.stats().graph_replays >= 12, "{:?} {:?}", engine.stats(), engine.notes());
}

#[test]
fn ten_thousand_replays_take_no_memory() {
    let Some(mut engine) = device_alone(&config()) else { return };
    let step = Step::new(engine.as_ref());
    let batches: Vec<Value> = (0..4).map(|n| engine.upload(&batch(n)).unwrap()).collect();
    let mut parameter = engine.upload(&parameter()).unwrap();
    let mut held = None;
    for number in 0..10_000 {
        let mut results = step.run(engine.as_mut(), parameter, &batches[number % 4], number);
        let loss = results.pop().unwrap();
        parameter = results.pop().unwrap();
        if number % 500 == 499 {
            assert!(engine.download(&loss).unwrap().to_f64()[0].is_finite());
            let stats = engine.stats();
            let now = (stats.live_bytes, stats.pooled_bytes, stats.graphs_captured);
            assert_eq!(*held.get_or_insert(now), now, "after {number} steps");
        }
    }
    assert!(engine.stats().graph_replays > 9_900, "{:?} {:?}", engine.stats(), engine.notes());
}
