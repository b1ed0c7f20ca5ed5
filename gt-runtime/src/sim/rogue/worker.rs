//! What a rogue says as a worker: that it has run what it was not asked to run, and that values are
//! what they are not.

use super::{Random, ty};
use crate::ids::{RequestId, SessionId};
use crate::wire::{Capacity, Chunk, Counts, FromWorker, Message, Performed, RESERVED, Work};
use bytes::Bytes;
use gt_ir::backend::{ErrorKind, RunError, Stats};
use gt_ir::tape::ValueId;
use std::sync::Arc;

/// An engine that no honest client asks for.
const ENGINE: &str = "rogue";

/// Its first message as a worker.
pub(super) fn register() -> Message {
    let capacity = Capacity { engine: ENGINE.into(), threads: 99, ..Capacity::default() };
    Message::FromWorker(FromWorker::Register(Box::new(capacity)))
}

/// A random message about a session of anybody.
pub(super) fn message(random: &mut Random) -> Message {
    let session = SessionId(random.below(12));
    let own = if random.percent(80) { 0 } else { RESERVED };
    let request = RequestId(own + random.below(12));
    let error = || Arc::new(RunError::new(ErrorKind::Instruction, "a lie"));
    Message::FromWorker(match random.below(10) {
        0 | 1 => {
            let counts = Counts {
                instructions: random.below(u64::MAX),
                nanos: u64::MAX,
                ..Counts::default()
            };
            let (seq, attempt) = (random.below(20), random.below(3) as u32);
            FromWorker::Done { session, seq, attempt, counts }
        }
        2 => {
            let ty = ty(random);
            let (value, total) = (ValueId(random.below(12)), ty.bytes() as u64);
            let bytes = Bytes::from(vec![9; total.min(64) as usize]);
            FromWorker::Chunk {
                session,
                request,
                chunk: Box::new(Chunk { value, ty, offset: 0, total, bytes }),
            }
        }
        3 => FromWorker::Failed { session, request, error: error() },
        4 => FromWorker::Sent { session, request, bytes: random.below(u64::MAX) },
        5 => FromWorker::Stats { session, request, stats: Box::new(Stats::default()) },
        7 => {
            let mut list = || (0..random.below(3)).map(|_| random.below(6) as u32).collect();
            let (arrived, returned) = (list(), list());
            let work = Work { segments: u64::MAX, busy: u64::MAX, ..Work::default() };
            let (n_ran, is_over) = (random.below(4) as u32, random.percent(50));
            let performed =
                Performed { request, n_ran, is_over, arrived, returned, work, memory: u64::MAX };
            let (seq, attempt, performed) = (random.below(20), 0, Box::new(performed));
            FromWorker::Performed { session, seq, attempt, performed }
        }
        6 => FromWorker::Planned { session, planned: Box::default() },
        8 => FromWorker::Moments(Box::new(super::moments(random))),
        _ if random.percent(10) => return register(),
        _ => FromWorker::Note { session, text: "a lie".into() },
    })
}
