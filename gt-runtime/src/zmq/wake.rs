//! Wake-ups for the thread that polls sockets, from other threads.
//!
//! A pair of connected sockets of the operating system. Only the first wake-up after each clear
//! writes a byte, so a burst of wake-ups costs one system call.

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
    /// Ends the current or the next wait of the other side, which then sees all writes before this
    /// call.
    pub fn wake(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // The pair holds a few bytes at most, so the buffer is not full. If it is closed,
            // nobody waits.
            let _ = (&self.0.stream).write(&[1]);
        }
    }
}

impl Wakeups {
    /// Clears the wake-ups so far. The caller must look for work after this call, not before.
    /// `readable` says whether the poll found a byte.
    pub fn clear(&self, readable: bool) {
        if readable {
            let mut bytes = [0; 16];
            // If there is nothing to read, the byte has not arrived. It then ends one later wait
            // early.
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
