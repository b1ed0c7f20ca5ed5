//! The text forms of attributes: each reads exactly what it writes, so that a tape has one
//! spelling.

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
pub(super) fn numbers<T: std::str::FromStr + fmt::Display>(
    s: &str,
) -> Option<SmallVec<[T; MAX_RANK]>> {
    s.split(',')
        .take(MAX_RANK + 1)
        .map(|p| p.parse().ok().filter(|n: &T| n.to_string() == p))
        .collect()
}

pub(super) fn exactly<const N: usize>(s: &str) -> Option<[u64; N]> {
    numbers::<u64>(s)?.as_slice().try_into().ok()
}

pub(super) fn axis(n: u64) -> Option<u8> {
    (n < MAX_RANK as u64).then_some(n as u8)
}

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

pub(super) fn print_list(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = impl fmt::Display>,
) -> fmt::Result {
    for (i, item) in items.enumerate() {
        write!(f, "{}{item}", if i > 0 { "," } else { "" })?;
    }
    Ok(())
}

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

impl Attr for Classes {
    const SYNTAX: &'static str = "classes";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn parse(s: &str) -> Option<Self> {
        exactly(s).map(|[n]| Classes(n))
    }
}

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

impl Attr for DType {
    const SYNTAX: &'static str = "dtype";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
    fn parse(s: &str) -> Option<Self> {
        s.parse().ok()
    }
}

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
