//! The text forms of attributes: each reads exactly what it writes, so that a tape has one
//! spelling.
//!
//! A number has no leading zeros and no sign `+`, so that `sum[00]` is not another spelling of
//! `sum[0]`. Two tapes with equal text are then equal, and a hash of the text identifies a tape.
//! The table of ops parses an attribute by the same functions that print it; the property tests
//! compare both.

use std::fmt;

use smallvec::SmallVec;

use super::{
    Attr, Axis, AxisSet, Classes, Keep, Pad, Perm, Reduce, ReduceOne, Slice, Swap, Trailing,
};
use crate::{
    dtype::DType,
    shape::{MAX_RANK, Shape, Type},
};

/// Comma-separated numbers, each spelled the one way `Display` spells it.
///
/// More than [`MAX_RANK`] numbers are refused before they are collected.
pub(super) fn numbers<T: std::str::FromStr + fmt::Display>(
    s: &str,
) -> Option<SmallVec<[T; MAX_RANK]>> {
    s.split(',')
        .take(MAX_RANK + 1)
        .map(|p| p.parse().ok().filter(|n: &T| n.to_string() == p))
        .collect()
}

/// Exactly `N` numbers, as most attributes have.
pub(super) fn exactly<const N: usize>(s: &str) -> Option<[u64; N]> {
    numbers::<u64>(s)?.as_slice().try_into().ok()
}

/// An axis that some shape could have. Whether the operand has it is checked by the type rule,
/// whose message can name the operand.
pub(super) fn axis(n: u64) -> Option<u8> {
    (n < MAX_RANK as u64).then_some(n as u8)
}

/// `0,1,keep` into `0,1` and whether `keep` follows. `keep` alone is an empty list; `,keep` is no
/// attribute at all.
pub(super) fn split_keep(s: &str) -> (&str, Keep) {
    match s.strip_suffix("keep") {
        Some("") => ("", Keep::Yes),
        Some(rest) => match rest.strip_suffix(',') {
            Some(list) if !list.is_empty() => (list, Keep::Yes),
            _ => (s, Keep::No),
        },
        None => (s, Keep::No),
    }
}

/// The items with commas between, without blanks: an attribute is one word of a line.
pub(crate) fn print_list(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = impl fmt::Display>,
) -> fmt::Result {
    for (i, item) in items.enumerate() {
        write!(f, "{}{item}", if i > 0 { "," } else { "" })?;
    }
    Ok(())
}

/// `sum[]` folds no axis, `sum[0,1]` folds two, `sum[keep]` none and `sum[0,keep]` one that stays
/// with size 1. An axis that is named twice is refused.
impl Attr for Reduce {
    const SYNTAX: &'static str = "axis,..[,keep]";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_list(f, self.axes.iter())?;
        match (self.keep, self.axes.is_empty()) {
            (Keep::No, _) => Ok(()),
            (Keep::Yes, true) => f.write_str("keep"),
            (Keep::Yes, false) => f.write_str(",keep"),
        }
    }
    fn parse(s: &str) -> Option<Self> {
        let (list, keep) = split_keep(s);
        let mut axes = AxisSet::default();
        let listed = if list.is_empty() { SmallVec::new() } else { numbers::<u64>(list)? };
        listed.iter().all(|&a| axes.insert(a as usize)).then_some(Reduce { axes, keep })
    }
    fn axes(&self) -> AxisSet {
        self.axes
    }
}

/// `argmax[1]` or `argmax[1,keep]`: the axis is not optional.
impl Attr for ReduceOne {
    const SYNTAX: &'static str = "axis[,keep]";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.axis, if self.keep == Keep::Yes { ",keep" } else { "" })
    }
    fn parse(s: &str) -> Option<Self> {
        let (list, keep) = split_keep(s);
        let [a] = exactly(list)?;
        Some(ReduceOne { axis: axis(a)?, keep })
    }
    fn axes(&self) -> AxisSet {
        AxisSet::from_iter([usize::from(self.axis)])
    }
}

/// `softmax[1]`. Axes are counted from the front and are never negative; the language resolves -1.
impl Attr for Axis {
    const SYNTAX: &'static str = "axis";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn parse(s: &str) -> Option<Self> {
        let [a] = exactly(s)?;
        Some(Axis(axis(a)?))
    }
    fn axes(&self) -> AxisSet {
        AxisSet::from_iter([usize::from(self.0)])
    }
}

/// `transpose[0,1]`. Both axes may be equal, which changes nothing.
impl Attr for Swap {
    const SYNTAX: &'static str = "axis,axis";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0, self.1)
    }
    fn parse(s: &str) -> Option<Self> {
        let [a, b] = exactly(s)?;
        Some(Swap(axis(a)?, axis(b)?))
    }
}

/// `permute[1,0]` has every axis once; `permute[]` is that of a scalar.
impl Attr for Perm {
    const SYNTAX: &'static str = "axis,..";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_list(f, self.axes())
    }
    fn parse(s: &str) -> Option<Self> {
        let axes = if s.is_empty() { SmallVec::new() } else { numbers::<usize>(s)? };
        Perm::new(&axes)
    }
}

/// `slice[axis,start,stop,step]`, all given: the language fills in the ends that a user leaves out.
impl Attr for Slice {
    const SYNTAX: &'static str = "axis,start,stop,step";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.axis, self.start, self.stop, self.step)
    }
    fn parse(s: &str) -> Option<Self> {
        let [a, start, stop, step] = exactly(s)?;
        Some(Slice { axis: axis(a)?, start, stop, step })
    }
    fn axes(&self) -> AxisSet {
        AxisSet::from_iter([usize::from(self.axis)])
    }
}

/// `pad[axis,lo,hi,interior]`, as XLA counts padding, without negative numbers.
impl Attr for Pad {
    const SYNTAX: &'static str = "axis,lo,hi,interior";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.axis, self.lo, self.hi, self.interior)
    }
    fn parse(s: &str) -> Option<Self> {
        let [a, lo, hi, interior] = exactly(s)?;
        Some(Pad { axis: axis(a)?, lo, hi, interior })
    }
    fn axes(&self) -> AxisSet {
        AxisSet::from_iter([usize::from(self.axis)])
    }
}

/// `one_hot[10]`: the size of the new last axis.
impl Attr for Classes {
    const SYNTAX: &'static str = "classes";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn parse(s: &str) -> Option<Self> {
        exactly(s).map(|[n]| Classes(n))
    }
}

/// `layer_norm[1]`: how many of the last axes are normalized together.
impl Attr for Trailing {
    const SYNTAX: &'static str = "dims";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn parse(s: &str) -> Option<Self> {
        let [n] = exactly(s)?;
        (n <= MAX_RANK as u64).then_some(Trailing(n as u8))
    }
}

/// `cast[bf16]`.
impl Attr for DType {
    const SYNTAX: &'static str = "dtype";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
    fn parse(s: &str) -> Option<Self> {
        s.parse().ok()
    }
}

/// `reshape[Batch=2,3]`: sizes with the names that they have in types.
impl Attr for Shape {
    const SYNTAX: &'static str = "size,..";
    /// The op's own brackets serve as the shape's.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_list(f, self.dims())
    }
    fn parse(s: &str) -> Option<Self> {
        format!("[{s}]").parse().ok()
    }
    fn unnamed(&self) -> Shape {
        Shape::unnamed(self)
    }
}

/// `full[f32[2,3]]`, with the brackets of the type inside those of the op.
impl Attr for Type {
    const SYNTAX: &'static str = "type";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
    fn parse(s: &str) -> Option<Self> {
        s.parse().ok()
    }
    fn unnamed(&self) -> Type {
        Type::unnamed(self)
    }
}
