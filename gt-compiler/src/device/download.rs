//! Downloads of a device: begun by its engine, waited for on any thread.
//!
//! Guarantees: a value is held until its last byte has left the device, so whatever the engine is
//! asked for meanwhile finds its memory taken and overwrites it nowhere; it is given up before its
//! data is handed over. A large value comes in slices, so whoever waits for several may go around
//! among them. A failure is the engine's, too: every later call says so.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use gt_ir::{HostTensor, Type};

use super::gpu::{Gpu, Reader};
use crate::{download::Transfer, engine::Value, error::EngineError};

/// Why a device is lost, once it is: what its engine and its downloads know of each other.
#[derive(Clone, Default)]
pub(super) struct Health(Arc<OnceLock<EngineError>>);

impl Health {
    pub(super) fn check(&self) -> Result<(), EngineError> {
        self.0.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The device is lost, and says so from now on: the first reason counts.
    pub(super) fn lost(&self, device: &str, error: EngineError) -> EngineError {
        let lost = || {
            if matches!(error, EngineError::Device(_)) {
                return error;
            }
            EngineError::Device(format!("{device}: {error}"))
        };
        self.0.get_or_init(lost).clone()
    }
}

/// The downloads of an engine: how many began, and which has arrived. Marks are passed in their
/// order, so with one all before it.
#[derive(Default)]
pub(super) struct Downloads {
    n_begun: u64,
    n_passed: Arc<AtomicU64>,
}

impl Downloads {
    pub(super) fn n_begun(&self) -> u64 {
        self.n_begun
    }

    /// So many of them were begun when the device had done what was asked before the last of them.
    pub(super) fn n_passed(&self) -> u64 {
        self.n_passed.load(Relaxed)
    }

    /// Begins one, of at least a byte, that is waited for in slices of so many bytes.
    pub(super) fn begin<G: Gpu>(
        &mut self,
        gpu: &G,
        health: &Health,
        value: &Value,
        slice: usize,
    ) -> Result<Arriving<G>, EngineError> {
        let mark = gpu.mark()?;
        self.n_begun += 1;
        Ok(Arriving {
            reader: gpu.reader(),
            mark,
            device: gpu.name(),
            health: health.clone(),
            number: self.n_begun,
            n_passed: self.n_passed.clone(),
            ty: value.ty,
            value: Some(value.clone()),
            bytes: Vec::new(),
            at: 0,
            slice,
        })
    }
}

/// A value on its way.
pub(super) struct Arriving<G: Gpu> {
    reader: Arc<G::Reader>,
    mark: <G::Reader as Reader>::Mark,
    device: String,
    health: Health,
    number: u64,
    n_passed: Arc<AtomicU64>,
    ty: Type,
    /// Until all of it is there.
    value: Option<Value>,
    /// Taken when it is first waited for.
    bytes: Vec<u8>,
    at: usize,
    slice: usize,
}

impl<G: Gpu> Transfer for Arriving<G> {
    fn advance(&mut self) -> Result<Option<HostTensor>, EngineError> {
        let Some(value) = &self.value else {
            return Err(EngineError::Call("this value was given already".into()));
        };
        self.health.check()?;
        if self.bytes.is_empty() {
            self.bytes = vec![0; value.bytes()];
        }
        let end = self.bytes.len().min(self.at.saturating_add(self.slice));
        let (from, to) = (value.address() as u64 + self.at as u64, &mut self.bytes[self.at..end]);
        let read = self.reader.read(&self.mark, from, to);
        read.map_err(|error| self.health.lost(&self.device, error))?;
        self.n_passed.fetch_max(self.number, Relaxed);
        self.at = end;
        if end < self.bytes.len() {
            return Ok(None);
        }
        self.value = None;
        let bytes = bytes::Bytes::from(std::mem::take(&mut self.bytes));
        Ok(Some(HostTensor::new(self.ty, bytes)?))
    }
}
