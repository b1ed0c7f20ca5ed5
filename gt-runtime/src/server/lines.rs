//! Lines for the users of a server, at a limited rate: of each kind a few at once, and then one in
//! a second. Lines that are left out are counted.
//!
//! A peer can therefore not fill a disk or a terminal. The module reads no clock.

use std::time::Duration;

use crate::clock::Time;

/// The lines of a kind that are printed at once.
const BURST: u32 = 30;
/// The time in which one line more may be printed, and after which lines left out are counted.
const EVERY: Duration = Duration::from_secs(1);

/// The kinds of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A session began.
    Opened,
    /// A session ended.
    Closed,
    /// A worker joined or was lost.
    Worker,
    /// A peer was refused.
    Refused,
    /// The authorized keys were read again.
    Keys,
    /// A message was dropped, because it could not be read or sent.
    Dropped,
}

/// The number of kinds.
const KINDS: usize = Kind::Dropped as usize + 1;

/// The rates of all kinds.
#[derive(Debug, Default)]
pub(super) struct Lines([Rate; KINDS]);

#[derive(Debug)]
struct Rate {
    /// The lines that may be printed at once.
    room: u32,
    since: Time,
    n_left_out: u64,
    last: String,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { room: BURST, since: Time::ZERO, n_left_out: 0, last: String::new() }
    }
}

impl Rate {
    fn refill(&mut self, now: Time) {
        let n = now.saturating_sub(self.since).as_secs();
        if n > 0 {
            self.room = self.room.saturating_add(u32::try_from(n).unwrap_or(BURST)).min(BURST);
            self.since = now;
        }
    }
}

impl Lines {
    /// Prints a line, or counts it.
    pub(super) fn say(
        &mut self,
        now: Time,
        kind: Kind,
        line: String,
        watch: &mut impl FnMut(&str),
    ) {
        let rate = &mut self.0[kind as usize];
        rate.refill(now);
        if rate.room == 0 || rate.n_left_out > 0 {
            (rate.n_left_out, rate.last) = (rate.n_left_out + 1, line);
        } else {
            rate.room -= 1;
            watch(&line);
        }
    }

    /// Prints the numbers of the lines left out, of each kind once in a while.
    pub(super) fn flush(&mut self, now: Time, watch: &mut impl FnMut(&str)) {
        for rate in self.0.iter_mut().filter(|rate| rate.n_left_out > 0) {
            rate.refill(now);
            if rate.room > 0 {
                rate.room -= 1;
                match std::mem::take(&mut rate.n_left_out) {
                    1 => watch(&rate.last),
                    n => watch(&format!("{n} lines like the next were left out\n{}", rate.last)),
                }
            }
        }
    }

    /// When to call [`Lines::flush`].
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let held = self.0.iter().filter(|rate| rate.n_left_out > 0);
        held.map(|rate| if rate.room > 0 { rate.since } else { rate.since + EVERY }).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_a_line_in_a_second_and_other_kinds_are_not_held_back() {
        let (mut lines, mut said) = (Lines::default(), Vec::new());
        let mut watch = |line: &str| said.push(line.to_owned());
        for i in 0..100_000 {
            let now = Duration::from_micros(100 * i);
            lines.say(now, Kind::Refused, format!("refused {i}"), &mut watch);
            if lines.next_deadline().is_some_and(|due| due <= now) {
                lines.flush(now, &mut watch);
            }
        }
        lines.say(Duration::from_secs(10), Kind::Worker, "joined".into(), &mut watch);
        lines.flush(Duration::from_secs(20), &mut watch);
        assert_eq!(lines.next_deadline(), None);
        assert!((35..45).contains(&said.len()), "{said:#?}");
        assert!(said.contains(&"joined".to_owned()), "{said:#?}");
        assert!(said.last().unwrap().ends_with("left out\nrefused 99999"), "{said:#?}");
    }
}
