//! The half of a session that turns segments into messages, outside the lock that everybody shares.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use gt_ir::Tape;
use gt_ir::backend::{SegmentStats, Stats};

use super::templates::{Messages, Templates};
use super::{keep, verbose};
use crate::tier::TemplateConfig;

/// Turns the segments of one session into messages, in order.
pub(crate) struct Submitter(Mutex<Half>);

struct Half {
    templates: Templates,
    /// Why segments were not the ones expected lately, the latest first.
    news: VecDeque<String>,
}

impl Submitter {
    pub(crate) fn new(config: TemplateConfig) -> Submitter {
        let templates = Templates::new(config, crate::tier::is_verbose());
        Submitter(Mutex::new(Half { templates, news: VecDeque::new() }))
    }

    /// Hands the messages of the next segment to `send`, before those of any later one.
    pub(crate) fn submit(&self, segment: Tape, send: impl FnOnce(Messages)) {
        // A panic half-way leaves templates that fit nothing, or that the other side refuses by
        // name.
        let mut half = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = half.templates.take(segment);
        for miss in half.templates.take_misses() {
            let news = verbose::miss(&miss);
            if crate::tier::is_verbose() {
                verbose::say(&news);
            }
            keep(&mut half.news, news);
        }
        send(messages);
    }

    /// Adds what was sent here to what the other side says.
    pub(crate) fn complete(&self, stats: Stats) -> Stats {
        let mut half = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who asks once may ask again: reasons cost something only where segments are not the ones
        // expected.
        half.templates.listen();
        let (sent, verified) = (half.templates.stats(), stats.segments.verified);
        let segments = SegmentStats { verified, ..sent };
        let news = stats.news.into_iter().chain(half.news.iter().rev().cloned()).collect();
        Stats { segments, news, ..stats }
    }
}
