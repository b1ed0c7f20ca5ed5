//! What is captured, and what a replay does.

use gt_compiler::Value;
use gt_compiler::simulated::{Counters, SimulationConfig};
use gt_ir::Scalar;

use super::Lab;

/// A step of momentum: parameters and state in place, a batch that moves, a loss that is made anew.
const STEP: &str = "
%0 = input \"w\" : f32[4]
%1 = input \"v\" : f32[4]
%2 = input \"x\" : f32[4]
%3 = mul %0, %2 : f32[4]
%4 = sub %3, 1.0 : f32[4]
%5 = mul %4, %4 : f32[4]
%6 = sum[0] %5 : f32[]
%7 = mul %4, %2 : f32[4]
%8 = mul %1, 0.9 : f32[4]
free %1
%9 = add %8, %7 : f32[4]
%10 = mul %9, 0.01 : f32[4]
%11 = sub %0, %10 : f32[4]
free %0
free %2
free %3
free %4
free %5
free %7
free %8
free %10
output %6
output %9
output %11
";

/// The same in plain numbers.
fn step(w: &mut [f32; 4], v: &mut [f32; 4], x: [f32; 4], lr: f32) -> f32 {
    let mut squares = [0.0; 4];
    for i in 0..4 {
        let d = w[i] * x[i] - 1.0;
        squares[i] = d * d;
        v[i] = v[i] * 0.9 + d * x[i];
        w[i] -= v[i] * lr;
    }
    (squares[0] + squares[2]) + (squares[1] + squares[3])
}

fn batch(n: usize) -> [f32; 4] {
    [0, 1, 2, 3].map(|i| ((n * 7 + i * 3) % 11) as f32 * 0.1 + 0.2)
}

/// One session that trains: gives its parameters, its state and its loss after each step.
struct Training {
    w: Value,
    v: Value,
    wanted: ([f32; 4], [f32; 4]),
}

impl Training {
    fn new(lab: &mut Lab, start: f32) -> Training {
        let (w, v) = ([start; 4], [0.0; 4]);
        Training { w: lab.give(&w), v: lab.give(&v), wanted: (w, v) }
    }

    fn step(self, lab: &mut Lab, n: usize) -> (Training, Value) {
        let Training { w, v, mut wanted } = self;
        let lr = 0.01 / (1 + n % 5) as f64;
        let at = lab.scalars.iter().position(|s| *s == Scalar::F64(0.01));
        let mut scalars = lab.scalars.clone();
        scalars[at.unwrap()] = Scalar::F64(lr);
        let x = lab.give(&batch(n));
        let mut inputs = vec![w, v, x];
        let results = lab.engine.run(&lab.program, &mut inputs, &scalars).unwrap();
        let [loss, v, w] = <[Value; 3]>::try_from(results.into_vec()).unwrap();
        let loss_wanted = step(&mut wanted.0, &mut wanted.1, batch(n), lr as f32);
        let got = lab.read(&loss)[0];
        assert!((got - loss_wanted).abs() <= 1e-5 * loss_wanted.abs(), "{n}: {got} {loss_wanted}");
        (Training { w, v, wanted }, loss)
    }

    fn check(&self, lab: &mut Lab) {
        for (value, wanted) in [(&self.w, self.wanted.0), (&self.v, self.wanted.1)] {
            for (a, b) in lab.read(value).iter().zip(wanted) {
                assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{a} {b}");
            }
        }
    }
}

#[test]
fn parameters_stay_in_place_while_scalars_and_batches_change() {
    for reuses_addresses in [true, false] {
        let config = SimulationConfig { reuses_addresses, ..SimulationConfig::default() };
        let mut lab = Lab::new(config, STEP);
        let mut training = Training::new(&mut lab, 0.5);
        (training, _) = training.step(&mut lab, 0);
        let addresses = [training.w.address(), training.v.address()];
        for n in 1..1000 {
            (training, _) = training.step(&mut lab, n);
            assert_eq!([training.w.address(), training.v.address()], addresses, "step {n}");
        }
        training.check(&mut lab);
        let stats = lab.engine.stats();
        assert!(stats.graph_replays >= 990, "{stats:?} {:?}", lab.engine.notes());
        assert!(stats.graphs_captured <= 3, "{stats:?}");
        assert_eq!(stats.live_bytes, 32);
    }
}

#[test]
fn a_replay_is_one_upload_one_launch_and_the_copies_of_what_moved() {
    let config = SimulationConfig { reuses_addresses: false, ..SimulationConfig::default() };
    let mut lab = Lab::new(config, STEP);
    let mut training = Training::new(&mut lab, 0.5);
    for n in 0..5 {
        (training, _) = training.step(&mut lab, n);
    }
    let before = lab.simulation.counters();
    (training, _) = training.step(&mut lab, 5);
    let after = lab.simulation.counters();
    let one = Counters {
        allocations: before.allocations + 1, // the batch
        uploads: before.uploads + 2,         // the batch and the scalars
        copies: before.copies + 1,           // the batch to where the graph reads it
        reads: before.reads + 1,             // the loss
        replays: before.replays + 1,
        ..before
    };
    assert_eq!(after, one);
    training.check(&mut lab);
}

#[test]
fn memory_stays_flat_over_ten_thousand_replays() {
    let mut lab = Lab::with(STEP);
    let mut training = Training::new(&mut lab, 0.5);
    let mut held = 0;
    for n in 0..10_000 {
        (training, _) = training.step(&mut lab, n);
        if n == 10 {
            held = lab.simulation.live_bytes();
        }
    }
    assert_eq!(lab.simulation.live_bytes(), held);
    assert!(lab.replays() > 9_990);
    drop((training, lab.program, lab.engine));
    assert_eq!(lab.simulation.live_bytes(), 0);
}

#[test]
fn two_sessions_share_a_program_and_have_a_graph_each() {
    let mut lab = Lab::with(STEP);
    let (mut a, mut b) = (Training::new(&mut lab, 0.5), Training::new(&mut lab, -0.25));
    for n in 0..100 {
        (a, _) = a.step(&mut lab, n);
        (b, _) = b.step(&mut lab, n);
    }
    a.check(&mut lab);
    b.check(&mut lab);
    let stats = lab.engine.stats();
    assert!(stats.graph_replays > 180 && stats.graphs_captured <= 4, "{stats:?}");
}

#[test]
fn many_sessions_on_one_program_are_right_however_they_are_replayed() {
    let mut lab = Lab::with(STEP);
    let mut all: Vec<Option<Training>> =
        (0..7).map(|n| Some(Training::new(&mut lab, n as f32 * 0.1))).collect();
    for n in 0..40 {
        for training in &mut all {
            *training = training.take().map(|t| t.step(&mut lab, n).0);
        }
    }
    for training in all.iter().flatten() {
        training.check(&mut lab);
    }
}

#[test]
fn results_somebody_keeps_are_never_overwritten() {
    let mut lab = Lab::with(STEP);
    let mut training = Training::new(&mut lab, 0.5);
    let (mut losses, mut wanted) = (Vec::new(), Vec::new());
    for n in 0..60 {
        let loss;
        (training, loss) = training.step(&mut lab, n);
        wanted.push(lab.read(&loss)[0]);
        losses.push(loss);
    }
    let kept: Vec<f32> = losses.iter().map(|loss| lab.read(loss)[0]).collect();
    assert_eq!(kept, wanted);
    let stats = lab.engine.stats();
    assert!(stats.graph_replays > 50, "{stats:?}");
    assert_eq!(stats.live_bytes, 60 * 4 + 32);
    let notes = lab.engine.notes();
    assert!(notes.iter().any(|note| note.contains("still held")), "{notes:?}");
}

/// A loop whose result cannot be in place: the product reads all of `x`.
#[test]
fn results_that_become_inputs_are_copied_before_they_are_overwritten() {
    for reuses_addresses in [true, false] {
        let config = SimulationConfig { reuses_addresses, ..SimulationConfig::default() };
        let mut lab = Lab::new(
            config,
            "%0 = input : f32[4]\n%1 = reshape[2,2] %0 : f32[2,2]\nfree %0\n%2 = matmul %1, %1 : \
             f32[2,2]\nfree %1\n%3 = mul %2, 0.5 : f32[2,2]\nfree %2\n%4 = reshape[4] %3 : \
             f32[4]\nfree %3\noutput %4\n",
        );
        let mut x = lab.give(&[1.0, 1.0, 0.0, 1.0]);
        let mut wanted = [1.0_f32, 1.0, 0.0, 1.0];
        for _ in 0..30 {
            x = lab.one(vec![x]);
            let [a, b, c, d] = wanted;
            wanted = [a * a + b * c, a * b + b * d, c * a + d * c, c * b + d * d].map(|v| v * 0.5);
            assert_eq!(lab.read(&x), wanted);
        }
        assert!(lab.replays() > 20, "{:?} {:?}", lab.engine.stats(), lab.engine.notes());
    }
}

#[test]
fn graphs_give_way_to_each_other_within_their_limit() {
    let config = SimulationConfig { graph_memory: 2000, ..SimulationConfig::default() };
    let mut lab = Lab::new(config, STEP);
    let other = super::segment(STEP);
    let compile = |lab: &Lab| {
        let options = gt_compiler::Options::default();
        lab.engine.compiler().compile(&other.graph, &other.donated, &options).unwrap().program
    };
    let programs: Vec<_> = (0..6).map(|_| compile(&lab)).collect();
    let mut training = Training::new(&mut lab, 0.5);
    for n in 0..120 {
        lab.program = programs[n / 6 % 6].clone();
        (training, _) = training.step(&mut lab, n);
        assert!(lab.simulation.live_bytes() < 4000);
    }
    training.check(&mut lab);
    assert!(lab.replays() > 20, "{:?} {:?}", lab.engine.stats(), lab.engine.notes());
}

#[test]
fn a_parameter_somebody_keeps_is_not_updated_in_place() {
    let mut lab = Lab::with(STEP);
    let mut training = Training::new(&mut lab, 0.5);
    let mut kept: Vec<(Value, Vec<f32>)> = Vec::new();
    for n in 0..80 {
        if n % 9 == 8 {
            let values = [&training.w, &training.v].map(Value::clone);
            kept.extend(values.map(|value| (value.clone(), lab.read(&value))));
        }
        (training, _) = training.step(&mut lab, n);
    }
    training.check(&mut lab);
    for (value, wanted) in &kept {
        assert_eq!(&lab.read(value), wanted);
    }
    let stats = lab.engine.stats();
    assert!(stats.graph_replays > 30, "{stats:?} {:?}", lab.engine.notes());
}
