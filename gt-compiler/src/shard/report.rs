//! What a partition costs, for people and for tests.

use super::lanes::{Item, Lanes};
use super::phases::Needed;

/// What a partition costs, and what signals asked for and did not get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes that members send each other.
    pub bytes: u64,
    /// Messages that members send each other.
    pub messages: u64,
    /// How many exchanges follow each other.
    pub rounds: u32,
    /// What signals asked for and did not get, each once.
    pub warnings: Vec<String>,
}

impl Report {
    pub(super) fn new(lanes: &Lanes, needed: &Needed, warnings: Vec<String>) -> Report {
        let mut report = Report { warnings, ..Report::default() };
        for lane in &lanes.0 {
            for item in &lane.items {
                if let Item::Send { value, to, received } = item
                    && needed.contains(*to as usize, *received)
                {
                    let local = lane.local(*value);
                    report.bytes += local.ty.bytes() as u64;
                    report.messages += 1;
                    report.rounds = report.rounds.max(local.level + 1);
                }
            }
        }
        report
    }
}
