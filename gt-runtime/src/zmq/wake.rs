//! Waking the thread that polls sockets from threads that own none.
//!
//! A pair of connected sockets of the operating system: a byte is written by the first wake-up
//! after each clear and by no other, so a burst of work costs one system call.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The end that wakes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

/// The end that is polled.
#[derive(Debug)]
pub struct Wakeups {
    stream: UnixStream,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pending: AtomicBool,
    stream: UnixStream,
}

/// The two ends.
pub fn wake_pair() -> std::io::Result<(Waker, Wakeups)> {
    let (write, read) = UnixStream::pair()?;
    write.set_nonblocking(true)?;
    read.set_nonblocking(true)?;
    let shared = Arc::new(Shared { pending: AtomicBool::new(false), stream: write });
    Ok((Waker(shared.clone()), Wakeups { stream: read, shared }))
}

impl Waker {
    /// Ends the other side's present or next wait. What was done before the call is visible to it
    /// afterwards.
    pub fn wake(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // At most a few bytes are ever in the pair, so a full buffer cannot be; a closed one
            // means nobody waits any more.
            let _ = (&self.0.stream).write(&[1]);
        }
    }
}

impl Wakeups {
    /// Forgets the wake-ups so far. Work must be looked for after this call, not before. `readable`
    /// says whether the poll found a byte.
    pub fn clear(&self, readable: bool) {
        if readable {
            let mut bytes = [0; 16];
            // Nothing to read means the byte is still on its way: it will end a wait for nothing,
            // once.
            let _ = (&self.stream).read(&mut bytes);
        }
        self.shared.pending.swap(false, Ordering::AcqRel);
    }
}

impl AsRawFd for Wakeups {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}
