//! Factors: which dimensions of an op's operands and result belong together.
//!
//! A rule of the op table describes an op as an einsum does, `(i,k),(k,j)->(i,j)`: each factor is
//! an index that runs through some dimensions of operands and result. If all operands are split
//! along a factor, each part of the result depends on the same part of the operands only (Shardy's
//! sharding rules). A factor that the result lacks is *contracted*: the parts give partial results.
//!
//! Where a dimension has no factor, an op needs all of its elements at once.

use smallvec::SmallVec;

use crate::layout::Combine;

/// The factor of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The factor's number.
    pub factor: u8,
    /// Elements of the factor for each element of the dimension: more than 1 where a reshape
    /// merges the dimension with others behind it.
    pub unit: usize,
}

/// The factors of a tensor's dimensions.
pub type Links = SmallVec<[Option<Link>; 4]>;

/// In which operands an op is linear, so that partial sums may pass through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linear {
    /// In none.
    #[default]
    No,
    /// In the first, with all others whole.
    First,
    /// In all together: the sum of results is the result of sums.
    Together,
    /// In each alone, with all others whole: a product.
    Each,
}

/// How an op may be computed by parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// The factors of each operand's dimensions; a literal has none.
    pub operands: SmallVec<[Links; 3]>,
    /// The factors of the result's dimensions.
    pub result: Links,
    /// How results combine where a contracted factor is split; none where there is no such factor.
    pub combine: Option<Combine>,
    /// In which operands the op is linear.
    pub linear: Linear,
    /// The operand that is added to the rest: partial itself where a contracted factor is split.
    pub addend: Option<usize>,
}

impl Factors {
    /// The dimension of a tensor that has a factor, with the elements of the factor for each of
    /// its elements.
    #[must_use]
    pub fn find(links: &Links, factor: u8) -> Option<(usize, usize)> {
        let at = links.iter().position(|link| link.is_some_and(|link| link.factor == factor))?;
        links[at].map(|link| (at, link.unit))
    }

    /// The factors of all operands and the result, each once, in order.
    #[must_use]
    pub fn all(&self) -> SmallVec<[u8; 8]> {
        let links = self.operands.iter().flatten().chain(&self.result);
        let mut all: SmallVec<[u8; 8]> = links.flatten().map(|link| link.factor).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Link {
    /// A dimension that is a factor by itself.
    #[must_use]
    pub const fn to(factor: usize) -> Option<Link> {
        Some(Link { factor: factor as u8, unit: 1 })
    }
}
