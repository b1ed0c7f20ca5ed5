//! Memory of a device: the account of values and graphs, the limit, and what is given up before a
//! request fails.
//!
//! Guarantees: a request that fails has changed nothing but caches; the bytes of a value are
//! counted as long as somebody holds it, also where its memory is a graph's; no more than the limit
//! is held by values and graphs together. It orders nothing: blocks go back to an allocator that
//! does.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use gt_ir::Type;

use super::{gpu::Gpu, plan::Plan};
use crate::{buffer::Storage, engine::Value, error::EngineError};

/// Bytes held, by whom.
#[derive(Debug, Default)]
pub(super) struct Account {
    values: AtomicUsize,
    peak: AtomicUsize,
    graphs: AtomicUsize,
}

impl Account {
    pub(super) fn values(&self) -> usize {
        self.values.load(Relaxed)
    }

    pub(super) fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    pub(super) fn graphs(&self) -> usize {
        self.graphs.load(Relaxed)
    }
}

/// A program that has graphs. One that runs says nothing of them and gives none up.
pub(super) trait HasGraphs: Send + Sync + 'static {
    /// When the graph used longest ago was used.
    fn oldest(&self) -> Option<u64>;

    fn drop_oldest(&self);
}

/// Bytes a graph holds, taken off the account when it goes.
pub(super) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.graphs.fetch_sub(self.bytes, Relaxed);
    }
}

/// The keeper of the memory of a value.
pub(super) struct Resident<G: Gpu> {
    pub(super) block: Arc<G::Block>,
    account: Arc<Account>,
    bytes: usize,
    /// The least and the largest element, of indices that came from the host: then their range
    /// needs no check on the device.
    range: Option<(i64, i64)>,
    /// Whether a result has taken the memory since.
    overwritten: AtomicBool,
}

impl<G: Gpu> Resident<G> {
    /// The least and the largest element, where the host knows them.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        self.range.filter(|_| !self.overwritten.load(Relaxed))
    }

    /// A result takes the memory.
    pub(super) fn overwrite(&self) {
        self.overwritten.store(true, Relaxed);
    }
}

impl<G: Gpu> Drop for Resident<G> {
    fn drop(&mut self) {
        self.account.values.fetch_sub(self.bytes, Relaxed);
    }
}

/// The device, and who holds what of it.
pub(super) struct Memory<G: Gpu> {
    pub(super) gpu: G,
    pub(super) account: Arc<Account>,
    pub(super) limit: usize,
    programs: Vec<Weak<dyn HasGraphs>>,
}

impl<G: Gpu> Memory<G> {
    pub(super) fn new(gpu: G, limit: usize) -> Memory<G> {
        Memory { gpu, account: Arc::default(), limit, programs: Vec::new() }
    }

    /// A block of memory; caches and then graphs are given up for it.
    pub(super) fn alloc(&mut self, bytes: usize) -> Result<Arc<G::Block>, EngineError> {
        if !self.fits(bytes) {
            self.drop_graphs();
        }
        if !self.fits(bytes) {
            return Err(self.refused(bytes));
        }
        let mut block = self.gpu.alloc(bytes);
        if is_out_of_memory(&block) {
            self.gpu.trim();
            block = self.gpu.alloc(bytes);
        }
        if is_out_of_memory(&block) && self.drop_graphs() > 0 {
            self.gpu.trim();
            block = self.gpu.alloc(bytes);
        }
        if is_out_of_memory(&block) {
            return Err(self.refused(bytes));
        }
        block.map(Arc::new)
    }

    fn fits(&self, bytes: usize) -> bool {
        let held = self.account.values().saturating_add(self.account.graphs());
        held.saturating_add(bytes) <= self.limit
    }

    fn refused(&self, asked: usize) -> EngineError {
        EngineError::OutOfMemory { asked, live: self.account.values(), limit: self.limit }
    }

    pub(super) fn address(&self, block: &G::Block) -> u64 {
        self.gpu.address(block)
    }

    /// A value in a block.
    pub(super) fn value(&self, ty: Type, block: Arc<G::Block>, range: Option<(i64, i64)>) -> Value {
        let (bytes, address) = (ty.bytes(), self.gpu.address(&block));
        let values = self.account.values.fetch_add(bytes, Relaxed) + bytes;
        self.account.peak.fetch_max(values, Relaxed);
        let (account, overwritten) = (self.account.clone(), AtomicBool::new(false));
        let keeper = Resident::<G> { block, account, bytes, range, overwritten };
        Value { ty, storage: Arc::new(Storage::on_device(address, bytes, Box::new(keeper))) }
    }

    /// What keeps a value of this device.
    pub(super) fn resident<'v>(&self, value: &'v Value) -> Result<&'v Resident<G>, EngineError> {
        let resident = value.storage.keeper::<Resident<G>>();
        resident.filter(|r| Arc::ptr_eq(&r.account, &self.account)).ok_or_else(|| {
            EngineError::Call(format!("a value of another engine was given to {}", self.gpu.name()))
        })
    }

    /// Whether the device has to say if an index was outside its axis: not where the host knows the
    /// indices.
    pub(super) fn needs_check(&self, plan: &Plan, inputs: &[&Value]) -> bool {
        let is_known = |input: usize, size: usize| {
            let range = self.resident(inputs[input]).ok().and_then(|resident| resident.range());
            range.is_some_and(|(least, most)| least >= 0 && most < size as i64)
        };
        plan.checks.iter().any(|check| !check.input.is_some_and(|i| is_known(i, check.size)))
    }

    pub(super) fn charge(&self, bytes: usize) -> Charge {
        self.account.graphs.fetch_add(bytes, Relaxed);
        Charge { account: self.account.clone(), bytes }
    }

    /// Remembers a program that has a graph now.
    pub(super) fn register<P: HasGraphs>(&mut self, program: &Arc<P>) {
        self.programs.retain(|known| known.strong_count() > 0);
        let new = Arc::downgrade(program) as Weak<dyn HasGraphs>;
        if !self.programs.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), new.as_ptr())) {
            self.programs.push(new);
        }
    }

    /// Gives up the graphs used longest ago until those left hold at most `keep` bytes; those of a
    /// program that runs stay.
    pub(super) fn evict(&mut self, keep: usize) {
        while self.account.graphs() > keep {
            let used = |program: &Weak<dyn HasGraphs>| {
                let program = program.upgrade()?;
                Some((program.oldest()?, program))
            };
            let oldest = self.programs.iter().filter_map(used).min_by_key(|(used, _)| *used);
            let Some((_, program)) = oldest else { return };
            program.drop_oldest();
        }
    }

    /// Gives up every graph that is not in use; says how many bytes they held.
    pub(super) fn drop_graphs(&mut self) -> usize {
        let before = self.account.graphs();
        self.evict(0);
        before - self.account.graphs()
    }

    /// Gives up what is kept for later; says how many bytes went back to the device.
    pub(super) fn trim(&mut self) -> usize {
        let before = self.gpu.memory().reserved;
        self.drop_graphs();
        self.gpu.trim();
        before.saturating_sub(self.gpu.memory().reserved)
    }
}

pub(super) fn is_out_of_memory<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::OutOfMemory { .. }))
}

/// Whether nobody else holds a value's memory, so that it may be overwritten.
pub(super) fn is_sole(value: &Value) -> bool {
    Arc::strong_count(&value.storage) == 1 && Arc::weak_count(&value.storage) == 0
}
