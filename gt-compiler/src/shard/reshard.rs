//! Changes of layout. A value moves box by box: each member receives the elements that it lacks
//! from a member that has them. Partial results are first reduced: each member combines one part of
//! all addends, in the order of the members, and the parts are then gathered (reduce-scatter and
//! all-gather, which send `2 (n - 1) / n` times the value). Each of `n` members would exchange
//! messages with all others, so many members combine and gather in groups and across groups.

use gt_ir::layout::{Combine, Layout, Region, Spread};
use gt_ir::{Op, OpError, Type};
use smallvec::SmallVec;

use super::lanes::{Arg, Lanes, Name, Piece};
use super::turns::Moment;

/// A value in one layout: the name of each rank's part.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) layout: Layout,
    pub(super) names: SmallVec<[Name; 4]>,
}

/// Elements below which each member combines all addends by itself.
const SMALL: usize = 1024;

/// Whether each of `n` members combines all addends by itself, in one exchange instead of two: if
/// they are small, and if there are two, who send as much either way.
pub(super) fn is_direct(ty: &Type, n: usize) -> bool {
    n <= 2 || ty.shape.numel() < SMALL
}

/// The most members that exchange messages with all others.
pub(super) const GROUP: usize = 8;

/// The size of the groups in which so many members combine, if they do.
pub(super) fn group(n: usize) -> Option<usize> {
    (2..=GROUP).rev().find(|size| n > GROUP && n.is_multiple_of(*size))
}

/// How a sum along an axis of the mesh becomes parts at once: it is to be split along the axis, in
/// a dimension that is not split yet.
pub(super) fn scattered(from: &Layout, to: &Layout, axis: usize) -> Option<Spread> {
    let spread = to.spreads.get(axis).copied().filter(|_| from.mesh == to.mesh)?;
    match spread {
        Spread::Split { dim, .. } => {
            let cuts =
                |spread: &&Spread| matches!(spread, Spread::Split { dim: d, .. } if *d == dim);
            let once = to.spreads.iter().filter(cuts).count() == 1;
            (once && !from.splits(usize::from(dim))).then_some(spread)
        }
        Spread::Whole | Spread::Partial(_) => None,
    }
}

impl Version {
    pub(super) fn member(&self, rank: usize) -> u32 {
        self.layout.mesh.members()[rank]
    }

    /// The same without turns, in which members have the same.
    pub(super) fn at_once(&self) -> Version {
        let names = self.names.iter().step_by(self.layout.mesh.turns()).copied();
        Version { layout: self.layout.at_once(), names: names.collect() }
    }

    fn pieces(&self, ty: &Type) -> Vec<Piece> {
        let piece = |(rank, &name): (usize, &Name)| Piece {
            member: self.member(rank),
            name,
            region: self.layout.region(rank, &ty.shape),
        };
        self.names.iter().enumerate().map(piece).collect()
    }
}

/// The axes of a layout in the order in which partial results along them are combined: what a
/// member has added up over its turns travels once.
fn combining(layout: &Layout) -> impl Iterator<Item = usize> {
    let n = layout.spreads.len();
    let turns = n.checked_sub(1).filter(|&last| layout.mesh.is_turns(last));
    turns.into_iter().chain(0..n - usize::from(turns.is_some()))
}

impl Lanes {
    /// The moment at which all members have a value. It has no turn.
    pub(super) fn moment(&self, version: &Version) -> Moment {
        let names = version.layout.mesh.members().iter().zip(&version.names);
        let moments = names.map(|(&member, &name)| self.all[self.place(member)].local(name).moment);
        Moment { turn: 0, ..moments.fold(Moment::default(), Moment::max) }
    }

    /// A value that members have before the segment begins, in all turns.
    pub(super) fn hold(&mut self, number: u32, ty: &Type, layout: &Layout) -> Version {
        let layout = layout.at_once().in_turns(self.turns.n);
        let members = layout.mesh.members();
        let ranks = self.ranks(&layout.mesh);
        let names = ranks.map(|at| self.given(members[at], number, layout.local(at, ty))).collect();
        Version { names: self.at_all(&layout.mesh, names), layout }
    }

    /// A value in another layout.
    pub(super) fn reshard(
        &mut self,
        from: &Version,
        to: &Layout,
        ty: &Type,
    ) -> Result<Version, OpError> {
        self.begin();
        let mut version = from.clone();
        self.leaves = self.turns.n > 1 && from.layout.mesh != to.mesh;
        for axis in combining(&from.layout) {
            let same = from.layout.mesh == to.mesh
                && from.layout.spreads[axis]
                    == to.spreads.get(axis).copied().unwrap_or(Spread::Whole);
            if let (Spread::Partial(combine), false) = (version.layout.spreads[axis], same) {
                let part = scattered(&version.layout, to, axis);
                version = self.reduce(&version, (axis, part), combine, ty)?;
            }
        }
        if version.layout == *to {
            return Ok(version);
        }
        if let Some((axis, rows)) = in_rows(&version.layout, to) {
            let gathered = self.reshard(&version, &rows, ty)?;
            let names = self.reshard(&gathered, &rows.with(axis, Spread::Whole), ty)?.names;
            return Ok(Version { layout: to.clone(), names });
        }
        let pieces = version.pieces(ty);
        let mut names = SmallVec::new();
        for rank in self.ranks(&to.mesh) {
            let member = to.mesh.members()[rank];
            self.at_rank(&to.mesh, rank);
            names.push(if is_zero(&version.layout, to, rank) {
                self.zeros(member, to.local(rank, ty))?
            } else {
                let mesh = &version.layout.mesh;
                // In turns a member stands at several places.
                let own = mesh.rank_of(member).filter(|_| mesh.turns() == 1);
                let near = (0..pieces.len())
                    .filter(|&from| same_addend(&version.layout, to, (from, rank)))
                    .filter(|&from| own.is_none_or(|own| same_copy(&version.layout, from, own)));
                let near: Vec<Piece> = near.map(|from| pieces[from].clone()).collect();
                self.assemble(member, &to.region(rank, &ty.shape), &near)?
            });
        }
        self.floor.turn = 0;
        Ok(Version { layout: to.clone(), names: self.at_all(&to.mesh, names) })
    }

    /// Partial results along one axis of the mesh, combined: each member's part as it is asked for,
    /// else the whole on each member, or parts of it that are gathered later.
    fn reduce(
        &mut self,
        from: &Version,
        (axis, part): (usize, Option<Spread>),
        combine: Combine,
        ty: &Type,
    ) -> Result<Version, OpError> {
        let mesh = &from.layout.mesh;
        let in_turns = mesh.is_turns(axis);
        let rows = group(mesh.sizes()[axis]).filter(|_| part.is_none() && !in_turns);
        if let Some(layout) = rows.and_then(|n| from.layout.in_rows(axis, n)) {
            let names = self.reduce_by_groups(from, (axis, layout), combine, ty)?;
            return Ok(Version { layout: from.layout.with(axis, Spread::Whole), names });
        }
        let widest = || from.layout.widest(axis, &ty.shape);
        let direct = in_turns || is_direct(ty, mesh.sizes()[axis]);
        let part = part.or_else(|| if direct { None } else { widest() });
        let layout = from.layout.with(axis, part.unwrap_or(Spread::Whole));
        let rows = group(mesh.sizes()[axis]).filter(|_| !in_turns);
        let rows = rows.and_then(|n| layout.gathered_in_rows(axis, n));
        let across;
        let (from, axis) = match rows {
            Some(rows) => {
                across = self.reduce_across_rows(from, (axis, &rows), combine, ty)?;
                (&across, axis + 1)
            }
            None => (from, axis),
        };
        let mut names = SmallVec::new();
        for rank in self.ranks(mesh) {
            self.at_rank(mesh, rank);
            let region = layout.region(rank, &ty.shape);
            names.push(self.combined(from, (rank, axis), &region, combine, ty)?);
        }
        self.floor.turn = 0;
        Ok(Version { names: self.at_all(mesh, names), layout })
    }

    /// Partial results along an axis that `layout` has as two, combined: along the second, then
    /// along the first. Parts that this leaves are gathered in the opposite order.
    fn reduce_by_groups(
        &mut self,
        from: &Version,
        (axis, layout): (usize, Layout),
        combine: Combine,
        ty: &Type,
    ) -> Result<SmallVec<[Name; 4]>, OpError> {
        let mut version = Version { layout, names: from.names.clone() };
        for axis in [axis + 1, axis] {
            version = self.reduce(&version, (axis, None), combine, ty)?;
        }
        for axis in [axis, axis + 1] {
            if version.layout.spreads[axis] != Spread::Whole {
                let whole = version.layout.with(axis, Spread::Whole);
                version = self.reshard(&version, &whole, ty)?;
            }
        }
        Ok(version.names)
    }

    /// Partial results along an axis, combined by the members at the same place of each row: what
    /// remains is partial along the rows. `rows` is the layout in which each row has its part. Many
    /// rows combine in groups again.
    fn reduce_across_rows(
        &mut self,
        from: &Version,
        (axis, rows): (usize, &Layout),
        combine: Combine,
        ty: &Type,
    ) -> Result<Version, OpError> {
        let partial = rows.with(axis + 1, Spread::Partial(combine));
        let addends = partial.with(axis, Spread::Partial(combine));
        let addends = Version { layout: addends, names: from.names.clone() };
        let part = Some(rows.spreads[axis]);
        let combined = self.reduce(&addends, (axis, part), combine, ty)?;
        Ok(Version { names: combined.names, layout: partial })
    }

    /// One box of all addends along an axis, combined at a rank.
    fn combined(
        &mut self,
        from: &Version,
        (rank, axis): (usize, usize),
        region: &Region,
        combine: Combine,
        ty: &Type,
    ) -> Result<Name, OpError> {
        let mesh = &from.layout.mesh;
        let mut sum = None;
        for at in 0..mesh.sizes()[axis] {
            let other = mesh.moved(rank, axis, at);
            let piece = Piece {
                member: from.member(other),
                name: from.names[other],
                region: from.layout.region(other, &ty.shape),
            };
            let part = self.slice(&piece, region)?;
            let part = self.send(piece.member, part, from.member(rank));
            sum = Some(match sum {
                None => part,
                Some(sum) => {
                    let op = match combine {
                        Combine::Sum => Op::Add,
                        Combine::Max => Op::Maximum,
                        Combine::Min => Op::Minimum,
                    };
                    self.instr(from.member(rank), op, &[Arg::Value(sum), Arg::Value(part)])?
                }
            });
        }
        sum.ok_or_else(|| OpError::new("internal: a mesh without members"))
    }
}

/// Whether a rank holds zeros of a value that becomes a sum along axes of its mesh: the first
/// member along each of them holds the value.
pub(super) fn is_zero(from: &Layout, to: &Layout, rank: usize) -> bool {
    (0..to.spreads.len()).any(|axis| {
        let before = if from.mesh == to.mesh { from.spreads[axis] } else { Spread::Whole };
        let partial = matches!(to.spreads[axis], Spread::Partial(_));
        partial && before != to.spreads[axis] && to.mesh.coordinate(rank, axis) != 0
    })
}

/// The layout after the first of two exchanges by which many members gather what they hold in
/// parts: in groups, and then across groups, which stand along the axis of the mesh. Many groups
/// gather in groups again.
fn in_rows(from: &Layout, to: &Layout) -> Option<(usize, Layout)> {
    if from.mesh != to.mesh || from.is_partial() || to.is_partial() {
        return None;
    }
    let gathers = |axis: &usize| from.spreads[*axis] != to.spreads[*axis];
    let mut changed = (0..from.spreads.len()).filter(gathers);
    let (axis, None) = (changed.next()?, changed.next()) else { return None };
    let n = group(from.mesh.sizes()[axis]).filter(|_| to.spreads[axis] == Spread::Whole)?;
    Some((axis, from.gathered_in_rows(axis, n)?))
}

/// Whether two ranks stand at the same place along all axes along which members have copies, so
/// that each of them is asked by as many.
fn same_copy(layout: &Layout, a: usize, b: usize) -> bool {
    let mesh = &layout.mesh;
    (0..layout.spreads.len()).all(|axis| {
        let copies = layout.spreads[axis] == Spread::Whole;
        !copies || mesh.coordinate(a, axis) == mesh.coordinate(b, axis)
    })
}

/// Whether two ranks stand at the same place along all axes that are partial before and after, so
/// that they hold parts of the same addend.
fn same_addend(from: &Layout, to: &Layout, (source, rank): (usize, usize)) -> bool {
    from.mesh != to.mesh
        || (0..to.spreads.len()).all(|axis| {
            let partial = matches!(from.spreads[axis], Spread::Partial(_));
            let mesh = &to.mesh;
            !partial || mesh.coordinate(source, axis) == mesh.coordinate(rank, axis)
        })
}
