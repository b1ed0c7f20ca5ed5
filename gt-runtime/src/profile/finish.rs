//! The end of a profile: what was recorded becomes a report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::attribute::{Sums, row};
use super::recorder::{Recorder, Total};
use super::report::{Memory, Profile, Row, line_of};
use super::{chrome, nanos};
use crate::clock::Time;
use crate::machine::Machine;
use gt_ir::Loc;

/// The line of values that no instruction made: data that the program gave.
const GIVEN: &str = "(data of the program)";

fn sorted(sums: BTreeMap<String, Total>) -> Vec<Row> {
    let mut rows: Vec<Row> = sums.into_iter().map(|(name, total)| row(name, total)).collect();
    rows.sort_by(|a, b| b.nanos.total_cmp(&a.nanos));
    rows
}

impl Recorder {
    /// The bytes of values by the lines that made them, when about the most were in use.
    fn held(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (&loc, &bytes) in &self.held.1 {
            let line = if loc == Loc::NONE { GIVEN.to_owned() } else { line_of(loc) };
            *sums.entry(line).or_default() += bytes;
        }
        let mut lines: Vec<(String, u64)> = sums.into_iter().collect();
        lines.sort_by_key(|(_, bytes)| Reverse(*bytes));
        lines
    }

    /// The report, if the profile ends now.
    pub(super) fn report(&self, now: Time) -> Profile {
        Profile { events: chrome::events(self), ..self.sums(now) }
    }

    /// The report without its timeline.
    pub(super) fn sums(&self, now: Time) -> Profile {
        let sums = Sums::of(self);
        let phases = self.phases.iter().map(|(phase, total)| row(phase.name().into(), *total));
        let sample = |&(at, bytes, loc): &(u64, u64, Loc)| (at, bytes, line_of(loc));
        Profile {
            program: crate::identity::program(),
            wall: nanos(now.saturating_sub(self.began)) as f64,
            machine: Machine::known(gt_compiler::threads::wanted()),
            phases: phases.collect(),
            lines: sorted(sums.lines),
            ops: sorted(sums.ops),
            signals: sorted(sums.signals),
            kernels: Sums::into_kernels(sums.kernels),
            memory: Memory {
                peak: self.peak.0,
                peak_line: line_of(self.peak.1),
                lines: self.held(),
                samples: self.samples.iter().map(sample).collect(),
            },
            lost: self.lost,
            events: Vec::new(),
        }
    }
}
