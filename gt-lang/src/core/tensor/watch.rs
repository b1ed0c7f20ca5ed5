//! What looks at the gradient of a tensor when a walk reaches it: functions, and a place where it
//! is kept.
//!
//! Guarantees: a tensor that nothing watches pays for a word of memory; functions run outside of
//! the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::DynTensor;

/// A function of a gradient; what it gives takes the gradient's place.
pub(crate) type Hook = dyn Fn(&DynTensor) -> Option<DynTensor> + Send + Sync;

/// The watch over one tensor's gradient.
#[derive(Default)]
pub(crate) struct Watch(Mutex<Watched>);

#[derive(Default)]
struct Watched {
    /// In the order of registration, each under its number.
    hooks: Vec<(u64, Arc<Hook>)>,
    n_registered: u64,
    retains: bool,
    retained: Option<DynTensor>,
}

impl Watch {
    /// Adds a function, and gives its number.
    pub(crate) fn add(&self, hook: Arc<Hook>) -> u64 {
        let mut watched = self.lock();
        watched.n_registered += 1;
        let number = watched.n_registered;
        watched.hooks.push((number, hook));
        number
    }

    /// Removes the function of this number; it is dropped after the lock is released.
    pub(crate) fn remove(&self, number: u64) {
        let mut watched = self.lock();
        let place = watched.hooks.iter().position(|(known, _)| *known == number);
        let removed = place.map(|place| watched.hooks.remove(place));
        drop(watched);
        drop(removed);
    }

    /// The functions, in the order of registration.
    pub(crate) fn hooks(&self) -> Vec<Arc<Hook>> {
        self.lock().hooks.iter().map(|(_, hook)| hook.clone()).collect()
    }

    /// Keeps gradients from now on.
    pub(crate) fn retain(&self) {
        self.lock().retains = true;
    }

    /// Whether gradients are kept.
    pub(crate) fn retains(&self) -> bool {
        self.lock().retains
    }

    /// The gradient kept so far.
    pub(crate) fn retained(&self) -> Option<DynTensor> {
        self.lock().retained.clone()
    }

    /// Replaces the gradient kept; the old one is dropped after the lock is released.
    pub(crate) fn set_retained(&self, grad: Option<DynTensor>) {
        let old = std::mem::replace(&mut self.lock().retained, grad);
        drop(old);
    }

    /// The state behind the lock. Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
