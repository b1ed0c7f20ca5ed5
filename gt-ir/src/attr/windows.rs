//! Attributes of ops that look at windows: along one axis, and over the two of an image.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::{axis, exactly};
use super::{Attr, AxisSet};

/// Windows along one axis: `axis,size,step,dilation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The axis.
    pub axis: u8,
    /// Elements of a window; at least 1.
    pub size: u64,
    /// Distance between the first elements of neighbouring windows; at least 1.
    pub step: u64,
    /// Distance between neighbouring elements of a window; at least 1.
    pub dilation: u64,
}

impl Window {
    /// How many windows an axis of `len` elements has; `None` where not even one fits.
    pub fn count(&self, len: usize) -> Option<usize> {
        let span = self.size.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        if self.step == 0 || self.dilation == 0 {
            return None;
        }
        usize::try_from((len as u64).checked_sub(span)? / self.step + 1).ok()
    }
}

/// What windows were taken from: `axis,size,step,dilation,len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fold {
    /// The windows.
    pub window: Window,
    /// Elements of the axis.
    pub len: u64,
}

/// Windows over height and width of which one element is left each:
/// `size,size,stride,stride,padding,padding,dilation,dilation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// Elements of a window.
    pub size: [u32; 2],
    /// Distance between windows.
    pub stride: [u32; 2],
    /// Elements put around that are no maximum, on both sides; at most half of a window.
    pub padding: [u32; 2],
    /// Distance between elements of a window.
    pub dilation: [u32; 2],
}

/// A convolution over height and width: `stride,stride,padding,padding,dilation,dilation,groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Conv {
    /// Distance between windows.
    pub stride: [u32; 2],
    /// Zeros put around, on both sides.
    pub padding: [u32; 2],
    /// Distance between elements of a window.
    pub dilation: [u32; 2],
    /// Groups that input and output channels are cut into; each output group sees its input group
    /// alone.
    pub groups: u32,
}

impl Attr for Window {
    const SYNTAX: &'static str = "axis,size,step,dilation";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.axis, self.size, self.step, self.dilation)
    }
    fn parse(s: &str) -> Option<Self> {
        let [a, size, step, dilation] = exactly(s)?;
        Some(Window { axis: axis(a)?, size, step, dilation })
    }
    fn axes(&self) -> AxisSet {
        AxisSet::from_iter([usize::from(self.axis)])
    }
}

impl Attr for Fold {
    const SYNTAX: &'static str = "axis,size,step,dilation,len";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.window.print(f)?;
        write!(f, ",{}", self.len)
    }
    fn parse(s: &str) -> Option<Self> {
        let [a, size, step, dilation, len] = exactly(s)?;
        Some(Fold { window: Window { axis: axis(a)?, size, step, dilation }, len })
    }
    fn axes(&self) -> AxisSet {
        self.window.axes()
    }
}

impl Attr for Pool {
    const SYNTAX: &'static str = "size,size,stride,stride,padding,padding,dilation,dilation";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for [a, b] in [self.size, self.stride, self.padding] {
            write!(f, "{a},{b},")?;
        }
        let [a, b] = self.dilation;
        write!(f, "{a},{b}")
    }
    fn parse(s: &str) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = small(s)?;
        Some(Pool { size: [a, b], stride: [c, d], padding: [e, f], dilation: [g, h] })
    }
}

impl Attr for Conv {
    const SYNTAX: &'static str = "stride,stride,padding,padding,dilation,dilation,groups";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for [a, b] in [self.stride, self.padding, self.dilation] {
            write!(f, "{a},{b},")?;
        }
        write!(f, "{}", self.groups)
    }
    fn parse(s: &str) -> Option<Self> {
        let [a, b, c, d, e, f, groups] = small(s)?;
        Some(Conv { stride: [a, b], padding: [c, d], dilation: [e, f], groups })
    }
}

/// So many numbers, each small.
fn small<const N: usize>(s: &str) -> Option<[u32; N]> {
    let numbers: [u64; N] = exactly(s)?;
    let mut small = [0; N];
    for (to, n) in small.iter_mut().zip(numbers) {
        *to = u32::try_from(n).ok()?;
    }
    Some(small)
}
