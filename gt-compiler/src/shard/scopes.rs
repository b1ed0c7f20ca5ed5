//! Signals as the partitioner takes them: the open scopes of a segment, the mesh of the signal that
//! is heard, and the layout that it asks for.
//!
//! Of several signals the one with the lowest priority number is heard, then the innermost scope,
//! then the first use. A signal that loses by another rule than its nesting is named in a warning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gt_ir::layout::{Layout, Mesh, Spread};
use gt_ir::signal::{Reduction, ShardAxis, ShardConfig, Signals};
use gt_ir::{Loc, Type};

use super::Request;

/// A signal's sharding on the members that there are.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) name: Arc<str>,
    pub(super) mesh: Arc<Mesh>,
    pub(super) config: ShardConfig,
    /// The axis along which values are cut into micro-batches: its own, or that of a scope around.
    cut: Option<ShardAxis>,
}

/// Open signals that are not granted, by name.
pub(super) type Dropped = BTreeSet<Arc<str>>;

/// A signal, and the axis of the micro-batches around its scope.
type Around = (Arc<str>, Option<ShardAxis>);

/// The scopes that are open.
#[derive(Debug)]
pub(super) struct Scopes<'a> {
    signals: &'a Signals,
    n_members: u32,
    dropped: &'a Dropped,
    open: Vec<Option<Arc<Scope>>>,
    /// How many turns members take.
    turns: usize,
    known: BTreeMap<Around, Option<Arc<Scope>>>,
    /// Whether sums outside of configured scopes are pinned.
    pinned: bool,
    /// The pairs of a signal that is not heard and the signal that is.
    unheard: BTreeSet<[Arc<str>; 2]>,
    /// What was asked for and not granted, each once.
    pub(super) warnings: Vec<String>,
}

impl<'a> Scopes<'a> {
    pub(super) fn new(request: &Request<'a>, dropped: &'a Dropped, turns: usize) -> Scopes<'a> {
        let (signals, n_members) = (request.signals, request.n_members);
        let mut shards = signals.iter().filter_map(|(_, config)| config.shard.as_ref());
        Scopes {
            signals,
            n_members,
            dropped,
            open: Vec::new(),
            turns,
            known: BTreeMap::new(),
            pinned: shards.any(|shard| shard.reduction == Reduction::Pinned),
            unheard: BTreeSet::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn enter(&mut self, name: &Arc<str>) {
        let around = self.configured().find_map(|scope| scope.cut.clone());
        let key = (Arc::clone(name), around);
        let scope = match self.known.get(&key) {
            Some(scope) => scope.clone(),
            None => {
                let scope = self.resolve(name, key.1.clone());
                self.known.insert(key, scope.clone());
                scope
            }
        };
        self.open.push(scope);
    }

    pub(super) fn exit(&mut self) {
        self.open.pop();
    }

    /// The scope that is heard: of the configured ones with the lowest priority number the
    /// innermost.
    pub(super) fn current(&self) -> Option<Arc<Scope>> {
        heard(self.configured()).cloned()
    }

    /// The configured scopes, the innermost first.
    fn configured(&self) -> impl Iterator<Item = &Arc<Scope>> {
        self.open.iter().rev().flatten()
    }

    /// Whether sums of floats are computed as on one worker. Outside of configured scopes they are
    /// if any signal asks for it: gradients are recorded there.
    pub(super) fn pinned(&self) -> bool {
        self.current().map_or(self.pinned, |scope| scope.config.reduction == Reduction::Pinned)
    }

    /// A signal on the members that there are.
    fn resolve(&mut self, name: &Arc<str>, around: Option<ShardAxis>) -> Option<Arc<Scope>> {
        let config = self.signals.get(name)?.shard.clone()?;
        if self.dropped.contains(name) {
            return None;
        }
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
        let mesh = Mesh::new(members, &sizes[..n_axes])?;
        let mesh = Arc::new(mesh.in_turns(self.turns));
        let own = config.takes_turns().then(|| config.axis.clone());
        let cut = own.or(around).filter(|_| self.turns > 1);
        Some(Arc::new(Scope { name: Arc::clone(name), mesh, config, cut }))
    }

    /// The layout that a scope asks for a value of this type.
    pub(super) fn wish(&mut self, scope: &Scope, ty: &Type) -> Layout {
        let (layout, lacking) = scope.layout(ty);
        // An open signal is dropped without a word.
        for axis in lacking.into_iter().filter(|_| !scope.config.open) {
            let name = &scope.name;
            self.warn(format!("signal {name:?}: {ty} has no axis {axis}, and stays whole"));
        }
        layout
    }

    /// The layout that a scope asks for an upload of this type. What lives on is no batch, so it
    /// may be short.
    pub(super) fn wish_of_upload(&mut self, scope: &Scope, ty: &Type, lives_on: bool) -> Layout {
        if !lives_on && scope.is_short(ty) {
            let (name, turns) = (&scope.name, self.turns);
            self.warn(format!(
                "signal {name:?}: {ty} is too short for {turns} micro-batches, and stays whole"
            ));
        }
        self.wish(scope, ty)
    }

    /// Names the scopes that are closer to a value than the one that is heard.
    pub(super) fn overruled(&mut self, ty: &Type, loc: Loc) {
        let Some(winner) = heard(self.configured()) else { return };
        let closer = self.configured().take_while(|scope| !Arc::ptr_eq(scope, winner));
        let losers: Vec<Arc<Scope>> =
            closer.filter(|scope| scope.contradicts(winner, ty)).cloned().collect();
        let winner = Arc::clone(winner);
        for loser in losers {
            let why = format!("signal {:?} around it has the lower priority number", winner.name);
            self.lose(&loser, &winner, loc, &why);
        }
    }

    /// The scope of an upload that stands in none: of those in which it is used the one that is
    /// heard. Names those whose layout it does not get.
    pub(super) fn claimed(&mut self, claims: &[Claim], ty: &Type) -> Option<Arc<Scope>> {
        let winner = Arc::clone(heard(claims.iter().map(|claim| &claim.scope))?);
        let mut later = false;
        for Claim { scope, loc } in claims {
            if Arc::ptr_eq(scope, &winner) {
                later = true;
            } else if scope.contradicts(&winner, ty)
                // Other workers receive the value when they use it. Copies suit every use.
                && (!later || scope.mesh == winner.mesh && !winner.config.replicated)
            {
                let order = if later { "uses it first" } else { "has the lower priority number" };
                let why =
                    format!("the value {ty} is placed by signal {:?}, which {order}", winner.name);
                self.lose(scope, &winner, *loc, &why);
            }
        }
        Some(winner)
    }

    fn lose(&mut self, loser: &Scope, winner: &Scope, loc: Loc, why: &str) {
        let new = self.unheard.insert([Arc::clone(&loser.name), Arc::clone(&winner.name)]);
        if new && !loser.config.open {
            let place = if loc == Loc::NONE { String::new() } else { format!(" at {loc}") };
            let Scope { name, config, .. } = loser;
            self.warn(format!("signal {name:?} ({config}) is not heard{place}: {why}"));
        }
    }

    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// A use of an upload in a scope.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) scope: Arc<Scope>,
    pub(super) loc: Loc,
}

/// The first of the scopes with the lowest priority number.
fn heard<'a>(scopes: impl Iterator<Item = &'a Arc<Scope>>) -> Option<&'a Arc<Scope>> {
    scopes.min_by_key(|scope| scope.config.priority)
}

impl Scope {
    /// The layout that it asks for a value of this type, and the axes that the value lacks.
    fn layout(&self, ty: &Type) -> (Layout, Vec<&ShardAxis>) {
        let mut layout = Layout::whole(Arc::clone(&self.mesh));
        let mut lacking = Vec::new();
        let turns = self.mesh.turns();
        let spread = !self.config.replicated && self.mesh.len() > turns;
        let axes = [Some(&self.config.axis), self.config.columns.as_ref()];
        let n_axes = self.mesh.sizes().len() - usize::from(turns > 1);
        for (i, axis) in axes.into_iter().take(n_axes).enumerate().filter(|_| spread) {
            let Some(axis) = axis else { continue };
            let Some(dim) = axis_of(axis, ty) else {
                lacking.push(axis);
                continue;
            };
            // Of a vector both axes may be the same dimension, which is cut once.
            if !layout.splits(dim) {
                let chunk = ty.shape.sizes()[dim].div_ceil(self.mesh.sizes()[i]);
                layout = layout.with(i, Spread::Split { dim: dim as u8, chunk });
            }
        }
        if let Some(axis) = &self.cut {
            match axis_of(axis, ty) {
                Some(dim) => layout = in_turns(layout, dim, ty),
                None if lacking.contains(&axis) || !self.config.takes_turns() => {}
                None => lacking.push(axis),
            }
        }
        (layout, lacking)
    }

    /// Whether it cannot cut a value into micro-batches, because there are too few rows.
    fn is_short(&self, ty: &Type) -> bool {
        let (layout, _) = self.layout(ty);
        let has_axis = self.cut.as_ref().is_some_and(|axis| axis_of(axis, ty).is_some());
        has_axis && layout.spreads.last() == Some(&Spread::Whole)
    }

    /// Whether it asks for another layout of a value than another scope does. On the same workers a
    /// scope does not care about a value that lacks its axes.
    fn contradicts(&self, other: &Scope, ty: &Type) -> bool {
        let ((own, lacking), (others, _)) = (self.layout(ty), other.layout(ty));
        own != others && (self.mesh != other.mesh || lacking.is_empty())
    }
}

/// A layout in which each member's part of a dimension is cut into its turns, if there is an
/// element for each.
fn in_turns(layout: Layout, dim: usize, ty: &Type) -> Layout {
    let turns = layout.mesh.turns();
    let (first, end) = layout.region(0, &ty.shape)[dim];
    let last = layout.spreads.len() - 1;
    let chunk = (end - first).div_ceil(turns);
    match end - first < turns {
        true => layout,
        false => layout.with(last, Spread::Split { dim: dim as u8, chunk }),
    }
}

/// The dimension of a type that an axis names.
pub(super) fn axis_of(axis: &ShardAxis, ty: &Type) -> Option<usize> {
    match axis {
        ShardAxis::Number(axis) => ty.shape.axis("shard", *axis).ok(),
        ShardAxis::Named(name) => ty.shape.dims().position(|dim| dim.name.as_str() == name),
    }
}
