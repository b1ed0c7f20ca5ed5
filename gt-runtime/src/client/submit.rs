//! The half of a session that turns segments into messages, outside the session's lock.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use gt_ir::Tape;
use gt_ir::backend::{SegmentStats, Stats};
use gt_ir::signal::Signals;

use super::templates::{Messages, Templates};
use super::{keep, verbose};
use crate::messages::{self, Area, Rank};
use crate::tier::TemplateConfig;

/// Turns the segments of one session into messages, in order.
pub(crate) struct Submitter(Mutex<Half>);

struct Half {
    templates: Templates,
    /// Why recent segments were not the expected ones, the latest first.
    news: VecDeque<String>,
}

impl Submitter {
    pub(crate) fn new(config: TemplateConfig) -> Submitter {
        let templates = Templates::new(config, crate::tier::is_verbose());
        Submitter(Mutex::new(Half { templates, news: VecDeque::new() }))
    }

    /// Passes the messages of the next segment to `send`, before the messages of any later segment.
    pub(crate) fn submit(&self, segment: Tape, send: impl FnOnce(Messages)) {
        // A panic half-way leaves templates that fit no segment, or that the dispatcher refuses
        // with an error.
        let mut half = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = half.templates.take(segment);
        for miss in half.templates.take_misses() {
            let news = verbose::miss(&miss);
            if crate::tier::is_verbose() {
                messages::say(Rank::News, Area::Compile, &news);
            }
            keep(&mut half.news, news);
        }
        send(messages);
    }

    /// Takes what the program says about its signals from now on.
    pub(crate) fn configure(&self, signals: Signals) {
        let mut half = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        half.templates.configure(signals);
    }

    /// Adds the counts and news of this side to the statistics.
    pub(crate) fn complete(&self, stats: Stats) -> Stats {
        let mut half = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // From now on reasons are kept, because the program may ask again. They cost time only for
        // segments that are not the expected ones.
        half.templates.listen();
        let (sent, verified) = (half.templates.stats(), stats.segments.verified);
        let segments = SegmentStats { verified, ..sent };
        let news = stats.news.into_iter().chain(half.news.iter().rev().cloned()).collect();
        Stats { segments, news, ..stats }
    }
}
