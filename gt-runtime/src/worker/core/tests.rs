//! The jobs that the core makes, message by message.

use super::*;
use crate::ids::{Incarnation, RequestId};
use gt_ir::canonical::Bindings;
use gt_ir::{DType, Shape, Type};

use crate::wire::{Arrival, Door, Name, Performance, Performed, Receiver, Routine, Step};

fn f32s(n: usize) -> Type {
    Type::new(DType::F32, Shape::new(&[n]).unwrap())
}

fn piece(value: u64, offset: u64, n: usize, ty: Type) -> ToWorker {
    let bytes = vec![1; n].into();
    let chunk = Chunk { value: ValueId(value), ty, offset, total: ty.bytes() as u64, bytes };
    order(1, 0, 0, Order::Chunk(Box::new(chunk)))
}

fn order(session: u64, seq: u64, attempt: u32, order: Order) -> ToWorker {
    ToWorker::Order { session: SessionId(session), attempt, seq, order }
}

fn run(session: u64, seq: u64, attempt: u32, inputs: &[u64]) -> ToWorker {
    let input = |&value: &u64| Entry::Input { out: ValueId(value), ty: f32s(2), name: None };
    let tape = Arc::new(Tape { entries: inputs.iter().map(input).collect() });
    order(session, seq, attempt, Order::Run(tape))
}

/// A job as a line of text.
fn name(job: &Job) -> String {
    let Task { session, seq, order, inputs, .. } = match job {
        Job::Open { session, client, .. } => return format!("open {session} of {client}"),
        Job::Task(task) => task,
        Job::Planned => return "planned".into(),
        Job::End { session } => return format!("end {session}"),
    };
    let inputs =
        inputs.iter().map(|(v, data)| format!("{v}{}", if data.is_ok() { "" } else { "!" }));
    let inputs = inputs.collect::<Vec<_>>().join(" ");
    match order {
        Order::Run(_) => format!("run {session} {seq} [{inputs}]"),
        Order::Launch { bindings, .. } => {
            format!("launch {session} {seq} on {:?} [{inputs}]", bindings.inputs)
        }
        Order::Fetch { request, .. } => format!("fetch {session} {request}"),
        Order::Stats { request } => format!("stats {session} {request}"),
        order => panic!("no job: {order:?}"),
    }
}

/// Feeds messages one by one, each of weight 10, and compares jobs.
fn check(script: &[(Stream, ToWorker, &[&str])]) {
    let mut core = Core::new();
    for (n, (stream, message, want)) in script.iter().enumerate() {
        let mut jobs = Vec::new();
        core.handle(*stream, message.clone(), 10, &mut jobs);
        let got: Vec<String> = jobs.iter().map(name).collect();
        assert_eq!(got, *want, "step {n}");
    }
}

const C: Stream = Stream::Control;
const B: Stream = Stream::Bulk;

#[test]
fn segments_run_once_and_in_order() {
    check(&[
        (C, run(1, 0, 0, &[]), &["run s1 0 []"]),
        (C, run(1, 0, 0, &[]), &[]),
        (C, run(1, 1, 0, &[]), &["run s1 1 []"]),
        (C, run(1, 0, 0, &[]), &[]),
        (C, run(1, 2, 1, &[]), &["run s1 2 []"]),
        (C, run(1, 3, 0, &[]), &[]),
    ]);
}

#[test]
fn a_segment_waits_for_its_data_and_holds_up_its_own_session_only() {
    let fetch =
        |seq, r| order(1, seq, 0, Order::Fetch { request: RequestId(r), value: ValueId(3) });
    check(&[
        (C, run(1, 0, 0, &[3, 4]), &[]),
        (C, fetch(1, 7), &[]),
        (C, fetch(0, 8), &["fetch s1 r8"]),
        (C, run(1, 1, 0, &[]), &[]),
        (C, run(2, 0, 0, &[]), &["run s2 0 []"]),
        (B, piece(3, 0, 4, f32s(2)), &[]),
        (B, piece(3, 4, 4, f32s(2)), &[]),
        (B, piece(4, 0, 8, f32s(2)), &["run s1 0 [%3 %4]", "fetch s1 r7", "run s1 1 []"]),
    ]);
}

#[test]
fn a_launch_is_of_the_template_as_it_was_and_waits_for_its_data() {
    let define = |template, upload: bool| {
        let input = Entry::Input { out: ValueId(1), ty: f32s(2), name: None };
        let entries = [Entry::Output { value: ValueId(0), name: None }];
        let entries = entries.into_iter().chain(upload.then_some(input)).collect();
        order(1, 0, 0, Order::Define { template, tape: Arc::new(Tape { entries }), planned: false })
    };
    let launch = |template, seq, value, defined: u64| {
        let defined = gt_ir::canonical::Defined::Run(ValueId(defined), u64::from(defined > 0));
        let bindings = Bindings { inputs: vec![ValueId(value)], defined, scalars: vec![] };
        let bindings = Arc::new(bindings);
        order(1, seq, 0, Order::Launch { template, bindings })
    };
    check(&[
        (C, launch(3, 0, 7, 0), &[]),
        (C, define(3, false), &[]),
        (C, launch(3, 0, 7, 0), &["launch s1 0 on [%7] []"]),
        (C, launch(3, 0, 7, 0), &[]),
        (C, define(3, true), &[]),
        (C, launch(3, 1, 7, 8), &[]),
        (C, order(1, 2, 0, Order::Forget { template: 3 }), &[]),
        (C, launch(3, 2, 7, 9), &[]),
        (B, piece(8, 0, 8, f32s(2)), &["launch s1 1 on [%7] [%8]"]),
    ]);
}

#[test]
fn data_that_makes_no_sense_fails_its_value() {
    check(&[
        (B, piece(3, 4, 4, f32s(2)), &[]),
        (B, piece(4, 0, 4, f32s(2)), &[]),
        (B, piece(4, 4, 8, f32s(2)), &[]),
        (C, run(1, 0, 0, &[3, 4]), &["run s1 0 [%3! %4!]"]),
    ]);
}

fn opened() -> ToWorker {
    let (session, client, life) = (SessionId(1), "s1 digits".into(), Incarnation(1));
    ToWorker::Open { session, client, user: 0, weight: 10, life }
}

#[test]
fn a_session_ends_when_both_streams_have() {
    let end = || ToWorker::EndSession { session: SessionId(1) };
    let open = opened();
    check(&[
        (C, open, &["open s1 of s1 digits"]),
        (C, run(1, 0, 0, &[3]), &[]),
        (B, end(), &[]),
        (B, piece(3, 0, 8, f32s(2)), &[]),
        (C, end(), &["end s1"]),
    ]);
}

#[test]
fn what_waits_too_long_runs_without_its_data() {
    let mut core = Core::new();
    let mut jobs = Vec::new();
    let heavy = MAX_WAITING / 2;
    core.handle(C, run(1, 0, 0, &[3]), heavy, &mut jobs);
    core.handle(C, run(1, 1, 0, &[]), heavy, &mut jobs);
    assert!(jobs.is_empty());
    core.handle(C, run(1, 2, 0, &[]), 10, &mut jobs);
    assert_eq!(jobs.len(), 3, "{jobs:?}");
}

#[test]
fn a_value_of_another_worker_is_waited_for_however_long_it_takes() {
    let mut core = Core::new();
    let mut jobs = Vec::new();
    core.handle(C, run(1, 0, 0, &[RESERVED + 3]), MAX_WAITING, &mut jobs);
    core.handle(C, run(1, 1, 0, &[]), MAX_WAITING, &mut jobs);
    assert!(jobs.is_empty(), "{jobs:?}");
}

fn parcel(session: u64, opened: u64, value: u64, offset: u64) -> Parcel {
    let ty = f32s(2);
    let chunk = Chunk { value: ValueId(value), ty, offset, total: 8, bytes: vec![1; 4].into() };
    Parcel { session: SessionId(session), opened, chunk: Box::new(chunk) }
}

#[test]
fn values_of_other_workers_wait_for_their_session_and_come_once() {
    let (mut core, mut jobs) = (Core::new(), Vec::new());
    let value = RESERVED + 1;
    let early = parcel(1, 1, value, 0);
    assert_eq!(core.arrive(early.clone(), &mut jobs), Some(early.clone()), "not open yet");
    let open = opened();
    core.handle(Stream::Control, open, 10, &mut jobs);
    assert_eq!(core.arrive(early, &mut jobs), None);
    // Its road fails, so it comes through the dispatcher, too.
    core.handle(Stream::Bulk, piece(value, 0, 4, f32s(2)), 10, &mut jobs);
    core.handle(Stream::Control, run(1, 0, 0, &[value]), 10, &mut jobs);
    assert_eq!(jobs.len(), 1);
    core.handle(Stream::Bulk, piece(value, 4, 4, f32s(2)), 10, &mut jobs);
    assert_eq!(jobs.iter().map(name).collect::<Vec<_>>()[1], format!("run s1 0 [%{value}]"));
    assert_eq!(core.arrive(parcel(1, 1, value, 4), &mut jobs), None);
    core.handle(Stream::Bulk, piece(value, 0, 8, f32s(2)), 10, &mut jobs);
    let holding = &core.holdings()[&SessionId(1)];
    assert!(holding.uploads.is_empty(), "{holding:?}");
    // A session that is opened again is another one.
    assert_eq!(core.arrive(parcel(1, 0, RESERVED + 2, 0), &mut jobs), None);
    assert_eq!(core.arrive(parcel(8, 1, RESERVED + 2, 0), &mut jobs), None);
    assert!(core.holdings()[&SessionId(1)].uploads.is_empty());
}

/// Reads value 1 as given, makes value 2 of the performance, sends it, and goes on with what it
/// receives as value 3.
fn routine() -> Routine {
    let door = Door { address: "w2:1".into(), local: false, sealed: true, key: [7; 16] };
    let receiver = Receiver { door: Arc::new(door), session: SessionId(5), opened: 1 };
    let run = |template, inputs, first| Step::Run { template, inputs, first, literals: Vec::new() };
    let to = Some(Arrival { receiver: 0, made: 9 });
    Routine {
        steps: vec![
            run(1, vec![Name::Given(0)], 2),
            Step::Send { value: Name::Made(2), request: 4, to },
            Step::Send { value: Name::Given(0), request: 5, to: None },
            run(2, vec![Name::Made(2)], 3),
        ],
        receivers: vec![receiver],
    }
}

/// A worker that has learned the routine as number 7.
fn learned(routine: Routine) -> Core {
    let (mut core, mut jobs) = (Core::new(), Vec::new());
    let tapes = ["%1 = neg %0", "%1 = input : f32[2]\n%2 = add %0, %1"];
    for (template, tape) in (1..).zip(tapes) {
        let text = format!("gt tape 1\n%0 = input : f32[2]\n{tape}\n");
        let mut entries = gt_ir::text::parse(&text).unwrap().0.entries;
        entries.remove(0);
        let tape = Arc::new(Tape { entries });
        let define = Order::Define { template, tape, planned: false };
        core.handle(Stream::Control, order(1, 0, 0, define), 10, &mut jobs);
    }
    let learn = Order::Learn { routine: 7, steps: Arc::new(routine) };
    core.handle(Stream::Control, order(1, 0, 0, learn), 10, &mut jobs);
    assert!(jobs.is_empty(), "{jobs:?}");
    core
}

fn performance() -> Performance {
    let (first, request) = (ValueId(RESERVED + 100), RequestId(RESERVED + 200));
    let (given, scalars) = (vec![ValueId(1)], Arc::new([]));
    Performance { routine: 7, n_segments: 2, given, scalars, first, request }
}

#[test]
fn a_performance_is_taken_apart_step_by_step() {
    let (mut core, mut jobs) = (learned(routine()), Vec::new());
    let perform = |seq| order(1, seq, 0, Order::Perform(Box::new(performance())));
    core.handle(Stream::Control, perform(3), 10, &mut jobs);
    core.handle(Stream::Control, perform(3), 10, &mut jobs);
    let (first, request) = (RESERVED + 100, RESERVED + 200);
    let names = |jobs: &[Job]| jobs.iter().map(name).collect::<Vec<_>>();
    let before = [
        "launch s1 3 on [%1] []".to_owned(),
        format!("fetch s1 r{}", request + 4),
        format!("fetch s1 r{}", request + 5),
    ];
    assert_eq!(names(&jobs), before);
    // What the next segment needs comes from another worker.
    core.handle(Stream::Bulk, piece(first + 3, 0, 8, f32s(2)), 10, &mut jobs);
    let last = format!("launch s1 4 on [%{}] [%{}]", first + 2, first + 3);
    assert_eq!(names(&jobs)[3..], [last]);
    let to = core.route(SessionId(1), RequestId(request + 4)).expect("a destination");
    assert_eq!((to.session, to.value), (SessionId(5), ValueId(first + 9)));
    assert_eq!(core.route(SessionId(1), RequestId(request + 5)), None);
}

#[test]
fn a_performance_is_reported_once() {
    let (mut core, mut jobs) = (learned(routine()), Vec::new());
    let perform = order(1, 3, 0, Order::Perform(Box::new(performance())));
    core.handle(Stream::Control, perform, 10, &mut jobs);
    let (session, counts) = (SessionId(1), crate::wire::Counts::default());
    let request = |n| RequestId(RESERVED + 200 + n);
    let done = |seq| FromWorker::Done { session, seq, attempt: 0, counts };
    let chunk = parcel(1, 0, 1, 0).chunk;
    assert_eq!(core.note(&done(2)), Noted::Foreign);
    assert_eq!(core.note(&done(3)), Noted::Kept);
    let sent = |n| FromWorker::Sent { session, request: request(n), bytes: 8 };
    assert_eq!(core.note(&sent(3)), Noted::Foreign);
    assert_eq!(core.note(&sent(4)), Noted::Kept);
    let mut news = Vec::new();
    core.news(&mut news);
    let performed = |performed: Performed| FromWorker::Performed {
        session,
        seq: 3,
        attempt: 0,
        performed: Box::new(Performed { request: request(0), ..performed }),
    };
    let work = crate::wire::Work { segments: 1, ..Default::default() };
    let some = Performed { n_ran: 1, arrived: vec![4], work, ..Performed::default() };
    assert_eq!(news, [performed(some)]);
    // A value that was to go through the dispatcher is not said to come back.
    let value = FromWorker::Chunk { session, request: request(5), chunk };
    assert_eq!(core.note(&value), Noted::Kept);
    let all = Performed { n_ran: 2, is_over: true, work, ..Performed::default() };
    assert_eq!(core.note(&done(4)), Noted::Over(performed(all)));
    assert_eq!(core.note(&done(4)), Noted::Foreign);
}

#[test]
fn a_routine_whose_numbers_lead_nowhere_does_nothing() {
    let wrong: [fn(&mut Routine, &mut Performance); 5] = [
        |routine, _| routine.receivers.clear(),
        |routine, _| routine.steps.swap(1, 2),
        |_, performance| performance.given.clear(),
        |_, performance| performance.n_segments = 3,
        |_, performance| performance.first = ValueId(u64::MAX),
    ];
    for wrong in wrong {
        let (mut routine, mut performance) = (routine(), performance());
        wrong(&mut routine, &mut performance);
        let (mut core, mut jobs) = (learned(routine), Vec::new());
        core.handle(
            Stream::Control,
            order(1, 3, 0, Order::Perform(Box::new(performance))),
            10,
            &mut jobs,
        );
        assert!(jobs.is_empty(), "{jobs:?}");
    }
}

#[test]
fn a_performance_that_waits_keeps_what_is_forgotten() {
    let (mut core, mut jobs) = (learned(routine()), Vec::new());
    core.handle(
        Stream::Control,
        order(1, 3, 0, Order::Perform(Box::new(performance()))),
        10,
        &mut jobs,
    );
    for template in [1, 2, 7] {
        core.handle(Stream::Control, order(1, 5, 0, Order::Forget { template }), 10, &mut jobs);
    }
    assert_eq!(jobs.len(), 3);
    core.handle(Stream::Bulk, piece(RESERVED + 103, 0, 8, f32s(2)), 10, &mut jobs);
    assert_eq!(jobs.len(), 4);
    core.handle(
        Stream::Control,
        order(1, 5, 0, Order::Perform(Box::new(performance()))),
        10,
        &mut jobs,
    );
    assert_eq!(jobs.len(), 4, "it is forgotten");
}
