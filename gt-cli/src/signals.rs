//! Ctrl-C and SIGTERM: the first asks for a clean end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status after Ctrl-C, as shells know it.
pub(crate) const INTERRUPTED: i32 = 130;

/// Whether the user asked for an end. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for signals from now on and calls `then` at the first.
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

    /// Whether a signal came.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// For commands without anything to wind down: a signal ends the process, saying so.
pub(crate) fn end_at_interrupt(say: &'static str) -> anyhow::Result<()> {
    ctrlc::set_handler(move || {
        eprintln!("{say}");
        std::process::exit(INTERRUPTED);
    })?;
    Ok(())
}
