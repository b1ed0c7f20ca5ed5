//! Wake-ups for the thread that polls sockets, from other threads.
//!
//! A pipe. Only the first wake-up after each clear writes a byte, so a burst of wake-ups costs one
//! system call. Other processes of the same user open the pipe by its [`Bell`].

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The end that wakes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

/// The end that is polled.
#[derive(Debug)]
pub struct Wakeups {
    pipe: File,
    shared: Arc<Shared>,
}

/// The number of a pipe's descriptor in the process that polls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bell(pub(super) u32);

#[derive(Debug)]
struct Shared {
    pending: AtomicBool,
    pipe: File,
}

/// The two ends.
///
/// # Errors
/// The process has too many open files.
pub fn wake_pair() -> io::Result<(Waker, Wakeups)> {
    let (read, write) = io::pipe()?;
    let ends = [OwnedFd::from(read), OwnedFd::from(write)];
    for end in &ends {
        rustix::io::ioctl_fionbio(end, true)?;
    }
    let [read, write] = ends.map(File::from);
    let shared = Arc::new(Shared { pending: AtomicBool::new(false), pipe: write });
    Ok((Waker(shared.clone()), Wakeups { pipe: read, shared }))
}

impl Waker {
    /// Ends the current or the next wait of the other side, which then sees all writes before this
    /// call.
    pub fn wake(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // A full pipe wakes as well. If it is closed, nobody waits.
            let _ = (&self.0.pipe).write(&[1]);
        }
    }

    /// Whether the other side has not waited since the last wake-up.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.0.pending.load(Ordering::Acquire)
    }
}

impl Wakeups {
    /// Clears the wake-ups so far. The caller must look for work after this call, not before.
    /// `readable` says whether the poll found a byte.
    pub fn clear(&self, readable: bool) {
        if readable {
            let mut bytes = [0; 64];
            // If there is nothing to read, the byte has not arrived. It then ends one later wait
            // early, as do bytes that are left.
            let _ = (&self.pipe).read(&mut bytes);
        }
        self.shared.pending.swap(false, Ordering::AcqRel);
    }

    /// How another process opens the pipe.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell(u32::try_from(self.pipe.as_raw_fd()).unwrap_or_default())
    }
}

impl AsRawFd for Wakeups {
    fn as_raw_fd(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }
}
