//! The lost values of a session, with the errors that reads of them return.
//!
//! Guarantees: the sum of their bytes is kept, so a segment of a session that has lost many values
//! costs no more than one of a session that has lost few.

use gt_ir::backend::RunError;
use gt_ir::shape::Type;
use gt_ir::tape::ValueId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values that were lost with a worker or exceeded the quota, and values computed from them. Each
/// is alive, or an upload whose input is not declared yet.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::dispatcher) struct Lost {
    values: BTreeMap<ValueId, Value>,
    /// The number and the bytes of those that are alive.
    n_live: usize,
    bytes: u128,
}

#[derive(Clone, PartialEq, Debug)]
struct Value {
    cause: Arc<RunError>,
    /// Its type, if it is alive.
    ty: Option<Type>,
}

impl Lost {
    /// Notes a value as lost, with its type if it is alive. The first cause stays.
    pub(super) fn add(&mut self, value: ValueId, ty: Option<Type>, cause: &Arc<RunError>) {
        let cause = self.remove(value).unwrap_or_else(|| Arc::clone(cause));
        self.n_live += usize::from(ty.is_some());
        self.bytes += bytes(ty);
        self.values.insert(value, Value { cause, ty });
    }

    /// Notes that a value is alive from now on, if it is lost: its input was declared.
    pub(super) fn revive(&mut self, value: ValueId, ty: Type) {
        if let Some(cause) = self.cause(value).cloned() {
            self.add(value, Some(ty), &cause);
        }
    }

    /// Forgets a value. Returns why it was lost, if it was.
    pub(super) fn remove(&mut self, value: ValueId) -> Option<Arc<RunError>> {
        let Value { cause, ty } = self.values.remove(&value)?;
        self.n_live -= usize::from(ty.is_some());
        self.bytes -= bytes(ty);
        Some(cause)
    }

    /// Why a value is lost, if it is.
    pub(in crate::dispatcher) fn cause(&self, value: ValueId) -> Option<&Arc<RunError>> {
        self.values.get(&value).map(|value| &value.cause)
    }

    pub(in crate::dispatcher) fn contains(&self, value: ValueId) -> bool {
        self.values.contains_key(&value)
    }

    pub(in crate::dispatcher) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of those that are alive.
    pub(in crate::dispatcher) fn n_live(&self) -> usize {
        self.n_live
    }

    /// The bytes of those that are alive.
    pub(in crate::dispatcher) fn bytes(&self) -> u128 {
        self.bytes
    }

    /// The lost values, with their types if they are alive.
    pub(in crate::dispatcher) fn iter(&self) -> impl Iterator<Item = (ValueId, Option<Type>)> + '_ {
        self.values.iter().map(|(&id, value)| (id, value.ty))
    }
}

fn bytes(ty: Option<Type>) -> u128 {
    ty.map_or(0, |ty| ty.bytes() as u128)
}
