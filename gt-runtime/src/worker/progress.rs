//! How far a worker is with the performances of one session: many reports about segments and values
//! become one report about their performance.
//!
//! A performance that takes long is reported in between, so that the dispatcher knows for whom the
//! others wait. This file reads no clock.

use std::collections::VecDeque;
use std::sync::Arc;

use super::known::Known;
use crate::ids::{RequestId, SessionId};
use crate::wire::{Counts, FromWorker, Performed};

/// The performances of one session that are not over, in their order.
#[derive(Debug, Default)]
pub(super) struct Progress {
    underway: VecDeque<Underway>,
}

/// A performance.
#[derive(Debug)]
struct Underway {
    attempt: u32,
    /// The number of its first segment.
    seq: u64,
    known: Arc<Known>,
    /// The number of values that are not on their way any more.
    n_settled: u32,
    /// What has not been reported.
    report: Performed,
    is_news: bool,
}

/// What becomes of a report.
#[derive(Debug, PartialEq)]
pub(super) enum Noted {
    /// It is of no performance.
    Foreign,
    /// Its performance goes on.
    Kept,
    /// Its performance is over, with this report.
    Over(FromWorker),
}

impl Progress {
    /// A performance begins, with this first segment and this first request.
    pub(super) fn begin(
        &mut self,
        (attempt, seq): (u32, u64),
        request: RequestId,
        known: &Arc<Known>,
    ) {
        let report = Performed { request, ..Performed::default() };
        let known = Arc::clone(known);
        let (n_settled, is_news) = (0, false);
        self.underway.push_back(Underway { attempt, seq, known, n_settled, report, is_news });
    }

    /// A segment has run.
    pub(super) fn ran(
        &mut self,
        session: SessionId,
        (attempt, seq): (u32, u64),
        counts: Counts,
    ) -> Noted {
        let before = self.underway.partition_point(|underway| underway.seq <= seq);
        let is_of = |at: &usize| {
            self.underway.get(*at).is_some_and(|underway| {
                let n_runs = u64::from(underway.known.n_runs);
                underway.attempt == attempt && seq - underway.seq < n_runs
            })
        };
        self.note(session, before.checked_sub(1).filter(is_of), |Underway { report, .. }| {
            report.n_ran += 1;
            report.work.count(counts);
            report.memory = counts.memory;
        })
    }

    /// The value of a request has arrived where it was sent.
    pub(super) fn arrived(&mut self, session: SessionId, request: RequestId) -> Noted {
        self.settled(session, request, |report, at, _| report.arrived.push(at))
    }

    /// The value of a request goes through the dispatcher.
    pub(super) fn returned(&mut self, session: SessionId, request: RequestId) -> Noted {
        self.settled(session, request, |report, at, known| {
            if known.is_direct(at) {
                report.returned.push(at);
            }
        })
    }

    /// A request has failed.
    pub(super) fn failed(&mut self, session: SessionId, request: RequestId) -> Noted {
        self.settled(session, request, |_, _, _| ())
    }

    fn settled(
        &mut self,
        session: SessionId,
        request: RequestId,
        act: impl FnOnce(&mut Performed, u32, &Known),
    ) -> Noted {
        let before = self.underway.partition_point(|underway| underway.report.request <= request);
        let place = |at: usize| {
            let Underway { known, report, .. } = self.underway.get(at)?;
            let offset = u32::try_from(request.0 - report.request.0).ok()?;
            let of_it = offset.checked_sub(known.first_send)? < known.n_sends;
            of_it.then_some((at, offset))
        };
        let Some((at, offset)) = before.checked_sub(1).and_then(place) else {
            return Noted::Foreign;
        };
        self.note(session, Some(at), |underway| {
            underway.n_settled += 1;
            act(&mut underway.report, offset, &underway.known);
        })
    }

    fn note(
        &mut self,
        session: SessionId,
        at: Option<usize>,
        act: impl FnOnce(&mut Underway),
    ) -> Noted {
        let Some((at, underway)) = at.and_then(|at| Some((at, self.underway.get_mut(at)?))) else {
            return Noted::Foreign;
        };
        act(underway);
        underway.is_news = true;
        let Underway { known, n_settled, report, .. } = underway;
        if report.n_ran < known.n_runs || *n_settled < known.n_sends {
            return Noted::Kept;
        }
        report.is_over = true;
        report.arrived.clear();
        let report = underway.take_report(session);
        self.underway.remove(at);
        Noted::Over(report)
    }

    /// Reports on the performances of which something has not been reported.
    pub(super) fn news(&mut self, session: SessionId, out: &mut Vec<FromWorker>) {
        let news = self.underway.iter_mut().filter(|underway| underway.is_news);
        out.extend(news.map(|underway| underway.take_report(session)));
    }
}

impl Underway {
    fn take_report(&mut self, session: SessionId) -> FromWorker {
        self.is_news = false;
        let Performed { request, n_ran, .. } = self.report;
        let after = Performed { request, n_ran, ..Performed::default() };
        let performed = Box::new(std::mem::replace(&mut self.report, after));
        FromWorker::Performed { session, seq: self.seq, attempt: self.attempt, performed }
    }
}
