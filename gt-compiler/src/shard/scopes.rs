//! Signals as the partitioner takes them: the open scopes of a segment, the mesh that the innermost
//! configured one names, and the layout that it asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::Type;
use gt_ir::layout::{Layout, Mesh, Spread};
use gt_ir::signal::{ShardAxis, ShardConfig, Signals};

/// A signal's sharding on the members that there are.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) name: Arc<str>,
    pub(super) mesh: Arc<Mesh>,
    pub(super) config: ShardConfig,
}

/// The scopes that are open.
#[derive(Debug)]
pub(super) struct Scopes<'a> {
    signals: &'a Signals,
    n_members: u32,
    open: Vec<Option<Arc<Scope>>>,
    known: BTreeMap<Arc<str>, Option<Arc<Scope>>>,
    /// What was asked for and not granted, each once.
    pub(super) warnings: Vec<String>,
}

impl<'a> Scopes<'a> {
    pub(super) fn new(signals: &'a Signals, n_members: u32) -> Scopes<'a> {
        let (open, known, warnings) = (Vec::new(), BTreeMap::new(), Vec::new());
        Scopes { signals, n_members, open, known, warnings }
    }

    pub(super) fn enter(&mut self, name: &Arc<str>) {
        let scope = match self.known.get(name) {
            Some(scope) => scope.clone(),
            None => {
                let scope = self.resolve(name);
                self.known.insert(Arc::clone(name), scope.clone());
                scope
            }
        };
        self.open.push(scope);
    }

    pub(super) fn exit(&mut self) {
        self.open.pop();
    }

    /// The innermost open scope that is configured.
    pub(super) fn current(&self) -> Option<Arc<Scope>> {
        self.open.iter().rev().find_map(Clone::clone)
    }

    /// A signal on the members that there are.
    fn resolve(&mut self, name: &Arc<str>) -> Option<Arc<Scope>> {
        let config = self.signals.get(name)?.shard.clone()?;
        let there = |worker: &u32| *worker < self.n_members;
        let wished = config.named().unwrap_or_else(|| (0..self.n_members).collect());
        let rows = config.mesh.as_deref().unwrap_or_default();
        // Of a mesh whole rows are left, so that it stays one.
        let rows: Vec<u32> =
            rows.iter().filter(|row| row.iter().all(there)).flatten().copied().collect();
        let mut members = rows;
        if members.is_empty() {
            members = wished.iter().copied().filter(there).collect();
        }
        let width = config.mesh.as_ref().map_or(1, |mesh| mesh[0].len());
        if let Some(absent) = wished.iter().find(|worker| !there(worker)) {
            let (n, there) = (wished.len(), self.n_members);
            self.warn(if n > there as usize {
                format!("signal {name:?} names {n} workers, but {there} are connected")
            } else {
                format!(
                    "signal {name:?} names worker {absent}, but {there} are connected, from 0 on"
                )
            });
        }
        if members.is_empty() {
            members.push(0);
        }
        let width = if members.len().is_multiple_of(width) { width } else { 1 };
        let sizes = [members.len() / width, width];
        let n_axes = if config.mesh.is_some() { 2 } else { 1 };
        let mesh = Arc::new(Mesh::new(members, &sizes[..n_axes])?);
        Some(Arc::new(Scope { name: Arc::clone(name), mesh, config }))
    }

    /// The layout that a scope asks for a value of this type.
    pub(super) fn wish(&mut self, scope: &Scope, ty: &Type) -> Layout {
        let whole = Layout::whole(Arc::clone(&scope.mesh));
        if scope.config.replicated || scope.mesh.len() == 1 {
            return whole;
        }
        let axes = [Some(&scope.config.axis), scope.config.columns.as_ref()];
        let mut layout = whole;
        for (i, axis) in axes.into_iter().take(scope.mesh.sizes().len()).enumerate() {
            let Some(axis) = axis else { continue };
            let Some(dim) = axis_of(axis, ty) else {
                let name = &scope.name;
                self.warn(format!("signal {name:?}: {ty} has no axis {axis}, and stays whole"));
                continue;
            };
            // Of a vector both axes may be the same dimension, which is cut once.
            if !layout.splits(dim) {
                let chunk = ty.shape.sizes()[dim].div_ceil(scope.mesh.sizes()[i]);
                layout = layout.with(i, Spread::Split { dim: dim as u8, chunk });
            }
        }
        layout
    }

    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// The dimension of a type that an axis names.
pub(super) fn axis_of(axis: &ShardAxis, ty: &Type) -> Option<usize> {
    match axis {
        ShardAxis::Number(axis) => ty.shape.axis("shard", *axis).ok(),
        ShardAxis::Named(name) => ty.shape.dims().position(|dim| dim.name.as_str() == name),
    }
}
