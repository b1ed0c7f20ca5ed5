//! The attribute of a loop over the slices of its operands.

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};

use super::Body;
use crate::{attr::Attr, dtype::DType};

/// The most instructions of all rounds of a loop.
pub const MAX_WORK: usize = 1 << 18;

/// A loop: so many rounds of a body.
///
/// The arguments of the body are those of the loop: first the carried values, which each round gets
/// from the round before, then a slice of each scanned operand, then what is the same in all
/// rounds. Its results are the carried values for the next round, then a slice of each stacked
/// result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scan {
    /// The number of rounds: the size of the first axis of what is scanned and stacked.
    pub length: u64,
    /// The number of carried values.
    pub n_carried: u16,
    /// The number of scanned operands.
    pub n_scanned: u16,
    /// The dtype of the results that are given: an op has one result, so those of each dtype are
    /// the results of an op of their own.
    pub dtype: DType,
    /// Whether the last slices come first.
    pub reverse: bool,
    /// What is done in a round.
    pub body: Body,
}

impl Scan {
    /// The instructions of all rounds. A round is one itself, and so is each slice that it takes.
    pub fn work(&self) -> usize {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let round = self.body.work().saturating_add(1 + usize::from(self.n_scanned));
        length.saturating_mul(round)
    }

    /// The operands that are carried.
    pub fn carried(&self) -> Range<usize> {
        0..self.n_carried.into()
    }

    /// The operands of which a round takes a slice.
    pub fn scanned(&self) -> Range<usize> {
        let first = self.carried().end;
        first..first + usize::from(self.n_scanned)
    }

    /// What stands before the body, but for the direction.
    fn head(&self) -> String {
        format!("{},{},{},{}", self.length, self.n_carried, self.n_scanned, self.dtype)
    }

    /// The slices in the order in which they are taken.
    pub fn rounds(&self) -> impl Iterator<Item = u64> + use<> {
        let (length, reverse) = (self.length, self.reverse);
        (0..length).map(move |i| if reverse { length - 1 - i } else { i })
    }
}

/// `scan[8,1,1,f32,reverse|mul(a0,a1)|v0,v0]`: rounds, carried values, scanned operands and the
/// dtype, then the body.
impl Attr for Scan {
    const SYNTAX: &'static str = "rounds,carried,scanned,dtype[,reverse]|body";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reverse = if self.reverse { ",reverse" } else { "" };
        write!(f, "{}{reverse}|{}", self.head(), self.body)
    }
    fn parse(s: &str) -> Option<Self> {
        let (head, body) = s.split_once('|')?;
        let (head, reverse) = match head.strip_suffix(",reverse") {
            Some(head) => (head, true),
            None => (head, false),
        };
        let mut words = head.split(',');
        let scan = Scan {
            length: words.next()?.parse().ok()?,
            n_carried: words.next()?.parse().ok()?,
            n_scanned: words.next()?.parse().ok()?,
            dtype: words.next()?.parse().ok()?,
            reverse,
            body: body.parse().ok()?,
        };
        // A number has one spelling.
        let is_spelled_so = scan.head() == head && words.next().is_none();
        is_spelled_so.then_some(scan)
    }
}
