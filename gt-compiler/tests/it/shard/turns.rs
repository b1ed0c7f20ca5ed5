//! Micro-batches of pipelines: stages in order, what they hold, what they send, and the same sums.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gt_compiler::shard::{Explained, Partition, Rates, Request, Step, at, explain};
use gt_ir::canonical::canonical;
use gt_ir::layout::Layout;
use gt_ir::signal::{Schedule, ShardConfig, SignalConfig, Signals};
use gt_ir::testing::{self, Source};
use gt_ir::{Entry, Tape, Type, ValueId, text};

use super::members::{Case, Values, interpreted};

const ROWS: usize = 240;
const WIDTH: usize = 16;

/// A step of training of so many layers, each in a scope of its own.
fn steps(n_stages: usize) -> String {
    let (mut tape, mut next) = (String::from("gt tape 1\n"), 0);
    let mut line = |tape: &mut String, text: String| {
        let _ = writeln!(tape, "%{next} = {text}");
        next += 1;
        next - 1
    };
    let ty = format!("f64[{ROWS},{WIDTH}]");
    let [x, y] = ["x", "y"].map(|name| line(&mut tape, format!("input {name:?} : {ty}")));
    let square = format!("f64[{WIDTH},{WIDTH}]");
    let weights: Vec<u64> =
        (0..n_stages).map(|i| line(&mut tape, format!("input \"w{i}\" : {square}"))).collect();
    let (mut below, mut freed) = (vec![x], vec![x, y]);
    let mut before = Vec::new();
    for (i, weight) in weights.iter().enumerate() {
        let _ = writeln!(tape, "enter \"s{i}\"");
        before.push(line(&mut tape, format!("matmul %{}, %{weight}", below[i])));
        below.push(line(&mut tape, format!("relu %{}", before[i])));
        let _ = writeln!(tape, "exit \"s{i}\"");
    }
    let last = n_stages - 1;
    let _ = writeln!(tape, "enter \"s{last}\"");
    let error = line(&mut tape, format!("sub %{}, %{y}", below[n_stages]));
    let square = line(&mut tape, format!("mul %{error}, %{error}"));
    let loss = line(&mut tape, format!("mean[0,1] %{square}"));
    let _ = writeln!(tape, "exit \"s{last}\"");
    freed.extend([error, square]);
    let (mut grad, mut outputs) = (error, vec![loss]);
    for i in (0..n_stages).rev() {
        let _ = writeln!(tape, "enter \"s{i}\"");
        let mask = line(&mut tape, format!("gt %{}, 0.0", before[i]));
        let through = line(&mut tape, format!("where %{mask}, %{grad}, 0.0"));
        let turned = line(&mut tape, format!("transpose[1,0] %{}", below[i]));
        let own = line(&mut tape, format!("matmul %{turned}, %{through}"));
        let weight = line(&mut tape, format!("transpose[1,0] %{}", weights[i]));
        grad = line(&mut tape, format!("matmul %{through}, %{weight}"));
        let _ = writeln!(tape, "exit \"s{i}\"");
        let step = line(&mut tape, format!("mul %{own}, 0.001"));
        outputs.push(line(&mut tape, format!("sub %{}, %{step}", weights[i])));
        freed.extend([mask, through, turned, own, weight, grad, step]);
    }
    freed.extend(before.iter().chain(&below[1..]));
    let lines = |word: &str, values: &[u64]| -> String {
        values.iter().map(|value| format!("{word} %{value}\n")).collect()
    };
    tape + &lines("free", &freed) + &lines("output", &outputs)
}

/// Each stage on the worker of its number, as far as there are workers.
fn signals(n_stages: usize, n_members: u32, microbatches: u32, schedule: Schedule) -> Signals {
    let mut signals = Signals::new();
    for stage in 0..n_stages as u32 {
        let shard = ShardConfig {
            workers: Some(vec![stage.min(n_members - 1)]),
            microbatches: (stage == 0).then_some(microbatches),
            schedule,
            ..ShardConfig::default()
        };
        let config = SignalConfig { shard: Some(shard), ..SignalConfig::default() };
        signals.set(&format!("s{stage}"), config).unwrap();
    }
    signals
}

/// A step in stages on as many members.
struct Pipeline {
    whole: Tape,
    case: Case,
    data: Values,
}

fn pipeline(n_stages: usize, microbatches: u32, schedule: Schedule) -> Pipeline {
    pipeline_on(n_stages as u32, n_stages, microbatches, schedule)
}

fn pipeline_on(n_members: u32, n_stages: usize, microbatches: u32, schedule: Schedule) -> Pipeline {
    let whole = text::parse(&steps(n_stages)).unwrap().0;
    let data = testing::inputs(&whole, &mut Source::from_seed(5));
    let is_weight = |value: &ValueId| (2..2 + n_stages as u64).contains(&value.0);
    let mut segment = whole.clone();
    segment.entries.retain(|entry| match entry {
        Entry::Input { out, .. } => !is_weight(out),
        Entry::Output { .. } => false,
        Entry::Instr(_) | Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) => true,
    });
    let place = |stage: usize| at((stage as u32).min(n_members - 1));
    let outside = (0..n_stages).map(|i| (ValueId(2 + i as u64), place(i))).collect();
    let uploads = vec![at(0), place(n_stages)];
    let signals = signals(n_stages, n_members, microbatches, schedule);
    let rates = Rates::default();
    let case = Case { segment, outside, uploads, signals, n_members, auto: None, rates };
    Pipeline { whole, case, data }
}

impl Pipeline {
    fn check(&self) {
        let whole = interpreted(&self.whole, &self.data);
        assert!(whole.len() > 1);
        self.case.check(&self.data, &whole, |_, expected, got| {
            testing::difference(got, expected, 1024.0)
        });
    }

    fn explain(&self) -> Explained {
        let (template, bindings) = canonical(&self.case.segment);
        let places: BTreeMap<ValueId, Layout> = self.case.outside.iter().cloned().collect();
        let input = |id: &ValueId| (*self.data[id].ty(), places[id].clone());
        let inputs: Vec<(Type, Layout)> = bindings.inputs.iter().map(input).collect();
        let request = Request {
            template: &template,
            inputs: &inputs,
            signals: &self.case.signals,
            uploads: &self.case.uploads,
            n_members: self.case.n_members,
            auto: self.case.auto,
            rates: self.case.rates,
        };
        explain(&request, None).unwrap()
    }
}

/// The micro-batches that a member computes, in order.
fn order(partition: &Partition, member: usize) -> Vec<u32> {
    let phases = partition.parts[member].steps.iter().filter_map(|step| match step {
        Step::Run(phase) => Some(phase),
        Step::Send { .. } => None,
    });
    let mut order: Vec<u32> = phases.filter_map(|phase| phase.turn).collect();
    order.dedup();
    order
}

const BOTH: [Schedule; 2] = [Schedule::Gpipe, Schedule::OneForwardOneBackward];

/// The last micro-batch is smaller, or there is none left for it.
#[test]
fn stages_with_microbatches_compute_what_one_worker_computes() {
    for schedule in BOTH {
        for (n_stages, microbatches) in [(1, 7), (2, 4), (2, 1), (3, 5), (3, 17), (4, 2)] {
            pipeline(n_stages, microbatches, schedule).check();
        }
    }
}

/// A stage of 1f1b goes backward as soon as it can.
#[test]
fn stages_take_micro_batches_in_the_order_of_the_schedule() {
    let [gpipe, one] = BOTH.map(|schedule| {
        let partition = pipeline(3, 5, schedule).explain().partition;
        [0, 1, 2].map(|member| order(&partition, member))
    });
    let all = [0, 1, 2, 3, 4];
    assert_eq!(gpipe, [[all, all].concat(), [all, all].concat(), all.to_vec()]);
    let first = vec![0, 1, 2, 0, 3, 1, 4, 2, 3, 4];
    let second = vec![0, 1, 0, 2, 1, 3, 2, 4, 3, 4];
    assert_eq!(one, [first, second, all.to_vec()]);
}

#[test]
fn stages_of_1f1b_hold_no_more_micro_batches_than_stages_follow() {
    for (n_stages, microbatches) in [(2, 8), (3, 12), (4, 16)] {
        let [gpipe, one] =
            BOTH.map(|schedule| pipeline(n_stages, microbatches, schedule).explain().peaks);
        let micro_batch = (ROWS / microbatches as usize * WIDTH * 8) as u64;
        for stage in 0..n_stages - 1 {
            // What a stage keeps of a micro-batch: what it multiplies, and what it has multiplied.
            let fewer = u64::from(microbatches) - (n_stages - stage) as u64;
            let saved = gpipe[stage] - one[stage];
            assert!(4 * saved >= 3 * fewer * micro_batch, "stage {stage}: {gpipe:?} and {one:?}");
        }
        assert_eq!(gpipe[n_stages - 1], one[n_stages - 1]);
    }
}

/// One worker needs the activations of one micro-batch at a time.
#[test]
fn one_worker_needs_less_memory_the_more_micro_batches_there_are() {
    let peaks = [1, 2, 4, 8].map(|n| {
        let alone = pipeline_on(1, 4, n, Schedule::Gpipe);
        alone.check();
        alone.explain().peaks[0]
    });
    assert!(peaks.windows(2).all(|pair| pair[1] < pair[0]), "{peaks:?}");
    let held = (2 * ROWS * WIDTH * 8) as u64;
    assert!((peaks[3] - held) * 3 < peaks[0] - held, "{peaks:?}");
}

/// Gradients are added up where they are made; only micro-batches travel, as often as before.
#[test]
fn micro_batches_send_no_more_bytes() {
    let bytes = [1, 6].map(|n| pipeline(3, n, Schedule::Gpipe).explain().partition.report.bytes);
    assert_eq!(bytes[0], bytes[1]);
}

/// With more work than messages take, members wait less the more micro-batches there are.
#[test]
fn the_bubble_shrinks_with_the_number_of_micro_batches() {
    let waiting = [1, 2, 4, 8].map(|n| {
        let mut pipeline = pipeline(3, n, Schedule::Gpipe);
        pipeline.case.rates = Rates { latency: 0.0, ..Rates::default() };
        pipeline.explain().waiting
    });
    assert!(waiting.windows(2).all(|pair| pair[1] < pair[0]), "{waiting:?}");
    // Of `k` micro-batches in `s` stages the bubble is `(s - 1) / (k + s - 1)`.
    for (waiting, k) in waiting.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        assert!((waiting - 2.0 / (k + 2.0)).abs() < 0.15, "{waiting} with {k}");
    }
}

/// What cannot be granted is said: another number of micro-batches in the same segment, and more of
/// them than rows.
#[test]
fn what_micro_batches_cannot_be_granted_is_told() {
    let mut pipeline = pipeline(2, 3, Schedule::Gpipe);
    let shard =
        ShardConfig { workers: Some(vec![1]), microbatches: Some(200), ..ShardConfig::default() };
    let config = SignalConfig { shard: Some(shard), ..SignalConfig::default() };
    pipeline.case.signals.set("s1", config).unwrap();
    let told = pipeline.explain().partition.report.warnings;
    assert_eq!(told, ["signal \"s0\" asks for 3 micro-batches, and its segment has 200"]);
    pipeline.check();
    let mut pipeline = self::pipeline(2, 250, Schedule::Gpipe);
    let told = pipeline.explain().partition.report.warnings;
    assert_eq!(
        told,
        ["signal \"s0\": f64[240,16] is too short for 250 micro-batches, and stays whole"]
    );
    pipeline.case.rates = Rates::default();
    pipeline.check();
}
