//! Repeated segments run as plans, with the same results.

use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::time::Duration;

use gt_compiler::{Engine, Native, NativeConfig};
use gt_ir::backend::Backend;
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::testing::{Config, Source};
use gt_ir::{Entry, Op, Operand};
use gt_runtime::clock;
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::testing::{Program, first_difference};
use gt_runtime::tier::{Tiers, When};

use crate::programs::{
    Moody, add, add_scalar, free, give, id, input, instr, output, read, tape, tensor,
};

fn system(when: When) -> System {
    System::start_with(1, Tiers::compiled(when), Log::off()).unwrap()
}

/// A system that ends the process if code accesses memory outside its values, and whose plans leave
/// out unused results of any size.
fn guarded(when: When) -> System {
    let config = NativeConfig { guarded: true, ..NativeConfig::host() };
    let engine = move |_| Ok(Box::new(Native::new(config.clone())?) as Box<dyn Engine>);
    let mut tiers = Tiers::compiled(when);
    tiers.plans.least_unused = 1;
    System::configured(1, Box::new(engine), tiers, Log::off()).unwrap()
}

/// Random programs of loops, one after the other in the same systems: instruction by instruction,
/// with plans compiled before the first launch, and with plans compiled in the background. Returns
/// the number of segments that ran as plans compiled before the first launch, and of such plans
/// that leave out results which nothing used.
///
/// With `check` the first system's results are also compared with the interpreter's, except for
/// rounding. Only for chosen seeds, because the results of some programs have no correct digits.
fn same_bits_on_every_tier(seeds: std::ops::Range<u64>, config: &Config, check: bool) -> [u64; 2] {
    let systems = [When::Never, When::Blocking, When::Background].map(guarded);
    let (mut launches, mut fewer) = ([0; 3], 0);
    for seed in seeds {
        let program = Program::new(&mut Source::from_seed(seed), config, 14);
        let runs = [0, 1, 2].map(|n| {
            let session = systems[n].session();
            let rounds = program.run(&*session, check && n == 0);
            let stats = session.stats().unwrap();
            launches[n] += stats.total().launches;
            let news = stats.news.iter().filter(|news| news.contains("that nothing used"));
            fewer += if n == 1 { news.count() as u64 } else { 0 };
            rounds
        });
        for tier in [1, 2] {
            let difference = first_difference(&runs[0], &runs[tier]);
            assert!(difference.is_none(), "seed {seed}, tier {tier}: {difference:?}\n{program:?}");
        }
    }
    assert_eq!(launches[0], 0);
    [launches[1], fewer]
}

#[test]
fn a_replayed_segment_has_the_bits_of_its_instructions() {
    let [launches, fewer] = same_bits_on_every_tier(0..60, &Config::default(), true);
    assert!(launches > 100, "{launches} launches");
    assert!(fewer > 10, "{fewer} plans leave out results");
}

#[test]
fn errors_in_a_replayed_segment_are_those_of_its_instructions() {
    let config = Config { wild_indices: true, empty: false, ..Config::integers() };
    let [launches, _] = same_bits_on_every_tier(1000..1040, &config, true);
    assert!(launches > 50, "{launches} launches");
}

/// `hot` is compiled before its first run, `spread` as well and on all workers.
fn configure(session: &dyn Backend) {
    let mut signals = Signals::new();
    for (name, shard) in [("hot", None), ("spread", Some(ShardConfig::default()))] {
        let config = SignalConfig { compile: true, shard, ..SignalConfig::default() };
        signals.set(name, config).unwrap();
    }
    session.configure(signals);
}

/// A chain of `n` additions to an upload, in a scope. Returns its last value.
fn chain(session: &dyn Backend, scope: &str, first: u64, n: u64) -> u64 {
    let data = tensor(vec![first as f32; 8]);
    let mut entries = vec![input(first, *data.ty()), Entry::Enter(scope.into())];
    session.upload(id(first), data);
    for i in first..first + n {
        entries.extend([add_scalar(i + 1, i, 1.0), free(i)]);
    }
    entries.push(Entry::Exit(scope.into()));
    session.submit(tape(entries));
    first + n
}

#[test]
fn a_scope_that_asks_for_it_runs_compiled_from_the_first_time() {
    for (scope, n_workers) in [("hot", 1), ("spread", 2), ("cold", 1)] {
        let tiers = Tiers::compiled(When::Background);
        let system = System::start_with(n_workers, tiers, Log::off()).unwrap();
        let session = system.session();
        configure(&*session);
        // Each program is new. What follows a program waits with it.
        for n in 20..30 {
            let first = 1_000 * n;
            let last = chain(&*session, scope, first, n);
            session.submit(tape(vec![add(last + 1, last, last), free(last)]));
            let got = read(&*session, last + 1).unwrap();
            assert_eq!(got, vec![2.0 * (first + n) as f32; 8], "{scope}");
        }
        let total = session.stats().unwrap().total();
        match scope {
            "cold" => assert_eq!(total.launches, 0),
            _ => assert!(total.launches >= 10 && total.interpreted < 60, "{scope}: {total:?}"),
        }
    }
}

#[test]
fn sessions_that_wait_for_plans_delay_no_others_and_may_end_meanwhile() {
    let system = system(When::Background);
    let (waiting, other) = (system.session(), system.session());
    configure(&*waiting);
    let last: Vec<u64> = (0..20).map(|k| chain(&*waiting, "hot", 1_000 * k, 300 + k)).collect();
    for k in 0..50 {
        let last = chain(&*other, "hot", 100 * k, 3);
        assert_eq!(read(&*other, last).unwrap(), vec![(100 * k + 3) as f32; 8]);
    }
    assert_eq!(read(&*waiting, last[19]).unwrap(), vec![(19_000 + 319) as f32; 8]);
    let gone = system.session();
    configure(&*gone);
    chain(&*gone, "hot", 0, 400);
    drop(gone);
    assert_eq!(read(&*waiting, last[0]).unwrap(), vec![300.0; 8]);
    let total = waiting.stats().unwrap().total();
    assert_eq!((total.launches, total.interpreted), (20, 0));
}

/// Runs for `GT_REPLAY_SECONDS` seconds, from a seed that differs from run to run. `GT_REPLAY_SEED`
/// repeats a seed.
#[test]
fn as_many_random_programs_as_time_allows() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let end = clock::now() + Duration::from_secs(number("GT_REPLAY_SECONDS").unwrap_or(0));
    let any = RandomState::new().hash_one(0) >> 20;
    let mut seed = number("GT_REPLAY_SEED").unwrap_or(any);
    // Not by `eprintln!`, which a test captures: the output of a crash must name the seed.
    writeln!(std::io::stderr(), "GT_REPLAY_SEED={seed}").unwrap();
    loop {
        let config = if seed % 3 == 0 { Config::integers() } else { Config::default() };
        // Indices stay in range, because a plan does not report a failed operand that an expansion
        // does not use.
        same_bits_on_every_tier(seed..seed + 4, &config, false);
        seed += 4;
        if clock::now() >= end {
            return;
        }
    }
}

/// A loop that frees what it used: `x <- (x + lr) * x`, with a literal that changes every time.
fn step(session: &dyn Backend, round: u64) {
    let (x, y, z) = (2 * round, 2 * round + 1, 2 * round + 2);
    let lr = 1.0 / (round + 2) as f64;
    let product = add_or(Op::Mul, z, y, x);
    session.submit(tape(vec![add_scalar(y, x, lr), product, free(x), free(y)]));
}

fn add_or(op: Op, out: u64, a: u64, b: u64) -> Entry {
    instr(out, op, &[Operand::Value(id(a)), Operand::Value(id(b))])
}

#[test]
fn a_loop_is_a_plan_from_its_third_round_on_and_two_sessions_share_it() {
    let system = system(When::Blocking);
    for n in 0..2 {
        let session = system.session();
        give(&*session, 0, tensor(vec![0.5, -1.5, 0.25]));
        (0..10).for_each(|round| step(&*session, round));
        let mut wanted = [0.5_f32, -1.5, 0.25];
        for round in 0..10 {
            let lr = (1.0 / (round + 2) as f64) as f32;
            wanted = wanted.map(|x| (x + lr) * x);
        }
        assert_eq!(read(&*session, 20).unwrap(), wanted);
        let stats = session.stats().unwrap();
        let (total, sent) = (stats.total(), stats.segments);
        // The upload, the first round and the read are tapes; the second round defines.
        assert_eq!((total.segments, total.launches, total.plans), (12, 9, 1), "session {n}");
        assert_eq!((total.instructions, total.interpreted), (20, 2));
        assert_eq!((sent.tapes, sent.templates, sent.launches, sent.verified), (3, 1, 9, 1));
        assert_eq!(total.live_bytes, 12);
    }
}

#[test]
fn plans_can_be_had_in_the_background_or_not_at_all() {
    for when in [When::Background, When::Never] {
        let system = system(when);
        let session = system.session();
        give(&*session, 0, tensor(vec![0.5]));
        let mut round = 0;
        while session.stats().unwrap().total().launches < 3 && round < 2000 {
            step(&*session, round);
            round += 1;
            if when == When::Background {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        let total = session.stats().unwrap().total();
        assert_eq!(total.launches > 0, when == When::Background, "{total:?}");
    }
}

#[test]
fn an_error_inside_a_replayed_segment_names_the_users_line() {
    let engine = Box::new(|_| Ok(Moody::boxed()));
    let tiers = Tiers::compiled(When::Blocking);
    let session = System::configured(1, engine, tiers, Log::off()).unwrap().session();
    for round in 0..4 {
        let at = 10 * round;
        give(&*session, at, tensor(vec![1.0]));
        let fails = instr(at + 1, Op::Neg, &[Operand::Value(id(at))]);
        let line = line!() - 1;
        let (half, sum) = (add_scalar(at + 2, at, 0.5), add(at + 3, at + 1, at + 2));
        session.submit(tape(vec![fails, half, sum, output(at + 2)]));
        let error = read(&*session, at + 3).unwrap_err();
        assert_eq!(error.value, Some(id(at + 1)));
        assert!(error.message.starts_with("neg of f32[1]: out of memory"), "{error}");
        assert!(error.loc.to_string().contains(&format!("replay.rs:{line}:")), "{}", error.loc);
        assert_eq!(read(&*session, at + 2).unwrap(), [1.5]);
    }
    assert_eq!(session.stats().unwrap().total().launches, 0);
}

#[test]
fn a_compiler_that_panics_costs_its_plan_only() {
    for when in [When::Blocking, When::Background] {
        let engine = Box::new(|_| Ok(Moody::boxed()));
        let session =
            System::configured(1, engine, Tiers::compiled(when), Log::off()).unwrap().session();
        give(&*session, 0, tensor(vec![2.0]));
        for round in 0..5 {
            let sin = instr(2 * round + 1, Op::Sin, &[Operand::Value(id(0))]);
            session.submit(tape(vec![
                sin,
                add_scalar(2 * round + 2, 2 * round + 1, 1.0),
                free(2 * round + 1),
                output(2 * round + 2),
            ]));
            let got = session.fetch(id(2 * round + 2)).unwrap().to_vec::<f32>().unwrap();
            assert!((got[0] - (2.0_f32.sin() + 1.0)).abs() < 1e-6);
        }
        let total = session.stats().unwrap().total();
        assert_eq!((total.launches, total.interpreted), (0, 10), "{when:?}");
    }
}

#[test]
fn segments_that_differ_in_wiring_shape_or_type_share_nothing() {
    let session = system(When::Blocking).session();
    let (a, b) = (0, 1);
    give(&*session, a, tensor(vec![2.0, 3.0]));
    give(&*session, b, tensor(vec![10.0, 20.0]));
    let mut next = 2;
    let mut round = |x: u64, y: u64| {
        let (product, sum) = (next, next + 1);
        next += 2;
        session.submit(tape(vec![
            add_or(Op::Mul, product, x, y),
            add_scalar(sum, product, 1.0),
            free(product),
            output(sum),
        ]));
        let got = session.fetch(id(sum)).unwrap().to_vec::<f32>().unwrap();
        session.submit(tape(vec![free(sum)]));
        got
    };
    for _ in 0..4 {
        assert_eq!(round(a, b), [21.0, 61.0]);
        assert_eq!(round(a, a), [5.0, 10.0]);
        assert_eq!(round(b, a), [21.0, 61.0]);
    }
    let other = next;
    session.upload(id(other), tensor(vec![7.0]));
    session.submit(tape(vec![input(other, *tensor(vec![7.0]).ty())]));
    next += 1;
    let mut round = |x: u64| {
        let (product, sum) = (next, next + 1);
        next += 2;
        let mul = add_or(Op::Mul, product, x, x);
        let last = add_scalar(sum, product, 1.0);
        session.submit(tape(vec![mul, last, free(product), output(sum)]));
        session.fetch(id(sum)).unwrap().to_vec::<f32>().unwrap()
    };
    for _ in 0..4 {
        assert_eq!(round(a), [5.0, 10.0]);
        assert_eq!(round(other), [50.0]);
    }
    let stats = session.stats().unwrap();
    assert_eq!(stats.segments.templates, 3, "{:?}", stats.segments);
    assert_eq!(stats.segments.verified, 4, "the last one was met with two types");
    // `a * a` of two lines is one plan.
    assert_eq!(stats.total().plans, 3);
}

#[test]
fn memory_stays_flat_over_a_hundred_thousand_replays() {
    let session = system(When::Blocking).session();
    give(&*session, 0, tensor(vec![0.1; 64]));
    (0..100_000).for_each(|round| step(&*session, round));
    assert_eq!(read(&*session, 200_000).unwrap().len(), 64);
    let total = session.stats().unwrap().total();
    assert_eq!((total.live_bytes, total.launches), (256, 99_999));
}

/// `(x + 1.5) * x` squared: the first segment on large values runs as a program of its own.
#[test]
fn a_few_instructions_on_large_values_are_compiled_the_first_time() {
    let x: Vec<f32> = (0..5 << 20).map(|i| (i % 1013) as f32 * 0.37 - 100.0).collect();
    let runs = [When::Never, When::Background].map(|when| {
        let session = system(when).session();
        give(&*session, 0, tensor(x.clone()));
        session.submit(tape(vec![
            add_scalar(1, 0, 1.5),
            instr(2, Op::Mul, &[Operand::Value(id(1)), Operand::Value(id(0))]),
            instr(3, Op::Mul, &[Operand::Value(id(2)), Operand::Value(id(2))]),
            free(1),
            free(2),
        ]));
        let results = (read(&*session, 3).unwrap(), read(&*session, 0).unwrap());
        (results, session.stats().unwrap().total())
    });
    let [(eager, interpreted), (compiled, at_once)] = runs;
    assert!(eager == compiled);
    assert_eq!((interpreted.interpreted, at_once.interpreted), (3, 0));
    assert_eq!((interpreted.instructions, at_once.instructions), (3, 3));
    assert_eq!(interpreted.live_bytes, at_once.live_bytes);
}

/// Rounds of `y = x + 1 / n` and `z = y * x` on large values, of which the program reads `z` only.
#[test]
fn results_that_nothing_uses_are_left_out_and_made_when_they_are_wanted() {
    let session = system(When::Blocking).session();
    let x: Vec<f32> = (0..1 << 16).map(|i| (i % 1013) as f32 * 0.37 - 100.0).collect();
    give(&*session, 0, tensor(x.clone()));
    let step = |n: u64, freed: &[u64]| {
        let (y, z) = (10 * n + 1, 10 * n + 2);
        let mut entries: Vec<Entry> = freed.iter().map(|value| free(*value)).collect();
        let product = instr(z, Op::Mul, &[Operand::Value(id(y)), Operand::Value(id(0))]);
        entries.extend([add_scalar(y, 0, 1.0 / n as f64), product, output(z)]);
        session.submit(tape(entries));
        let got = session.fetch(id(z)).unwrap().to_vec::<f32>().unwrap();
        let sum = |x: f32| x + (1.0 / n as f64) as f32;
        assert!(got.iter().zip(&x).all(|(z, &x)| *z == sum(x) * x), "round {n}");
        (y, z)
    };
    // In numbers of values of the size of x.
    let live = || session.stats().unwrap().total().live_bytes / (4 << 16);
    let mut last = vec![];
    let mut rounds = |rounds: std::ops::Range<u64>| {
        for n in rounds {
            let (y, z) = step(n, &last);
            last = vec![y, z];
        }
        last.clone()
    };
    let [y, _] = rounds(1..8)[..] else { panic!() };
    assert_eq!(live(), 2, "y is left out");
    let news = session.stats().unwrap().news;
    assert!(news.iter().any(|news| news.ends_with("without 1 result that nothing used")));
    // It is read after all.
    let read = session.fetch(id(y)).unwrap().to_vec::<f32>().unwrap();
    assert!(read.iter().zip(&x).all(|(y, x)| *y == x + (1.0 / 7.0_f64) as f32));
    assert_eq!(live(), 3);
    // It is used in the next segment.
    let [y, _] = rounds(8..12)[..] else { panic!() };
    assert_eq!(live(), 2);
    session.submit(tape(vec![add_scalar(1_000, y, 1.0), output(1_000), free(1_000)]));
    assert_eq!(live(), 3);
    // Nothing uses it, and it is freed late.
    rounds(12..14);
    assert_eq!(live(), 2);
    let late = step(14, &[]);
    assert_eq!(live(), 5, "three guesses were wrong, so all results are made");
    let before = rounds(15..16);
    session.submit(tape([late.0, late.1].into_iter().chain(before).map(free).collect()));
    assert_eq!(live(), 1);
}

#[test]
fn who_asks_hears_what_became_of_segments() {
    let session = system(When::Blocking).session();
    give(&*session, 0, tensor(vec![1.0, 2.0]));
    let round = |first: u64, n: u64| {
        let adds = (first..first + n).map(|i| add_scalar(i + 1, i, 1.0));
        let frees = (first..first + n).map(free);
        session.submit(tape(adds.chain(frees).collect()));
    };
    let rounds = |first: u64| (0..5).for_each(|i| round(first + 4 * i, 4));
    rounds(0);
    read(&*session, 20).unwrap();
    let stats = session.stats().unwrap();
    assert!(stats.session.starts_with('s'), "{}", stats.session);
    assert!(stats.news.iter().any(|news| news.contains("-> plan p")), "{:?}", stats.news);
    let new = |news: &&String| news.starts_with("a segment is new");
    assert_eq!(stats.news.iter().find(new), None);
    // The statistics were read once, so reasons are kept from now on.
    round(20, 3);
    read(&*session, 23).unwrap();
    let stats = session.stats().unwrap();
    assert!(stats.news.iter().any(|news| new(&news)), "{:?}", stats.news);
    // But not all of them.
    let mut at = 23;
    for n in (5..45).flat_map(|n| [4, n]) {
        round(at, n);
        at += n;
    }
    read(&*session, at).unwrap();
    let stats = session.stats().unwrap();
    assert!(stats.segments.misses > 32, "{:?}", stats.segments);
    assert!((16..=32).contains(&stats.news.len()), "{:?}", stats.news);
}
