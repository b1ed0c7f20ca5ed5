//! The half of a session that turns segments into messages, outside the lock that everybody shares.

use std::sync::{Mutex, PoisonError};

use gt_ir::Tape;
use gt_ir::backend::{SegmentStats, Stats};

use super::templates::{Messages, TemplateConfig, Templates};
use super::verbose;

/// Turns the segments of one session into messages, in order.
pub(crate) struct Submitter(Mutex<Templates>);

impl Submitter {
    pub(crate) fn new(config: TemplateConfig) -> Submitter {
        Submitter(Mutex::new(Templates::new(config, crate::tier::is_verbose())))
    }

    /// Hands the messages of the next segment to `send`, before those of any later one.
    pub(crate) fn submit(&self, segment: Tape, send: impl FnOnce(Messages)) {
        // A panic half-way leaves templates that fit nothing, or that the other side refuses by name.
        let mut templates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = templates.take(segment);
        for miss in templates.take_misses() {
            verbose::say(&verbose::miss(&miss));
        }
        send(messages);
    }

    /// Adds what was sent here to what the other side says.
    pub(crate) fn complete(&self, stats: Stats) -> Stats {
        let sent = self.0.lock().unwrap_or_else(PoisonError::into_inner).stats();
        let segments = SegmentStats { verified: stats.segments.verified, ..sent };
        Stats { segments, ..stats }
    }
}
