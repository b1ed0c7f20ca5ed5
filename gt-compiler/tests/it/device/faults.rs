//! What fails leaves every value as it was, or ends the device with an error that says so.

use gt_compiler::simulated::{Faults, SimulationConfig};
use gt_compiler::{Engine, EngineError, Value};

use super::Lab;

/// `x` in place, a product that is made anew, and a sum.
const PROGRAM: &str = "
%0 = input : f32[16]
%1 = input : f32[16]
%2 = reshape[4,4] %1 : f32[4,4]
%3 = matmul %2, %2 : f32[4,4]
%4 = sum[0] %3 : f32[4]
%5 = sum[0] %4 : f32[]
%6 = add %0, 1.0 : f32[16]
free %0
free %2
free %4
output %3
output %5
output %6
";

fn inputs(lab: &mut Lab) -> Vec<Value> {
    vec![lab.give(&[2.0; 16]), lab.give(&[0.5; 16])]
}

#[test]
fn out_of_memory_at_any_allocation_is_clean() {
    for warm in [0, 2, 3, 6] {
        let mut lab = Lab::with(PROGRAM);
        let (mut x, b) = (lab.give(&[2.0; 16]), lab.give(&[0.5; 16]));
        for _ in 0..warm {
            x = lab.run(vec![x, b.clone()]).unwrap().pop().unwrap();
        }
        let mut failures = 0;
        for n in 0..20 {
            let before = lab.read(&x);
            lab.simulation.fail(Faults { allocation: Some(n), ..Faults::default() });
            let mut given = vec![x, b.clone()];
            let done = lab.engine.run(&lab.program, &mut given, &lab.scalars.clone());
            lab.simulation.fail(Faults::default());
            x = match done {
                Ok(results) => results.into_vec().pop().unwrap(),
                Err(EngineError::OutOfMemory { .. }) => {
                    failures += 1;
                    assert_eq!(lab.read(&given[0]), before);
                    assert_eq!(lab.read(&b), [0.5; 16]);
                    given.swap_remove(0)
                }
                Err(error) => panic!("{error}"),
            };
        }
        assert!(failures > 0 || warm > 2, "{warm}");
        let before = lab.read(&x)[0];
        x = lab.run(vec![x, b.clone()]).unwrap().pop().unwrap();
        assert_eq!(lab.read(&x), [before + 1.0; 16]);
    }
}

#[test]
fn memory_that_is_only_kept_is_given_up_before_a_request_fails() {
    let config = SimulationConfig { memory: 4 << 10, ..SimulationConfig::default() };
    let mut lab = Lab::new(config, PROGRAM);
    let (mut x, b) = (lab.give(&[2.0; 16]), lab.give(&[0.5; 16]));
    for _ in 0..6 {
        x = lab.run(vec![x, b.clone()]).unwrap().pop().unwrap();
    }
    assert!(lab.replays() > 0);
    let held = lab.simulation.live_bytes();
    let large = lab.give(&vec![1.0; (3600 - 128) / 4]);
    assert!(lab.simulation.live_bytes() < held + 3600 - 128, "the graph is gone");
    let error = lab.engine.upload(&super::floats(&[0.0; 1000])).unwrap_err();
    let (asked, live) = (4000, 3600);
    assert_eq!(error, EngineError::OutOfMemory { asked, live, limit: (4 << 10) / 10 * 9 });
    drop(large);
    assert_eq!(lab.read(&x), [8.0; 16]);
}

#[test]
fn what_cannot_be_captured_runs_step_by_step_and_says_why() {
    let mut lab = Lab::with(PROGRAM);
    lab.simulation.fail(Faults { capture: true, ..Faults::default() });
    for _ in 0..10 {
        let given = inputs(&mut lab);
        let results = lab.run(given).unwrap();
        // The input that stays alive is a result too.
        assert_eq!(lab.read(&results[2]), [16.0]);
        assert_eq!(lab.read(&results[3]), [3.0; 16]);
    }
    let stats = lab.engine.stats();
    assert_eq!((stats.graph_replays, stats.graphs_captured, stats.graph_fallbacks), (0, 0, 8));
    let notes = lab.engine.notes();
    assert_eq!(
        notes,
        ["simulated: no graph: it cannot be captured: what was recorded is no graph"]
    );
    assert!(lab.engine.notes().is_empty());
    assert_eq!(lab.simulation.counters().captures, 1, "it is tried once");
}

#[test]
fn a_device_that_fails_says_so_from_then_on() {
    let launch = Faults { launch: Some(1), ..Faults::default() };
    let replay = Faults { replay: Some(1), ..Faults::default() };
    for faults in [launch, replay] {
        let mut lab = Lab::with(PROGRAM);
        lab.simulation.fail(faults);
        let given = inputs(&mut lab);
        let error = (0..10).find_map(|_| lab.run(given.clone()).err()).unwrap();
        assert!(matches!(&error, EngineError::Device(why) if why.contains("told to")), "{error}");
        assert_eq!(lab.run(given.clone()).unwrap_err(), error);
        assert_eq!(lab.engine.download(&given[0]).unwrap_err(), error);
    }
}

#[test]
fn values_and_programs_of_others_are_refused() {
    let mut lab = Lab::with(PROGRAM);
    let mut other = Lab::with(PROGRAM);
    let given = inputs(&mut other);
    assert!(matches!(lab.run(given), Err(EngineError::Call(_))));
    let mut given = inputs(&mut lab);
    let error = lab.engine.run(&other.program, &mut given, &lab.scalars).unwrap_err();
    assert!(error.to_string().contains("another device"), "{error}");
    let mut native = crate::random::native(1);
    let host = native.upload(&super::floats(&[1.0; 16])).unwrap();
    assert!(matches!(lab.engine.download(&host), Err(EngineError::Call(_))));
}

/// Rows of a table, and the table grown in place by them.
const LOOKUP: &str = "
%0 = input : f32[4]
%1 = input : i64[3]
%2 = index_select[0] %0, %1 : f32[3]
%3 = sum[0] %2 : f32[]
%4 = add %0, %3 : f32[4]
free %0
free %2
free %3
output %4
";

#[test]
fn indices_the_host_knows_are_not_waited_for() {
    let mut lab = Lab::with(LOOKUP);
    let mut table = lab.give(&[1.0, 2.0, 3.0, 4.0]);
    let before = lab.simulation.counters();
    for n in 0..10 {
        let indices = lab.give_indices(&[n % 4, 0, 3]);
        table = lab.one(vec![table, indices]);
    }
    assert_eq!(lab.simulation.counters().downloads, before.downloads);
    assert!(lab.replays() >= 7);
    let error = {
        let wild = lab.give_indices(&[0, 4, -1]);
        lab.run(vec![table.clone(), wild]).unwrap_err()
    };
    let op = "index_select[0]".to_owned();
    assert_eq!(error, EngineError::Index { op, index: 4, axis: 0, size: 4 });
    let now = lab.read(&table);
    assert!(now[3] - now[0] == 3.0, "{now:?}");
}

#[test]
fn a_graph_there_is_no_memory_for_is_not_asked_for_again_and_again() {
    let config = SimulationConfig { graph_memory: 64, ..SimulationConfig::default() };
    let mut lab = Lab::new(config, PROGRAM);
    let given = inputs(&mut lab);
    for _ in 0..100 {
        lab.run(given.clone()).unwrap();
    }
    assert_eq!((lab.replays(), lab.simulation.counters().captures), (0, 0));
    let notes = lab.engine.notes();
    assert!(notes[0].contains("the limit is 64"), "{notes:?}");
    assert!(notes.len() <= 10, "{notes:?}");
}

#[test]
fn what_the_host_knows_of_indices_ends_when_they_are_overwritten() {
    let mut count = Lab::with("%0 = input : i64[3]\n%1 = add %0, 1 : i64[3]\nfree %0\noutput %1\n");
    let options = gt_compiler::Options::default();
    let lookup = super::segment(LOOKUP);
    let compiler = count.engine.compiler();
    let lookup = compiler.compile(&lookup.graph, &lookup.donated, &options).unwrap().program;
    let mut indices = count.give_indices(&[0, 1, 2]);
    let address = indices.address();
    for n in 1..4 {
        indices = count.one(vec![indices]);
        assert_eq!(indices.address(), address);
        let table = count.give(&[1.0, 2.0, 3.0, 4.0]);
        let done = count.engine.run(&lookup, &mut vec![table, indices.clone()], &[]);
        assert_eq!(done.is_err(), n > 1, "{n}: {done:?}");
    }
}
