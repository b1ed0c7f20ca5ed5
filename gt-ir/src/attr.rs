//! What an op carries besides its operands. Attributes print and parse inside one pair of brackets,
//! without spaces: `sum[0,1,keep]`.
//!
//! Here are those that many ops share, `choices` has those of single ops, `matrices` those of
//! linear algebra, `windows` those of convolutions and their kin; `text` spells them.

mod choices;
mod matrices;
mod text;
mod windows;

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::shape::MAX_RANK;

pub use choices::{Attention, AttentionGrad, AttentionInput, Axes, Diagonal, Groups, Order};
pub use matrices::{Direction, Eigen, Extent, Spectrum, Triangle};
pub(crate) use text::print_list;
pub use windows::{Conv, Fold, Pool, Window};

/// An attribute's text form: `parse` reads exactly what `print` writes.
pub trait Attr: Copy {
    /// How the reference spells it, e.g. `axes`.
    const SYNTAX: &'static str;
    /// Writes the text between the brackets.
    ///
    /// # Errors
    /// Only those of the formatter.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    /// Reads the text between the brackets.
    fn parse(s: &str) -> Option<Self>;
    /// The axes it names, for attributes that name some.
    fn axes(&self) -> AxisSet {
        AxisSet::default()
    }
    /// The same without names of dimensions.
    #[must_use]
    fn unnamed(&self) -> Self {
        *self
    }
}

/// A set of axes, each below [`MAX_RANK`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AxisSet(u8);

impl AxisSet {
    /// The first `rank` axes.
    pub const fn all(rank: usize) -> AxisSet {
        AxisSet(((1u16 << rank) - 1) as u8)
    }

    /// Adds an axis; false when it was there already or cannot exist.
    pub fn insert(&mut self, axis: usize) -> bool {
        let fresh = axis < MAX_RANK && !self.contains(axis);
        if fresh {
            self.0 |= 1 << axis;
        }
        fresh
    }

    /// Whether `axis` is in the set.
    pub const fn contains(self, axis: usize) -> bool {
        axis < MAX_RANK && self.0 >> axis & 1 == 1
    }

    /// The axes in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> + Clone {
        (0..MAX_RANK).filter(move |&a| self.contains(a))
    }

    /// Number of axes.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set holds no axis.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for AxisSet {
    fn from_iter<I: IntoIterator<Item = usize>>(axes: I) -> Self {
        let mut set = AxisSet::default();
        axes.into_iter().for_each(|a| {
            set.insert(a);
        });
        set
    }
}

/// Whether a reduction leaves its axes behind with size 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Keep {
    /// The axes disappear.
    #[default]
    No,
    /// The axes stay, with size 1.
    Yes,
}

/// The axes a reduction runs over: `0,1` or `0,1,keep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reduce {
    /// The reduced axes; none reduces nothing.
    pub axes: AxisSet,
    /// Whether they stay with size 1.
    pub keep: Keep,
}

/// One axis of the operand: `1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Axis(pub u8);

/// One reduced axis: `1` or `1,keep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReduceOne {
    /// The reduced axis.
    pub axis: u8,
    /// Whether it stays with size 1.
    pub keep: Keep,
}

/// Two axes to exchange: `0,1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Swap(pub u8, pub u8);

/// An order of all axes: result axis `i` is operand axis `axes[i]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "SmallVec<[usize; MAX_RANK]>", into = "SmallVec<[usize; MAX_RANK]>")]
pub struct Perm {
    axes: [u8; MAX_RANK],
    rank: u8,
}

impl Perm {
    /// A permutation, or `None` when `axes` is not one of `0..axes.len()`.
    pub fn new(axes: &[usize]) -> Option<Perm> {
        let mut perm = Perm { axes: [0; MAX_RANK], rank: axes.len() as u8 };
        let mut seen = AxisSet::default();
        if axes.len() > MAX_RANK || !axes.iter().all(|&a| a < axes.len() && seen.insert(a)) {
            return None;
        }
        axes.iter().zip(&mut perm.axes).for_each(|(&a, p)| *p = a as u8);
        Some(perm)
    }

    /// The exchange of two axes among `rank`.
    pub fn swap(rank: usize, a: usize, b: usize) -> Option<Perm> {
        let mut axes: SmallVec<[usize; MAX_RANK]> = (0..rank).collect();
        (a < rank && b < rank).then(|| axes.swap(a, b))?;
        Perm::new(&axes)
    }

    /// Number of axes.
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The operand axis of each result axis.
    pub fn axes(&self) -> impl ExactSizeIterator<Item = usize> + Clone + '_ {
        self.axes[..self.rank()].iter().map(|&a| a as usize)
    }

    /// The permutation that undoes this one.
    #[must_use]
    pub fn inverse(&self) -> Perm {
        let mut inverse = *self;
        self.axes().enumerate().for_each(|(i, a)| inverse.axes[a] = i as u8);
        inverse
    }
}

impl From<Perm> for SmallVec<[usize; MAX_RANK]> {
    fn from(perm: Perm) -> Self {
        perm.axes().collect()
    }
}

impl TryFrom<SmallVec<[usize; MAX_RANK]>> for Perm {
    type Error = &'static str;
    fn try_from(axes: SmallVec<[usize; MAX_RANK]>) -> Result<Perm, &'static str> {
        Perm::new(&axes).ok_or("not a permutation")
    }
}

impl fmt::Debug for Perm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// A strided range of one axis: `axis,start,stop,step`, elements `start, start+step, ..` below
/// `stop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// The axis.
    pub axis: u8,
    /// First index taken.
    pub start: u64,
    /// Index the range ends before; at most the size.
    pub stop: u64,
    /// Distance between indices; at least 1.
    pub step: u64,
}

impl Slice {
    /// Number of elements taken.
    pub const fn len(&self) -> u64 {
        if self.stop > self.start { (self.stop - self.start).div_ceil(self.step) } else { 0 }
    }

    /// Whether no element is taken.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Padding of one axis: `axis,lo,hi,interior`: `lo` values before, `hi` after, `interior` between
/// neighbours (XLA's pad).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pad {
    /// The axis.
    pub axis: u8,
    /// Values put before the first element.
    pub lo: u64,
    /// Values put after the last element.
    pub hi: u64,
    /// Values put between neighbours.
    pub interior: u64,
}

impl Pad {
    /// The padded size of an axis of `size` elements, or `None` when it overflows.
    pub fn padded(&self, size: usize) -> Option<usize> {
        let gaps = (size as u64).saturating_sub(1).checked_mul(self.interior)?;
        let sum = (size as u64).checked_add(gaps)?.checked_add(self.lo)?.checked_add(self.hi)?;
        usize::try_from(sum).ok()
    }
}

/// Number of classes of a one-hot code: `10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Classes(pub u64);

/// Number of trailing dimensions an op works over: `1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Trailing(pub u8);
