//! Layouts: which part of a tensor each member of a group of workers holds.
//!
//! A [`Mesh`] arranges members in a grid. A [`Layout`] says for each axis of the grid whether the
//! members along it hold the same elements, consecutive parts of one dimension, or addends
//! (DTensor's replicate, shard and partial; GSPMD's tilings). Parts may be uneven: every part but
//! the last ones has `chunk` elements, and the last ones may be shorter or empty.
//!
//! The last axis of a mesh may be one of *turns*: the members do the work of its places one after
//! the other, such as micro-batches. A layout is the same for places in time as for members.
//!
//! Plain data: nothing here says how a value gets from one layout to another.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::shape::{Dim, MAX_RANK, Shape, Type};

/// The most axes of a mesh.
pub const MAX_MESH_AXES: usize = 5;

/// A grid of members, each named by its number in the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    members: Vec<u32>,
    sizes: SmallVec<[usize; 2]>,
    /// The size of the last axis, if it is one of turns; otherwise 1.
    turns: usize,
}

/// How partial results combine to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Combine {
    /// They are added, in the order of the members.
    Sum,
    /// The largest, or NaN if there is one.
    Max,
    /// The smallest, or NaN if there is one.
    Min,
}

/// What the members along one axis of a mesh hold of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spread {
    /// The same elements.
    Whole,
    /// Consecutive parts of a dimension: member `i` the elements from `i * chunk` on.
    Split {
        /// The dimension.
        dim: u8,
        /// Elements of a part; the last parts may be shorter or empty.
        chunk: usize,
    },
    /// A tensor each, of which the whole is the combination.
    Partial(Combine),
}

/// Which part of a tensor each member of a mesh holds.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The members that hold anything of it.
    pub mesh: Arc<Mesh>,
    /// One entry for each axis of the mesh. If several of them split the same dimension, a later
    /// one splits the parts of those before it.
    pub spreads: SmallVec<[Spread; 2]>,
}

/// A box of a tensor's elements: the first and the end along each dimension.
pub type Region = SmallVec<[(usize, usize); MAX_RANK]>;

impl Mesh {
    /// A grid of members in row-major order; `None` unless its sizes are positive, at most
    /// [`MAX_MESH_AXES`] and have the members' number as product, and no member stands in it twice.
    #[must_use]
    pub fn new(members: Vec<u32>, sizes: &[usize]) -> Option<Mesh> {
        let n = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size));
        let mut sorted = members.clone();
        sorted.sort_unstable();
        let distinct = sorted.windows(2).all(|pair| pair[0] != pair[1]);
        let fits = (1..=MAX_MESH_AXES).contains(&sizes.len()) && !members.is_empty();
        (fits && distinct && n == Some(members.len())).then(|| Mesh {
            members,
            sizes: sizes.into(),
            turns: 1,
        })
    }

    /// A mesh of one member.
    #[must_use]
    pub fn single(member: u32) -> Mesh {
        Mesh { members: vec![member], sizes: SmallVec::from_slice(&[1]), turns: 1 }
    }

    /// The same grid, in which each member takes so many turns: these are its last axis.
    #[must_use]
    pub fn in_turns(&self, n: usize) -> Mesh {
        if n <= 1 || self.turns > 1 {
            return self.clone();
        }
        let members = self.members.iter().flat_map(|&member| std::iter::repeat_n(member, n));
        let sizes = self.sizes.iter().copied().chain([n]).collect();
        Mesh { members: members.collect(), sizes, turns: n }
    }

    /// The same grid without turns.
    #[must_use]
    pub fn at_once(&self) -> Mesh {
        let mut sizes = self.sizes.clone();
        if self.turns > 1 {
            sizes.pop();
        }
        let members = self.members.iter().step_by(self.turns).copied().collect();
        Mesh { members, sizes, turns: 1 }
    }

    /// How many turns each member takes.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.turns
    }

    /// The turn of a rank, from 0 on.
    #[must_use]
    pub fn turn(&self, rank: usize) -> usize {
        rank % self.turns
    }

    /// Whether an axis is the one of turns.
    #[must_use]
    pub fn is_turns(&self, axis: usize) -> bool {
        self.turns > 1 && axis + 1 == self.sizes.len()
    }

    /// The members, in row-major order: a member's place in it is its rank. A member that takes
    /// several turns has a rank for each of them.
    #[must_use]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// How many ranks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no rank, which [`Mesh::new`] does not allow.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The size of each axis.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The rank of a member, in its first turn.
    #[must_use]
    pub fn rank_of(&self, member: u32) -> Option<usize> {
        self.members.iter().position(|&m| m == member)
    }

    /// Where a rank stands along an axis.
    #[must_use]
    pub fn coordinate(&self, rank: usize, axis: usize) -> usize {
        rank / self.stride(axis) % self.sizes[axis]
    }

    /// The rank at another place along an axis.
    #[must_use]
    pub fn moved(&self, rank: usize, axis: usize, to: usize) -> usize {
        rank + to * self.stride(axis) - self.coordinate(rank, axis) * self.stride(axis)
    }

    fn stride(&self, axis: usize) -> usize {
        self.sizes[axis + 1..].iter().product()
    }
}

impl Layout {
    /// All of the tensor on each member.
    #[must_use]
    pub fn whole(mesh: Arc<Mesh>) -> Layout {
        let spreads = SmallVec::from_elem(Spread::Whole, mesh.sizes().len());
        Layout { mesh, spreads }
    }

    /// The same with another entry for one axis of the mesh.
    #[must_use]
    pub fn with(&self, axis: usize, spread: Spread) -> Layout {
        let mut layout = self.clone();
        layout.spreads[axis] = spread;
        layout
    }

    /// The same with an axis of the mesh as two: the members along it stand in rows of `n`. None if
    /// they do not, if the axis splits a dimension, or if the mesh would have too many axes.
    #[must_use]
    pub fn in_rows(&self, axis: usize, n: usize) -> Option<Layout> {
        let splits = matches!(self.spreads[axis], Spread::Split { .. });
        let (mut sizes, mut spreads) = (self.mesh.sizes.clone(), self.spreads.clone());
        if n == 0 || !sizes[axis].is_multiple_of(n) || splits {
            return None;
        }
        sizes[axis] /= n;
        sizes.insert(axis + 1, n);
        spreads.insert(axis + 1, spreads[axis]);
        let Mesh { members, turns, .. } = &*self.mesh;
        let mesh = Mesh { members: members.clone(), sizes, turns: *turns };
        (mesh.sizes.len() <= MAX_MESH_AXES).then(|| Layout { mesh: Arc::new(mesh), spreads })
    }

    /// The same where each member takes so many turns, and has the same in all of them.
    #[must_use]
    pub fn in_turns(&self, n: usize) -> Layout {
        if n <= 1 || self.mesh.turns > 1 {
            return self.clone();
        }
        let spreads = self.spreads.iter().copied().chain([Spread::Whole]).collect();
        Layout { mesh: Arc::new(self.mesh.in_turns(n)), spreads }
    }

    /// What members have after all turns: all that they have in each of them.
    #[must_use]
    pub fn at_once(&self) -> Layout {
        let mut layout = self.clone();
        if self.mesh.turns > 1 {
            layout.mesh = Arc::new(self.mesh.at_once());
            layout.spreads.pop();
        }
        layout
    }

    /// The layout after the members along an axis, who stand in rows of `n`, have gathered within
    /// their rows what the axis splits. None if they do not stand so, or the axis splits nothing.
    #[must_use]
    pub fn gathered_in_rows(&self, axis: usize, n: usize) -> Option<Layout> {
        let Spread::Split { dim, chunk } = self.spreads[axis] else { return None };
        let rows = self.with(axis, Spread::Whole).in_rows(axis, n)?;
        Some(rows.with(axis, Spread::Split { dim, chunk: chunk.checked_mul(n)? }))
    }

    /// Whether each member has all elements.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.spreads.iter().all(|spread| *spread == Spread::Whole)
    }

    /// Whether a dimension is split along an axis of the mesh.
    #[must_use]
    pub fn splits(&self, dim: usize) -> bool {
        self.spreads.iter().any(|spread| match *spread {
            Spread::Split { dim: split, .. } => usize::from(split) == dim,
            Spread::Whole | Spread::Partial(_) => false,
        })
    }

    /// Parts of the largest dimension that is not split yet for the members along an axis of the
    /// mesh, at least one element each; of several such dimensions the first, whose parts lie
    /// together in memory.
    #[must_use]
    pub fn widest(&self, axis: usize, shape: &Shape) -> Option<Spread> {
        let (n, sizes) = (self.mesh.sizes()[axis], shape.sizes());
        let free = (0..sizes.len()).filter(|&dim| !self.splits(dim) && sizes[dim] >= n);
        let dim = free.rev().max_by_key(|&dim| sizes[dim])?;
        Some(Spread::Split { dim: dim as u8, chunk: sizes[dim].div_ceil(n) })
    }

    /// The layout in which partial results have been combined on each member.
    #[must_use]
    pub fn combined(&self) -> Layout {
        let whole = |spread: &Spread| match *spread {
            Spread::Partial(_) => Spread::Whole,
            Spread::Whole | Spread::Split { .. } => *spread,
        };
        let spreads = self.spreads.iter().map(whole).collect();
        Layout { mesh: Arc::clone(&self.mesh), spreads }
    }

    /// Whether members hold partial results.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.spreads.iter().any(|spread| matches!(spread, Spread::Partial(_)))
    }

    /// The elements that a rank holds of a tensor, or of whose combination it holds a part.
    #[must_use]
    pub fn region(&self, rank: usize, shape: &Shape) -> Region {
        let mut region: Region = shape.sizes().iter().map(|&size| (0, size)).collect();
        for (axis, spread) in self.spreads.iter().enumerate() {
            if let Spread::Split { dim, chunk } = *spread {
                let (at, (first, end)) = (self.mesh.coordinate(rank, axis), region[dim as usize]);
                let bound = |i: usize| first.saturating_add(i.saturating_mul(chunk)).min(end);
                region[dim as usize] = (bound(at), bound(at + 1));
            }
        }
        region
    }

    /// The type of what a rank holds of a tensor, without names of dimensions.
    #[must_use]
    pub fn local(&self, rank: usize, ty: &Type) -> Type {
        boxed(ty, &self.region(rank, &ty.shape))
    }
}

/// The type of a box of a tensor, without names of dimensions.
#[must_use]
pub fn boxed(ty: &Type, region: &[(usize, usize)]) -> Type {
    let dims = region.iter().map(|(first, end)| Dim::new(end - first));
    // No dimension is larger than the tensor's, so the shape is within the limits.
    Type::new(ty.dtype, Shape::collect(dims).unwrap_or(ty.shape))
}

impl fmt::Display for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Combine::Sum => "sum",
            Combine::Max => "max",
            Combine::Min => "min",
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spread::Whole => f.write_str("whole"),
            Spread::Split { dim, chunk } => write!(f, "split {dim} by {chunk}"),
            Spread::Partial(combine) => write!(f, "partial {combine}"),
        }
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.sizes.last().copied().unwrap_or(1);
        for (i, row) in self.members.chunks(width).enumerate() {
            let members: Vec<String> = row.iter().map(u32::to_string).collect();
            write!(f, "{}{}", if i == 0 { "" } else { " | " }, members.join(","))?;
        }
        Ok(())
    }
}

/// `split 0 by 32 on 0,1,2,3`, or `split 0 by 32 x split 0 by 8 in 4 turns on 0,1,2,3`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mesh = self.mesh.at_once();
        for (i, spread) in self.spreads.iter().enumerate() {
            match self.mesh.is_turns(i) {
                true if *spread == Spread::Whole => {}
                true => write!(f, " x {spread} in {} turns", self.mesh.turns)?,
                false => write!(f, "{}{spread}", if i == 0 { "" } else { " x " })?,
            }
        }
        write!(f, " on {mesh}")
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(sizes: &[usize]) -> Arc<Mesh> {
        let n: usize = sizes.iter().product();
        Arc::new(Mesh::new((0..n as u32).collect(), sizes).unwrap())
    }

    #[test]
    fn meshes_are_grids_of_distinct_members() {
        assert!(Mesh::new(vec![0, 1, 1, 2], &[2, 2]).is_none());
        assert!(Mesh::new(vec![0, 1, 2], &[2, 2]).is_none());
        assert!(Mesh::new(vec![], &[0]).is_none());
        let mesh = mesh(&[2, 3]);
        for rank in 0..6 {
            assert_eq!((mesh.coordinate(rank, 0), mesh.coordinate(rank, 1)), (rank / 3, rank % 3));
            assert_eq!(mesh.moved(rank, 0, 1), 3 + rank % 3);
            assert_eq!(mesh.moved(rank, 1, 2), rank / 3 * 3 + 2);
        }
    }

    /// Regions of a layout without partial results cover a tensor, each element as often as the
    /// layout repeats it.
    #[test]
    fn regions_cover_the_tensor() {
        for (size, chunk) in [(10, 3), (3, 1), (0, 1), (8, 2), (7, 7)] {
            let layout = Layout::whole(mesh(&[2, 4])).with(1, Spread::Split { dim: 1, chunk });
            let shape = Shape::new(&[5, size]).unwrap();
            let mut times = vec![0; size];
            for rank in 0..8 {
                let region = layout.region(rank, &shape);
                assert_eq!(region[0], (0, 5));
                times[region[1].0..region[1].1].iter_mut().for_each(|n| *n += 1);
            }
            assert!(times.iter().all(|&n| n == 2), "{size} by {chunk}");
        }
    }

    /// Turns cut the part of each member, and together have what it has.
    #[test]
    fn turns_cut_the_part_of_each_member() {
        let chunk = 5;
        let held = Layout::whole(mesh(&[2])).with(0, Spread::Split { dim: 0, chunk });
        let shape = Shape::new(&[9]).unwrap();
        let in_turns = held.in_turns(3);
        assert_eq!(in_turns.mesh.members(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(in_turns.to_string(), held.to_string());
        let cut = in_turns.with(1, Spread::Split { dim: 0, chunk: 2 });
        let regions = (0..6).map(|rank| cut.region(rank, &shape)[0]);
        assert_eq!(regions.collect::<Vec<_>>(), [(0, 2), (2, 4), (4, 5), (5, 7), (7, 9), (9, 9)]);
        assert_eq!(cut.to_string(), "split 0 by 5 x split 0 by 2 in 3 turns on 0,1");
        assert_eq!(cut.at_once(), held);
        assert_eq!([0, 4, 5].map(|rank| cut.mesh.turn(rank)), [0, 1, 2]);
    }
}
