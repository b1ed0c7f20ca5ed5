//! Attributes of single ops: diagonals, sets of axes, groups, kinds of attention. Their text forms
//! are as strict as those of the others.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::{axis, exactly, numbers, print_list};
use super::{Attr, AxisSet};

/// A diagonal of a matrix: `0` the main one, positive ones above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Diagonal(pub i64);

/// Some axes: `0,2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Axes(pub AxisSet);

/// Number of groups that channels are cut into: `4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Groups(pub u64);

/// An axis to order, and which end comes first: `1` or `1,descending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Order {
    /// The axis.
    pub axis: u8,
    /// The largest first.
    pub descending: bool,
}

/// Where attention may be paid: `full` or `causal`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Attention {
    /// To all positions.
    #[default]
    Full,
    /// To no position after one's own.
    Causal,
}

/// An operand of attention that has a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AttentionInput {
    /// What asks.
    Query,
    /// What it is compared with.
    Key,
    /// What it gets.
    Value,
}

/// The gradient of attention for one of its operands: `causal,key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttentionGrad {
    /// Where attention was paid.
    pub kind: Attention,
    /// The operand whose gradient it is.
    pub of: AttentionInput,
}

/// `tril[-1]`: the only attribute with negative numbers.
impl Attr for Diagonal {
    const SYNTAX: &'static str = "diagonal";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn parse(s: &str) -> Option<Self> {
        match numbers::<i64>(s)?.as_slice() {
            [n] => Some(Diagonal(*n)),
            _ => None,
        }
    }
}

/// `flip[0,2]`, or `flip[]`, which changes nothing.
impl Attr for Axes {
    const SYNTAX: &'static str = "axis,..";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_list(f, self.0.iter())
    }
    fn parse(s: &str) -> Option<Self> {
        let mut axes = AxisSet::default();
        if !s.is_empty() && !numbers::<usize>(s)?.iter().all(|&a| axes.insert(a)) {
            return None;
        }
        Some(Axes(axes))
    }
    fn axes(&self) -> AxisSet {
        self.0
    }
}

impl Attr for Groups {
    const SYNTAX: &'static str = "groups";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn parse(s: &str) -> Option<Self> {
        exactly(s).map(|[n]| Groups(n))
    }
}

/// A word and not a flag, so that a further kind of attention is a further word.
impl Attr for Attention {
    const SYNTAX: &'static str = "full or causal";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attention::Full => "full",
            Attention::Causal => "causal",
        })
    }
    fn parse(s: &str) -> Option<Self> {
        match s {
            "full" => Some(Attention::Full),
            "causal" => Some(Attention::Causal),
            _ => None,
        }
    }
}

impl AttentionInput {
    /// All of them, in the order of the operands.
    pub const ALL: [AttentionInput; 3] =
        [AttentionInput::Query, AttentionInput::Key, AttentionInput::Value];

    const fn name(self) -> &'static str {
        match self {
            AttentionInput::Query => "query",
            AttentionInput::Key => "key",
            AttentionInput::Value => "value",
        }
    }
}

impl Attr for AttentionGrad {
    const SYNTAX: &'static str = "full or causal,query, key or value";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.print(f)?;
        write!(f, ",{}", self.of.name())
    }
    fn parse(s: &str) -> Option<Self> {
        let (kind, of) = s.split_once(',')?;
        let of = AttentionInput::ALL.into_iter().find(|input| input.name() == of)?;
        Some(AttentionGrad { kind: Attention::parse(kind)?, of })
    }
}

/// Ascending is not written: one order has one spelling.
impl Attr for Order {
    const SYNTAX: &'static str = "axis[,descending]";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.axis, if self.descending { ",descending" } else { "" })
    }
    fn parse(s: &str) -> Option<Self> {
        let (list, descending) = match s.strip_suffix(",descending") {
            Some(list) => (list, true),
            None => (s, false),
        };
        let [a] = exactly(list)?;
        Some(Order { axis: axis(a)?, descending })
    }
    fn axes(&self) -> AxisSet {
        AxisSet::from_iter([usize::from(self.axis)])
    }
}
