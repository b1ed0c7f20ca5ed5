//! Ctrl-C and SIGTERM: the first signal requests a clean end, the second ends the process at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status after Ctrl-C, by the convention of shells.
pub(crate) const INTERRUPTED: i32 = 130;

/// Whether the user has requested the end. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for signals from now on, and calls `then` at the first signal.
    pub(crate) fn watch(then: impl Fn() + Send + 'static) -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let asked = interrupt.clone();
        ctrlc::set_handler(move || {
            if asked.0.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED);
            }
            then();
        })?;
        Ok(interrupt)
    }

    /// As [`Interrupt::watch`], where SIGTERM asks for an end that waits for others: it calls
    /// `gently`, and does not count as an interruption.
    pub(crate) fn watch_or(
        now: impl Fn() + Send + 'static,
        gently: impl Fn() + Send + 'static,
    ) -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let asked = interrupt.clone();
        let mut signals = Signals::new([SIGINT, SIGHUP, SIGTERM])?;
        let watch = move || {
            for (n, signal) in signals.forever().enumerate() {
                match signal {
                    _ if n > 0 => std::process::exit(INTERRUPTED),
                    SIGTERM => gently(),
                    _ => {
                        asked.0.store(true, Ordering::SeqCst);
                        now();
                    }
                }
            }
        };
        std::thread::Builder::new().name("gt-signals".into()).spawn(watch)?;
        Ok(interrupt)
    }

    /// Whether a signal has come.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ends the process at the first signal, after the line `say`. For commands without a clean end.
pub(crate) fn end_at_interrupt(say: &'static str) -> anyhow::Result<()> {
    ctrlc::set_handler(move || {
        eprintln!("{say}");
        std::process::exit(INTERRUPTED);
    })?;
    Ok(())
}

/// The status that a shell would return: 128 and the signal's number if a signal ended it.
pub(crate) fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(1)
}
