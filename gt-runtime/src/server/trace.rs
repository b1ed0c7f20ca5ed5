//! The latest events of a server, for tracers.
//!
//! Events are kept while somebody asks for them, and for some seconds more. There is room for a few
//! megabytes; then the oldest lines are dropped. A tracer that does not ask again, or reads slowly,
//! therefore delays nobody: it misses lines, and is told the number of the first line that it gets.
//!
//! What clients and workers say of themselves is in the time of their own clocks (`clocks`).

mod clocks;

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Time;
use crate::dispatcher::{Note, Party, Report};
use crate::log::{
    Details, Format, Line, header, print, remark, with_moment, with_note, with_report,
};
use crate::wire::{Events, MAX_EVENTS, Moments};
use crate::words::Said;
use clocks::Clocks;

/// The most bytes of kept lines.
const MOST: usize = 8 << 20;
/// How long events are kept for a tracer that does not ask again.
const PATIENCE: Duration = Duration::from_secs(3);

/// The latest events.
#[derive(Debug, Default)]
pub(super) struct Trace {
    until: Option<Time>,
    lines: VecDeque<String>,
    bytes: usize,
    /// The number of the line after the last. The first line has the number 1.
    next: u64,
    clocks: Clocks,
}

impl Trace {
    /// Whether somebody wants the events. If not, those that are kept are dropped.
    pub(super) fn is_watched(&mut self, now: Time) -> bool {
        if self.until.is_some_and(|until| until < now) {
            self.until = None;
            self.lines = VecDeque::new();
            self.bytes = 0;
            self.clocks = Clocks::default();
        }
        self.until.is_some()
    }

    pub(super) fn note(&mut self, now: Time, note: &Note) {
        if self.until.is_some() {
            with_note(note, |line, words| match &words.details {
                Said::Facts(facts) => self.add(now, line, Details::Facts(facts)),
                Said::Text(text) => self.add(now, line, Details::Text(format_args!("{text}"))),
            });
        }
    }

    pub(super) fn report(&mut self, now: Time, report: &Report) {
        if self.until.is_some() {
            with_report(report, |line, details| self.add(now, line, Details::Text(details)));
        }
    }

    /// Keeps what a peer did, as it answered to a question of this time.
    pub(super) fn moments(&mut self, now: Time, party: Party, asked: Time, moments: &Moments) {
        if self.until.is_none() {
            return;
        }
        let clock = self.clocks.compare(party, (asked, now), moments.now);
        for moment in &moments.list {
            let Some((began, end)) = clock.interval(moment.at, moment.took, now) else { continue };
            with_moment(party, moment, end - began, |line, details| {
                self.add(end, line, Details::Text(details));
            });
        }
        if moments.lost > 0 {
            let lost = moments.lost;
            let text = format!("{lost} events of {party} are missing here: it was too fast");
            self.keep(remark(Format::Json, &text));
        }
    }

    fn add(&mut self, now: Time, line: &Line<'_>, details: Details<'_>) {
        let mut text = String::new();
        print(&mut text, Format::Json, (now, self.next.max(1)), line, details);
        self.keep(text);
    }

    fn keep(&mut self, text: String) {
        if text.len() > MAX_EVENTS {
            return;
        }
        self.next = self.next.max(1) + 1;
        self.bytes += text.len();
        self.lines.push_back(text);
        while self.bytes > MOST {
            self.bytes -= self.lines.pop_front().map_or(self.bytes, |line| line.len());
        }
    }

    /// The events from a number on, as many as fit into a packet. Number 0 is a tracer's first
    /// question: what was kept for others before is not for it.
    pub(super) fn since(&mut self, now: Time, from: u64) -> Events {
        self.until = Some(now + PATIENCE);
        self.next = self.next.max(1);
        let oldest = self.next - self.lines.len() as u64;
        // A number that this server never gave is of another server, or of an earlier life.
        let is_new = from == 0 || from > self.next;
        let first = if is_new { self.next } else { from.max(oldest) };
        let mut events = Events { head: header(Format::Json), first, ..Events::default() };
        events.next = first;
        let skipped = usize::try_from(first - oldest).unwrap_or(usize::MAX);
        for line in self.lines.iter().skip(skipped) {
            if events.lines.len() + line.len() > MAX_EVENTS {
                break;
            }
            events.lines.push_str(line);
            events.next += 1;
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PeerId;

    fn refuse(trace: &mut Trace, n: u64) {
        trace.report(Duration::ZERO, &Report::Refused(PeerId(n), "x".repeat(1000)));
    }

    #[test]
    fn events_are_kept_while_somebody_asks_and_the_oldest_are_dropped() {
        let (mut trace, second) = (Trace::default(), Duration::from_secs(1));
        refuse(&mut trace, 0);
        assert_eq!(trace.since(second, 0).next, 1, "nobody had asked");
        (1..=20_000).for_each(|n| refuse(&mut trace, n));
        let events = trace.since(second, 1);
        assert!(events.first > 10_000 && events.lines.len() <= MAX_EVENTS, "{}", events.first);
        assert_eq!(events.next - events.first, events.lines.lines().count() as u64);
        let later = trace.since(second, events.next);
        assert_eq!(later.first, events.next);
        assert_eq!(trace.since(second, 1 << 40).lines, "");
        assert!(trace.is_watched(4 * second) && !trace.is_watched(5 * second));
        assert_eq!(trace.bytes, 0);
    }
}
