//! Making things ahead on threads, through bounded queues.
//!
//! Guarantees: things come in order, however many threads make them, because thread `t` of `n`
//! makes the numbers `t`, `t + n`, .. and the queues are read in turn. The threads together are
//! never more than the queues' length ahead. A thread ends when its last thing is made, after an
//! error, or when its queue is dropped, and dropping waits for that. A panic of a maker becomes an
//! error.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use gt_ir::HostTensor;

use super::unplaced;
use crate::error::Result;

/// One batch, or the error of making it.
pub(super) type Made = Result<Vec<HostTensor>>;
/// Makes the batch of a number; `None` when there are no more.
pub(super) type Maker = Box<dyn FnMut(usize) -> Option<Made> + Send>;

/// The batches that makers make of the numbers of a range.
pub(super) enum Prefetch {
    /// Made when they are asked for.
    Here { left: Range<usize>, make: Maker },
    /// Made by threads; the queue to read next comes first.
    Ahead { queues: Vec<Receiver<Made>>, turn: usize, threads: Vec<JoinHandle<()>> },
}

impl Prefetch {
    /// At most `ahead` batches are made ahead, by a thread for each maker. With 0 there is no
    /// thread. There is at least one maker, and they make the same of a number.
    pub(super) fn new(left: &Range<usize>, ahead: usize, mut makers: Vec<Maker>) -> Prefetch {
        makers.truncate(ahead.max(1));
        let n = makers.len();
        let (mut queues, mut threads) = (Vec::new(), Vec::new());
        for (t, make) in makers.into_iter().enumerate() {
            if ahead == 0 {
                return Prefetch::Here { left: left.clone(), make };
            }
            // One more is in the thread's hands.
            let (sender, queue) = sync_channel((ahead + n - 1 - t) / n - 1);
            let numbers = left.clone().skip(t).step_by(n);
            let work = move || work(numbers, make, |made| sender.send(made).is_ok());
            match std::thread::Builder::new().name(format!("gt-data-{t}")).spawn(work) {
                Ok(thread) => threads.push(thread),
                Err(error) => return no_thread(&error),
            }
            queues.push(queue);
        }
        Prefetch::Ahead { queues, turn: 0, threads }
    }

    /// The next batch, in order; `None` after the last. After an error there is nothing to ask for.
    pub(super) fn next(&mut self) -> Option<Made> {
        match self {
            Prefetch::Here { left, make } => one(make, left.next()?),
            Prefetch::Ahead { queues, turn, .. } => {
                let made = queues.get(*turn)?.recv().ok();
                *turn = (*turn + 1) % queues.len();
                made
            }
        }
    }
}

/// Makes what the numbers say, until nobody takes it.
fn work(numbers: impl Iterator<Item = usize>, mut make: Maker, mut give: impl FnMut(Made) -> bool) {
    for i in numbers {
        let Some(made) = one(&mut make, i) else { return };
        let failed = made.is_err();
        if !give(made) || failed {
            return;
        }
    }
}

/// One error in place of the batches.
fn no_thread(error: &std::io::Error) -> Prefetch {
    let error = unplaced(format!("data loader: there is no thread to read ahead: {error}"))
        .hint("`prefetch: 0` reads without one");
    let mut error = Some(Err(error));
    Prefetch::Here { left: 0..1, make: Box::new(move |_| error.take()) }
}

/// One thing made; a panic on the way is told as an error.
fn one(make: &mut Maker, i: usize) -> Option<Made> {
    let made = catch_unwind(AssertUnwindSafe(|| make(i)));
    made.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Some(Err(unplaced(format!("data loader: reading batch {i} panicked: {text}"))))
    })
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        if let Prefetch::Ahead { queues, threads, .. } = self {
            // The next send of each thread fails, and it ends.
            queues.clear();
            for thread in threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}
