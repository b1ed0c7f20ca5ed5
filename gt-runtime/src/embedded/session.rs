//! A session of the embedded system, as the language sees it.

use std::sync::Arc;

use gt_ir::backend::{Backend, ErrorKind, Fetching, RunError, Stats};
use gt_ir::signal::Signals;
use gt_ir::{HostTensor, Tape, ValueId};

use super::{Handle, Shared};
use crate::capture::Capture;
use crate::client::{Session, Submitter};
use crate::clock;
use crate::ids::PeerId;
use crate::modifier::{self, Place};
use crate::profile::Call;
use crate::slot::{Slot, spin_until};

/// One session of a system.
pub(super) struct Embedded {
    pub(super) handle: Arc<Handle>,
    pub(super) peer: PeerId,
    pub(super) submitter: Submitter,
    pub(super) capture: Arc<Capture>,
}

impl Embedded {
    fn shared(&self) -> &Shared {
        &self.handle.0
    }

    /// Asks for something and waits for the answer.
    fn wait<T>(&self, ask: impl FnOnce(&mut Session) -> Slot<T>) -> Option<T> {
        let slot = self.shared().with(self.peer, ask)?;
        self.shared().help(|| slot.is_filled());
        spin_until(|| slot.is_filled());
        slot.wait()
    }

    fn modified(&self, segment: Tape) -> Option<Tape> {
        if !modifier::is_at(Place::Client) {
            return Some(segment);
        }
        self.shared().with(self.peer, |session| session.modified(segment)).flatten()
    }
}

impl Backend for Embedded {
    fn submit(&self, segment: Tape) {
        let _calls = (Call::submit(), self.capture.submits());
        let Some(segment) = self.modified(segment) else { return };
        if self.shared().log.has_instructions() {
            self.shared().with(self.peer, |session| session.log_segment(&segment));
        }
        self.submitter.submit(segment, |messages| {
            self.shared().when_roomy(self.peer, |session| session.submit(clock::now(), messages));
        });
    }

    fn upload(&self, value: ValueId, data: HostTensor) {
        let _calls = (Call::submit(), self.capture.submits());
        self.shared().when_roomy(self.peer, |session| session.upload(clock::now(), value, data));
    }

    fn configure(&self, signals: Signals) {
        self.submitter.configure(signals.clone());
        self.shared().when_roomy(self.peer, |session| session.configure(clock::now(), signals));
    }

    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError> {
        let _calls = (Call::wait(), self.capture.waits());
        self.wait(|session| session.fetch(clock::now(), value)).unwrap_or_else(|| Err(gone()))
    }

    fn begin_fetch(&self, value: ValueId) -> Fetching {
        let _calls = (Call::submit(), self.capture.submits());
        let slot = self.shared().with(self.peer, |session| session.fetch(clock::now(), value));
        self.shared().leave();
        Box::pin(async move {
            match slot {
                Some(slot) => slot.await.unwrap_or_else(|| Err(gone())),
                None => Err(gone()),
            }
        })
    }

    fn stats(&self) -> Result<Stats, RunError> {
        let _call = Call::wait();
        let stats = self.wait(|session| session.stats(clock::now()));
        let stats = stats.unwrap_or_else(|| Err(gone()));
        stats.map(|stats| self.submitter.complete(stats))
    }

    fn close(&self) {
        self.shared().with(self.peer, |session| session.close(clock::now()));
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.close();
        self.shared().lock().sessions.remove(&self.peer);
    }
}

fn gone() -> RunError {
    RunError::new(ErrorKind::Internal, "the session is gone")
}
