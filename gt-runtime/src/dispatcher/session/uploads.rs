//! Unfinished uploads of inputs. Their pieces come in order, before or after the segment that
//! declares the input. They count against the quota.
//!
//! Guarantees: a session has no more unfinished uploads than it may hold values. If its client
//! brings no further piece although it may, the unfinished uploads are given up.

use super::admission::check_name;
use super::{Session, error};
use crate::clock::Time;
use crate::dispatcher::Config;
use crate::wire::Chunk;
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::shape::Type;
use gt_ir::tape::ValueId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most uploads of one session that are under way: one for each of the smallest segments in a
/// window of a client.
const MAX_EARLY_UPLOADS: usize = 1 << 16;

/// An unfinished upload of an input's data.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::dispatcher) struct Upload {
    ty: Type,
    received: u64,
    whole: bool,
    declared: bool,
    /// Whether its worker was lost, it exceeds the quota, or its rest did not come: the rest is
    /// dropped.
    lost: bool,
}

impl Upload {
    fn new(ty: Type) -> Upload {
        Upload { ty, received: 0, whole: false, declared: false, lost: false }
    }

    fn is_over(&self) -> bool {
        self.declared && self.whole
    }

    fn is_awaited(&self) -> bool {
        !self.whole && !self.lost
    }

    /// The bytes that it takes, if only it does.
    fn early(&self) -> u64 {
        if self.declared || self.lost { 0 } else { self.ty.bytes() as u64 }
    }
}

/// The unfinished uploads of a session.
#[derive(Debug, Default)]
pub(in crate::dispatcher) struct Uploads {
    open: BTreeMap<ValueId, Upload>,
    /// Bytes of those whose input is not declared yet and that are not lost.
    early: u64,
    /// The number of those of which a piece is missing.
    n_awaited: usize,
}

impl Uploads {
    /// Changes an upload, and keeps the books. Forgets it if it is over.
    fn change<R>(&mut self, value: ValueId, ty: Type, act: impl FnOnce(&mut Upload) -> R) -> R {
        let is_new = !self.open.contains_key(&value);
        let upload = self.open.entry(value).or_insert(Upload::new(ty));
        if !is_new {
            self.early -= upload.early();
            self.n_awaited -= usize::from(upload.is_awaited());
        }
        let result = act(upload);
        self.early += upload.early();
        self.n_awaited += usize::from(upload.is_awaited());
        if upload.is_over() {
            self.open.remove(&value);
        }
        result
    }

    /// Bytes of uploads whose input is not declared yet and that are not lost.
    pub(super) fn early(&self) -> u64 {
        self.early
    }

    /// Whether no piece of the value has come.
    pub(in crate::dispatcher) fn is_untouched(&self, value: ValueId) -> bool {
        self.open.get(&value).is_some_and(|upload| upload.received == 0)
    }

    /// Drops the rest of an upload, if there is one.
    pub(super) fn lose(&mut self, value: ValueId) {
        if let Some(ty) = self.open.get(&value).map(|upload| upload.ty) {
            self.change(value, ty, |upload| upload.lost = true);
        }
    }

    /// Drops the rest of all uploads. Returns those whose input is not declared.
    pub(super) fn lose_all(&mut self) -> Vec<ValueId> {
        let all: Vec<ValueId> = self.open.keys().copied().collect();
        all.into_iter().for_each(|value| self.lose(value));
        let early = self.open.iter().filter(|(_, upload)| !upload.declared);
        early.map(|(&value, _)| value).collect()
    }

    /// The uploads of which a piece is missing.
    fn awaited(&self) -> Vec<ValueId> {
        let awaited = self.open.iter().filter(|(_, upload)| upload.is_awaited());
        awaited.map(|(&value, _)| value).collect()
    }

    pub(super) fn clear(&mut self) {
        *self = Uploads::default();
    }

    pub(in crate::dispatcher) fn has(&self, value: ValueId) -> bool {
        self.open.contains_key(&value)
    }

    /// The values of which an upload is unfinished.
    #[cfg(test)]
    pub(in crate::dispatcher) fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.open.keys().copied()
    }

    pub(in crate::dispatcher) fn len(&self) -> usize {
        self.open.len()
    }

    pub(in crate::dispatcher) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl Session {
    pub(super) fn declare(&mut self, value: ValueId, ty: Type) {
        self.uploads.change(value, ty, |upload| upload.declared = true);
        self.lost.revive(value, ty);
    }

    /// Notes a piece of an upload. Says whether a worker needs the piece.
    pub(in crate::dispatcher) fn upload(
        &mut self,
        now: Time,
        chunk: &Chunk,
        config: &Config,
    ) -> Result<bool, RunError> {
        self.brought = now;
        let refuse = |why: String| {
            Err(error(
                ErrorKind::Internal,
                format!("the server refused data of {}: {why}", chunk.value),
            ))
        };
        check_name(chunk.value.0.saturating_add(1))?;
        if chunk.offset == 0 && !self.uploads.has(chunk.value) {
            if self.verifier.is_live(chunk.value) {
                return refuse("the value already has its data".into());
            }
            if self.uploads.len() >= MAX_EARLY_UPLOADS {
                return refuse(format!("more than {MAX_EARLY_UPLOADS} uploads are under way"));
            }
            self.uploads.change(chunk.value, chunk.ty, |_| ());
            self.refuse_upload(chunk.value, chunk.ty, config);
        }
        let Some(upload) = self.uploads.open.get(&chunk.value) else {
            return refuse(format!(
                "its first piece begins at byte {}, not at byte 0",
                chunk.offset
            ));
        };
        let end = chunk.offset.checked_add(chunk.bytes.len() as u64);
        let fits = chunk.offset == upload.received
            && end.is_some_and(|end| end <= upload.ty.bytes() as u64);
        if !fits || !chunk.ty.same_layout(&upload.ty) || chunk.total != upload.ty.bytes() as u64 {
            let (got, want) = (chunk.offset, upload.received);
            return refuse(format!(
                "a piece at byte {got} of a {} does not follow {want} bytes of a {}",
                chunk.ty, upload.ty
            ));
        }
        Ok(self.uploads.change(chunk.value, chunk.ty, |upload| {
            upload.received += chunk.bytes.len() as u64;
            upload.whole = chunk.is_last();
            !upload.lost
        }))
    }

    /// Notes that an order came, which may begin uploads.
    pub(in crate::dispatcher) fn heard_order(&mut self, now: Time) {
        if self.uploads.n_awaited == 0 {
            self.brought = now;
        }
    }

    /// Whether an upload is unfinished, so that its segments may have to wait.
    #[cfg(test)]
    pub(in crate::dispatcher) fn waits_for_data(&self) -> bool {
        self.uploads.n_awaited > 0
    }

    /// When its unfinished uploads are given up, unless a piece comes before.
    pub(in crate::dispatcher) fn upload_deadline(&self, config: &Config) -> Option<Time> {
        (self.uploads.n_awaited > 0).then(|| self.brought + config.pause)
    }

    /// Gives up the unfinished uploads. Returns them, with the errors that its worker gets in place
    /// of their values.
    pub(in crate::dispatcher) fn give_up_uploads(
        &mut self,
        config: &Config,
    ) -> Vec<(ValueId, Arc<RunError>)> {
        let seconds = config.pause.as_secs();
        let given_up = self.uploads.awaited().into_iter().map(|value| {
            let message = format!("the program brought no more of its data for {seconds} s");
            let error = error(ErrorKind::Connection, message);
            self.uploads.lose(value);
            (value, Arc::new(RunError { value: Some(value), ..error }))
        });
        given_up.collect()
    }
}
