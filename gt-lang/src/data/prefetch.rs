//! Making things ahead on a thread, through a bounded queue.
//!
//! Guarantees: things come in order; the thread is never more than the queue's length ahead; it
//! ends when the last thing is made, after an error, or when the queue is dropped, and dropping
//! waits for that. A panic of the maker becomes an error.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use gt_ir::HostTensor;

use super::unplaced;
use crate::error::Result;

/// One batch, or the error of making it.
type Made = Result<Vec<HostTensor>>;
/// Makes the batch of a number.
type Maker = Box<dyn FnMut(usize) -> Made + Send>;

/// The batches `make` makes of the numbers of a range.
pub(super) enum Prefetch {
    /// Made when they are asked for.
    Here { left: Range<usize>, make: Maker },
    /// Made by a thread.
    Ahead { queue: Option<Receiver<Made>>, thread: Option<JoinHandle<()>> },
}

impl Prefetch {
    pub(super) fn new(
        left: Range<usize>,
        ahead: usize,
        make: impl FnMut(usize) -> Made + Send + 'static,
    ) -> Prefetch {
        let mut make: Maker = Box::new(make);
        if ahead == 0 {
            return Prefetch::Here { left, make };
        }
        // One more is in the thread's hands.
        let (sender, queue) = sync_channel(ahead - 1);
        let work = move || {
            for i in left {
                let made = one(&mut make, i);
                let failed = made.is_err();
                if sender.send(made).is_err() || failed {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("gt-data".to_owned()).spawn(work);
        match thread {
            Ok(thread) => Prefetch::Ahead { queue: Some(queue), thread: Some(thread) },
            Err(error) => {
                let mut error = Some(
                    unplaced(format!("data loader: there is no thread to read ahead: {error}"))
                        .hint("`prefetch: 0` reads without one"),
                );
                let make = Box::new(move |_| error.take().map_or(Ok(Vec::new()), Err));
                Prefetch::Here { left: 0..1, make }
            }
        }
    }

    /// The next batch, in order; `None` after the last and after an error of the thread.
    pub(super) fn next(&mut self) -> Option<Made> {
        match self {
            Prefetch::Here { left, make } => left.next().map(|i| one(make, i)),
            Prefetch::Ahead { queue, .. } => queue.as_ref()?.recv().ok(),
        }
    }
}

/// One thing made; a panic on the way is told as an error.
fn one(make: &mut Maker, i: usize) -> Made {
    let made = catch_unwind(AssertUnwindSafe(|| make(i)));
    made.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(unplaced(format!("data loader: reading batch {i} panicked: {text}")))
    })
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        if let Prefetch::Ahead { queue, thread } = self {
            // The thread's next send fails, and it ends.
            drop(queue.take());
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}
