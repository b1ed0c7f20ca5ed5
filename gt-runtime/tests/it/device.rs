//! Programs of loops on a simulated device: captured as graphs, with the same results.

use std::time::Duration;

use gt_compiler::simulated::{Simulation, SimulationConfig};
use gt_ir::testing::{Config, Source};
use gt_ir::{Op, Operand};
use gt_runtime::clock;
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::testing::{Program, first_difference};
use gt_runtime::tier::{Tiers, When};

use crate::programs::{add_scalar, free, give, id, instr, read, tape, tensor};

fn on(simulation: &Simulation, when: When) -> System {
    let simulation = simulation.clone();
    let engine = Box::new(move |_| simulation.engine());
    System::configured(1, engine, Tiers::compiled(when), Log::off()).unwrap()
}

/// Random programs on the native engine and on a device, instruction by instruction and as plans.
/// Returns the number of replays.
fn same_bits_as_native(
    seeds: std::ops::Range<u64>,
    config: &Config,
    device: SimulationConfig,
) -> u64 {
    let simulation = Simulation::new(device);
    let native = System::start_with(1, Tiers::compiled(When::Never), Log::off()).unwrap();
    let device = [When::Never, When::Blocking].map(|when| on(&simulation, when));
    for seed in seeds {
        let program = Program::new(&mut Source::from_seed(seed), config, 24);
        let wanted = program.run(&*native.session(), false);
        for (system, how) in device.iter().zip(["instructions", "plans"]) {
            let got = program.run(&*system.session(), false);
            let difference = first_difference(&wanted, &got);
            assert!(difference.is_none(), "seed {seed}, {how}: {difference:?}\n{program:?}");
        }
    }
    drop(device);
    drop(native);
    // The worker ends on a thread of its own.
    let end = clock::now() + Duration::from_secs(10);
    while simulation.live_bytes() > 0 {
        assert!(clock::now() < end, "{} bytes outlive their system", simulation.live_bytes());
        std::thread::sleep(Duration::from_millis(1));
    }
    simulation.counters().replays
}

#[test]
fn a_device_gives_the_bits_of_the_native_engine_on_every_tier() {
    for reuses_addresses in [true, false] {
        let device = SimulationConfig { reuses_addresses, ..SimulationConfig::default() };
        let replays = same_bits_as_native(0..40, &Config::default(), device);
        assert!(replays > 50, "{replays} replays");
    }
}

#[test]
fn a_device_gives_the_errors_of_the_native_engine_on_every_tier() {
    let config = Config { wild_indices: true, empty: false, ..Config::integers() };
    let replays = same_bits_as_native(1000..1040, &config, SimulationConfig::default());
    assert!(replays > 20, "{replays} replays");
}

/// `x <- (x + lr) * x`, with a literal that changes every time, in several sessions at once.
#[test]
fn interleaved_sessions_replay_the_plans_they_share() {
    let simulation = Simulation::new(SimulationConfig::default());
    let system = on(&simulation, When::Blocking);
    let sessions: Vec<_> = (0..3).map(|_| system.session()).collect();
    let starts = [0.5_f32, -0.25, 0.125];
    for (session, start) in sessions.iter().zip(starts) {
        give(&**session, 0, tensor(vec![start; 3]));
    }
    let mut wanted = starts;
    for round in 0..100 {
        let lr = 0.5 / (round + 2) as f64;
        for (session, wanted) in sessions.iter().zip(&mut wanted) {
            let (x, y, z) = (2 * round, 2 * round + 1, 2 * round + 2);
            let product = instr(z, Op::Mul, &[Operand::Value(id(y)), Operand::Value(id(x))]);
            session.submit(tape(vec![add_scalar(y, x, lr), product, free(x), free(y)]));
            *wanted = (*wanted + lr as f32) * *wanted;
        }
    }
    for (session, wanted) in sessions.iter().zip(wanted) {
        assert_eq!(read(&**session, 200).unwrap(), [wanted; 3]);
    }
    let counters = simulation.counters();
    assert!(counters.replays > 200, "{counters:?}");
}

#[test]
fn memory_of_a_device_stays_flat_over_ten_thousand_replays() {
    let simulation = Simulation::new(SimulationConfig::default());
    let session = on(&simulation, When::Blocking).session();
    give(&*session, 0, tensor(vec![0.1; 64]));
    let mut held = Vec::new();
    for round in 0..10_000 {
        let x = 2 * round;
        let sin = instr(x + 1, Op::Sin, &[Operand::Value(id(x))]);
        session.submit(tape(vec![sin, free(x), add_scalar(x + 2, x + 1, 0.5), free(x + 1)]));
        if round % 1000 == 999 {
            assert_eq!(read(&*session, x + 2).unwrap().len(), 64);
            held.push(simulation.live_bytes());
        }
    }
    assert!(held.iter().all(|bytes| *bytes == held[1]), "{held:?}");
    assert!(simulation.counters().replays > 9_900, "{:?}", simulation.counters());
}
