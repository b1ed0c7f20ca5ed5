//! Unfinished uploads of inputs. Their pieces come in order, before or after the segment that
//! declares the input. They count against the quota.

use super::admission::check_name;
use super::{Session, error};
use crate::dispatcher::Config;
use crate::wire::Chunk;
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::shape::Type;
use gt_ir::tape::ValueId;

/// The most uploads of one session whose input is not declared yet.
const MAX_EARLY_UPLOADS: usize = 1 << 12;

/// An unfinished upload of an input's data.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::dispatcher) struct Upload {
    pub(super) ty: Type,
    pub(super) received: u64,
    whole: bool,
    pub(super) declared: bool,
    /// Whether its worker was lost or it exceeds the quota: the rest is dropped.
    pub(super) lost: bool,
}

impl Upload {
    fn is_over(&self) -> bool {
        self.declared && self.whole
    }
}

impl Session {
    pub(super) fn declare(&mut self, value: ValueId, ty: Type) {
        let upload = self.uploads.entry(value).or_insert(Upload {
            ty,
            received: 0,
            whole: false,
            declared: true,
            lost: false,
        });
        if !std::mem::replace(&mut upload.declared, true) {
            self.early_bytes -= upload.ty.bytes() as u64;
        }
        if upload.is_over() {
            self.uploads.remove(&value);
        }
    }

    /// Notes a piece of an upload. Says whether a worker needs the piece.
    pub(in crate::dispatcher) fn upload(
        &mut self,
        chunk: &Chunk,
        config: &Config,
    ) -> Result<bool, RunError> {
        let refuse = |why: String| {
            Err(error(
                ErrorKind::Internal,
                format!("the server refused data of {}: {why}", chunk.value),
            ))
        };
        check_name(chunk.value.0.saturating_add(1))?;
        if chunk.offset == 0 && !self.uploads.contains_key(&chunk.value) {
            if self.verifier.is_live(chunk.value) {
                return refuse("the value already has its data".into());
            }
            self.early_bytes = self.early_bytes.saturating_add(chunk.ty.bytes() as u64);
            self.uploads.insert(
                chunk.value,
                Upload { ty: chunk.ty, received: 0, whole: false, declared: false, lost: false },
            );
            if self.uploads.len() > MAX_EARLY_UPLOADS {
                return refuse(format!("more than {MAX_EARLY_UPLOADS} uploads are under way"));
            }
            self.refuse_upload(chunk.value, chunk.ty, config);
        }
        let Some(upload) = self.uploads.get_mut(&chunk.value) else {
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
        upload.received += chunk.bytes.len() as u64;
        upload.whole = chunk.is_last();
        let wanted = !upload.lost;
        if upload.is_over() {
            self.uploads.remove(&chunk.value);
        }
        Ok(wanted)
    }
}
