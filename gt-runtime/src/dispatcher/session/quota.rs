//! The quotas of a session: bytes, values, and bytes of uploads whose input is not declared. A
//! value above a quota is lost, and so are values computed from it. All other values are
//! unaffected.
//!
//! Guarantees: after every segment and every first piece of an upload, the session's values are
//! within its quotas. Lost values do not count, because no worker has them. The quota does not
//! limit values that live only within a segment; the worker's memory does.

use super::{Session, error};
use crate::dispatcher::Config;
use gt_ir::Loc;
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::shape::Type;
use gt_ir::tape::{Entry, Tape, ValueId};
use gt_ir::units;
use std::sync::Arc;

impl Session {
    /// Loses the values of a tape that exceed the quota, in the tape's order. Says whether the
    /// quota was exceeded.
    pub(super) fn refuse_excess(&mut self, tape: &Tape, config: &Config) -> bool {
        if !self.is_over(config) {
            return false;
        }
        let new = tape.entries.iter().filter_map(|entry| self.new_value(entry));
        let new: u128 = new.map(|(_, ty)| ty.bytes() as u128).sum();
        let n_new = tape.entries.iter().filter_map(|entry| self.new_value(entry)).count();
        let before = self.held().saturating_sub(new);
        let n_before = self.n_held().saturating_sub(n_new);
        let mut room = u128::from(config.quota).saturating_sub(before);
        let mut n_room = config.max_values.saturating_sub(n_before);
        for entry in &tape.entries {
            let Some((value, ty)) = self.new_value(entry) else { continue };
            let operand = match entry {
                Entry::Instr(instr) => self.lost_operand(instr),
                _ => None,
            };
            match operand {
                Some(cause) => self.lose(value, &cause),
                None if n_room == 0 => self.lose(value, &Arc::new(too_many(entry, config))),
                None if ty.bytes() as u128 <= room => {
                    room -= ty.bytes() as u128;
                    n_room -= 1;
                }
                None => self.lose(value, &Arc::new(refusal(entry, ty, before, config))),
            }
        }
        true
    }

    /// Loses an upload that has just begun, if it exceeds the quota.
    pub(super) fn refuse_upload(&mut self, value: ValueId, ty: Type, config: &Config) {
        let early = self.uploads.early();
        if early > config.max_uploads {
            let message = format!(
                "{} of uploads wait for a program that declares their inputs, and {} are the most",
                units::bytes(early),
                units::bytes(config.max_uploads)
            );
            let hint = "use each upload before the next ones, or upload less";
            let error = error(ErrorKind::Resource, message).hint(hint);
            self.lose(value, &Arc::new(RunError { value: Some(value), ..error }));
        } else if self.is_over(config) {
            let before = self.held().saturating_sub(ty.bytes() as u128);
            let input = Entry::Input { out: value, ty, name: None };
            self.lose(value, &Arc::new(refusal(&input, ty, before, config)));
        }
    }

    fn is_over(&self, config: &Config) -> bool {
        let most = u128::from(config.quota);
        // The first comparisons are quick and nearly always decide.
        let bytes = self.live_bytes + u128::from(self.uploads.early()) > most && self.held() > most;
        bytes || self.n_live() > config.max_values && self.n_held() > config.max_values
    }

    /// The number of live values that are not lost.
    fn n_held(&self) -> usize {
        self.n_live() - self.lost.n_live()
    }

    /// Bytes of values and uploads that are not lost.
    pub(in crate::dispatcher) fn held(&self) -> u128 {
        self.live_bytes + u128::from(self.uploads.early()) - self.lost.bytes()
    }

    /// The value that an entry defines, if it is alive at the tape's end and no worker has data of
    /// it.
    fn new_value(&self, entry: &Entry) -> Option<(ValueId, Type)> {
        let value = entry.defines().filter(|value| !self.lost.contains(*value))?;
        let ty = self.verifier.ty(value)?;
        let untouched = self.uploads.is_untouched(value);
        (untouched || matches!(entry, Entry::Instr(_))).then_some((value, ty))
    }

    fn lose(&mut self, value: ValueId, cause: &Arc<RunError>) {
        self.uploads.lose(value);
        self.lost.add(value, self.verifier.ty(value), cause);
    }
}

/// The error of a value above the number of values.
fn too_many(entry: &Entry, config: &Config) -> RunError {
    let (what, loc) = named(entry);
    let message =
        format!("{what}the session holds {} values, and may hold no more", config.max_values);
    let hint = "drop tensors as soon as they are not needed";
    RunError { value: entry.defines(), loc, ..error(ErrorKind::Resource, message).hint(hint) }
}

/// The op and the line of an entry, for an error.
fn named(entry: &Entry) -> (String, Loc) {
    match entry {
        Entry::Instr(instr) => (format!("{}: ", instr.op.name()), instr.loc),
        _ => (String::new(), Loc::NONE),
    }
}

/// The error of a value above the quota.
fn refusal(entry: &Entry, ty: Type, before: u128, config: &Config) -> RunError {
    let (what, loc) = named(entry);
    let size = |bytes: u128| units::bytes(u64::try_from(bytes).unwrap_or(u64::MAX));
    let message = format!(
        "{what}{ty} takes {}, but the session holds {} of the {} it may hold",
        size(ty.bytes() as u128),
        size(before),
        size(config.quota.into())
    );
    let hint = "drop tensors as soon as they are not needed, or compute this one in parts";
    let error = error(ErrorKind::Resource, message).hint(hint);
    RunError { value: entry.defines(), loc, ..error }
}
