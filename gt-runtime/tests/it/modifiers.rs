//! Stream modifiers in the dispatcher and in a worker. They stay in the process, so they leave
//! segments of other tests as they are.

use gt_ir::{Entry, Op, Tape};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::modifier::{Modifier, Place, insert, stats};

use crate::gang::within;
use crate::programs::{add_scalar, give, read, tape, tensor, unary};

/// The scope of the instructions that the modifiers of these tests look at.
const SCOPE: &str = "modified";

/// Refuses an op and replaces another, in segments with the scope.
struct Rules {
    refuses: Op,
    replaces: (Op, Op),
    seen: u64,
}

impl Modifier for Rules {
    fn name(&self) -> &str {
        "rules"
    }

    fn process(&mut self, mut segment: Tape) -> Result<Tape, String> {
        self.seen += 1;
        if !segment.entries.iter().any(|e| matches!(e, Entry::Enter(name) if **name == *SCOPE)) {
            return Ok(segment);
        }
        if segment.instrs().any(|instr| instr.op == self.refuses) {
            return Err(format!("{} is forbidden", self.refuses));
        }
        for entry in &mut segment.entries {
            if let Entry::Instr(instr) = entry
                && instr.op == self.replaces.0
            {
                instr.op = self.replaces.1;
            }
        }
        Ok(segment)
    }

    fn stats(&self) -> Vec<(String, u64)> {
        vec![("seen".into(), self.seen)]
    }
}

#[test]
fn a_dispatcher_changes_segments_and_a_refusal_ends_the_session_with_the_reason() {
    insert(
        Place::Dispatcher,
        Rules { refuses: Op::Softplus, replaces: (Op::Log1p, Op::Neg), seen: 0 },
    );
    let path = std::env::temp_dir().join(format!("gt-modifiers-{}.log", std::process::id()));
    let log = Log::to_file(&path).unwrap();
    let system = System::start(1, log.clone()).unwrap();
    let session = system.session();
    give(&*session, 0, tensor(vec![2.0]));
    session.submit(tape(within(SCOPE, unary(1, Op::Log1p, 0)).into()));
    assert_eq!(read(&*session, 1).unwrap(), [-2.0]);
    session.submit(tape(within(SCOPE, unary(2, Op::Softplus, 0)).into()));
    let error = read(&*session, 2).unwrap_err();
    assert!(error.message.contains("rules refused a segment: softplus is forbidden"), "{error}");
    let other = system.session();
    give(&*other, 0, tensor(vec![1.0]));
    other.submit(tape(vec![add_scalar(1, 0, 1.0)]));
    assert_eq!(read(&*other, 1).unwrap(), [2.0], "other sessions go on");
    assert!(stats(Place::Dispatcher)[0].1[0].1 >= 3);
    log.flush();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.contains("| MODIFIER     | CLIENT"), "{text}");
}

#[test]
fn a_worker_refuses_the_values_of_a_segment_and_the_session_goes_on() {
    insert(Place::Worker, Rules { refuses: Op::Expm1, replaces: (Op::Sign, Op::Neg), seen: 0 });
    let system = System::start(1, Log::off()).unwrap();
    let session = system.session();
    give(&*session, 0, tensor(vec![2.0]));
    session.submit(tape(within(SCOPE, unary(1, Op::Expm1, 0)).into()));
    let error = read(&*session, 1).unwrap_err();
    assert!(error.message.contains("expm1 is forbidden") && error.worker.is_some(), "{error}");
    session.submit(tape(within(SCOPE, unary(2, Op::Sign, 0)).into()));
    assert_eq!(read(&*session, 2).unwrap(), [-2.0]);
}
