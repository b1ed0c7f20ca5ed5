//! Sessions on several workers of an embedded system: what happens when one of them fails.

use gt_ir::backend::{Backend, ErrorKind};
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::{Entry, Op};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;

use crate::programs::{Moody, add, add_scalar, give, id, input, read, tape, tensor, unary};

/// Two workers.
fn system() -> System {
    System::with_engines(2, Box::new(|_| Ok(Moody::boxed())), Log::off()).unwrap()
}

/// `first` and `second` mean one worker each, `all` both.
pub(crate) fn configure(session: &dyn Backend) {
    let mut signals = Signals::new();
    for (name, workers) in [("first", Some(vec![0])), ("second", Some(vec![1])), ("all", None)] {
        let shard = Some(ShardConfig { workers, ..ShardConfig::default() });
        signals.set(name, SignalConfig { shard, ..SignalConfig::default() }).unwrap();
    }
    session.configure(signals);
}

pub(crate) fn within(name: &str, entry: Entry) -> [Entry; 3] {
    [Entry::Enter(name.into()), entry, Entry::Exit(name.into())]
}

#[test]
fn a_failure_on_one_worker_poisons_what_others_compute_from_it_and_nothing_else() {
    let system = system();
    let session = system.session();
    configure(&*session);
    give(&*session, 0, tensor(vec![1.0, 2.0, 3.0]));
    let mut entries = Vec::new();
    entries.extend(within("second", unary(1, Op::Neg, 0)));
    entries.extend(within("first", add(2, 1, 0)));
    entries.extend(within("all", add(3, 0, 0)));
    entries.extend(within("all", add(4, 2, 3)));
    session.submit(tape(entries));
    for value in [4, 2, 1] {
        let error = read(&*session, value).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Resource, "{error}");
        assert!(error.message.starts_with("neg of f32[3]: out of memory"), "{error}");
        assert_eq!(error.worker.as_deref(), Some("w2"));
        assert_eq!(error.value, Some(id(value)), "the server's names are its own");
    }
    assert_eq!(read(&*session, 3).unwrap(), [2.0, 4.0, 6.0]);
}

#[test]
fn a_lost_worker_takes_the_values_of_its_sessions_and_of_no_others() {
    let system = system();
    let (other, session) = (system.session(), system.session());
    give(&*other, 0, tensor(vec![7.0]));
    assert_eq!(read(&*other, 0).unwrap(), [7.0]);
    configure(&*session);
    give(&*session, 0, tensor(vec![1.0, 2.0, 3.0]));
    session.submit(tape(within("all", add(1, 0, 0)).into()));
    assert_eq!(read(&*session, 1).unwrap(), [2.0, 4.0, 6.0]);
    session.submit(tape(within("second", unary(2, Op::Exp, 0)).into()));
    for value in [2, 1, 0] {
        let error = read(&*session, value).unwrap_err();
        assert_eq!(error.kind, ErrorKind::WorkerLost, "{error}");
        assert!(error.message.contains("w2"), "{error}");
    }
    assert_eq!(read(&*other, 0).unwrap(), [7.0]);
    give(&*session, 3, tensor(vec![1.0, 2.0, 3.0]));
    session.submit(tape(within("all", add_scalar(4, 3, 1.0)).into()));
    assert_eq!(read(&*session, 4).unwrap(), [2.0, 3.0, 4.0]);
}

#[test]
fn data_of_another_type_than_its_input_is_an_error_on_one_worker_and_on_two() {
    let system = system();
    for spread in [false, true] {
        let session = system.session();
        if spread {
            configure(&*session);
        }
        session.upload(id(0), tensor(vec![1.0, 2.0]));
        let ty = *tensor(vec![1.0; 3]).ty();
        let mut entries = vec![input(0, ty)];
        entries.extend(within("all", add(1, 0, 0)));
        session.submit(tape(entries));
        let error = read(&*session, 1).unwrap_err();
        let said = "upload of %0: a f32[2] arrived in place of a f32[3]";
        assert!(error.message.starts_with(said), "{error}");
    }
}
