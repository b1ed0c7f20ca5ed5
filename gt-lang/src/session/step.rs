//! Whether the segment of a step should wait for a read that is about to come, so that both are one
//! segment.
//!
//! Guarantees: a segment waits for as many entries as came between the last step and its read, few
//! as those must have been; where none comes, it ends at the step after all.

/// A read later than that after a step is a segment of its own.
const MAX_TAIL: usize = 32;

/// The rhythm of steps and reads.
#[derive(Default)]
pub(super) struct Steps {
    /// Entries since the last step.
    since: usize,
    /// How many there were when the first read after it came.
    read: Option<usize>,
    waits: Option<Waits>,
}

/// A segment that waits.
struct Waits {
    /// How many of its entries come before the step.
    at: usize,
    /// How many may follow it.
    most: usize,
}

impl Steps {
    /// A step ends. Whether its segment should wait.
    pub(super) fn end(&mut self) -> bool {
        let most = self.read.take().filter(|read| *read <= MAX_TAIL);
        *self =
            Steps { waits: most.map(|most| Waits { at: usize::MAX, most }), ..Steps::default() };
        self.waits.is_some()
    }

    /// The step that waits came after so many entries of the segment.
    pub(super) fn wait_at(&mut self, entries: usize) {
        self.waits.iter_mut().for_each(|waits| waits.at = entries);
    }

    /// An entry is recorded.
    #[inline]
    pub(super) fn entry(&mut self) {
        self.since += 1;
    }

    /// A read is recorded; it ends the segment.
    pub(super) fn read(&mut self) {
        self.read.get_or_insert(self.since);
    }

    /// The segment is submitted, whatever it waited for.
    pub(super) fn submitted(&mut self) {
        self.waits = None;
    }

    /// If the read has not come where it was expected: the number of entries to submit without it.
    #[inline]
    pub(super) fn overdue(&mut self) -> Option<usize> {
        let since = self.since;
        self.waits.take_if(|waits| since > waits.most).map(|waits| waits.at)
    }
}
