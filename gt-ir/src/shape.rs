//! Shapes and tensor types: up to eight dimensions, each with a size and possibly a name, copied by
//! value.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{dtype::DType, error::OpError, intern::DimName};

/// The most dimensions a tensor has.
pub const MAX_RANK: usize = 8;
/// The most elements a tensor has: byte counts of every dtype stay far below `i64::MAX`.
pub const MAX_NUMEL: usize = 1 << 48;

/// One dimension: its size, and the name it goes by.
///
/// A static dimension prints as `784`, a named one as `Batch=32`, one known only at run time as
/// `?=17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dim {
    /// Number of elements along the dimension.
    pub size: usize,
    /// [`DimName::NONE`] for a static dimension.
    pub name: DimName,
}

/// The sizes and names of a tensor's dimensions. `Copy`, no allocation; at most [`MAX_RANK`]
/// dimensions and [`MAX_NUMEL`] elements.
#[derive(Clone, Copy, Eq)]
pub struct Shape {
    sizes: [usize; MAX_RANK],
    names: [DimName; MAX_RANK],
    rank: u8,
}

/// Element type and shape: everything known of a value before it is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Type {
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub shape: Shape,
}

impl Dim {
    /// A static dimension.
    pub const fn new(size: usize) -> Dim {
        Dim { size, name: DimName::NONE }
    }
}

impl Shape {
    /// The shape of a single number: no dimensions, one element.
    pub const SCALAR: Shape =
        Shape { sizes: [0; MAX_RANK], names: [DimName::NONE; MAX_RANK], rank: 0 };

    /// A shape of static dimensions.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] dimensions, or more than [`MAX_NUMEL`] elements.
    pub fn new(sizes: &[usize]) -> Result<Shape, OpError> {
        Shape::build(sizes.len(), sizes.iter().map(|&s| Dim::new(s)))
    }

    /// A shape of given dimensions.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn from_dims(dims: &[Dim]) -> Result<Shape, OpError> {
        Shape::build(dims.len(), dims.iter().copied())
    }

    /// As [`Shape::from_dims`], from an iterator.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn collect(dims: impl Iterator<Item = Dim> + Clone) -> Result<Shape, OpError> {
        Shape::build(dims.clone().count(), dims)
    }

    /// A shape within the limits.
    fn build(rank: usize, dims: impl Iterator<Item = Dim>) -> Result<Shape, OpError> {
        if rank > MAX_RANK {
            return Err(OpError::new(format!(
                "{rank} dimensions are more than the {MAX_RANK} a tensor can have"
            )));
        }
        let mut shape = Shape { rank: rank as u8, ..Shape::SCALAR };
        // Sizes of zero must not hide an overflow elsewhere, hence the product over max(size, 1).
        let mut numel: usize = 1;
        for (i, dim) in dims.enumerate() {
            shape.sizes[i] = dim.size;
            shape.names[i] = dim.name;
            numel = numel.saturating_mul(dim.size.max(1));
        }
        if numel > MAX_NUMEL {
            return Err(OpError::new(format!("shape {shape} has more than 2^48 elements")));
        }
        Ok(shape)
    }

    /// Number of dimensions.
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The sizes, outermost first.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes[..self.rank()]
    }

    /// Dimension `i`; panics when `i >= rank`, as slices do.
    pub fn dim(&self, i: usize) -> Dim {
        Dim { size: self.sizes()[i], name: self.names[i] }
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> impl DoubleEndedIterator<Item = Dim> + ExactSizeIterator + Clone + '_ {
        (0..self.rank()).map(|i| self.dim(i))
    }

    /// Number of elements; 1 for a scalar.
    ///
    /// ```
    /// # use gt_ir::Shape;
    /// assert_eq!(Shape::new(&[2, 3])?.numel(), 6);
    /// assert_eq!(Shape::SCALAR.numel(), 1);
    /// assert_eq!(Shape::new(&[2, 0])?.numel(), 0);
    /// # Ok::<(), gt_ir::OpError>(())
    /// ```
    pub fn numel(&self) -> usize {
        self.sizes().iter().product()
    }

    /// The same sizes without names.
    #[must_use]
    pub fn unnamed(&self) -> Shape {
        Shape { names: [DimName::NONE; MAX_RANK], ..*self }
    }

    /// Whether the sizes agree, whatever the names.
    pub fn same_sizes(&self, other: &Shape) -> bool {
        self.sizes() == other.sizes()
    }

    /// The sizes of a batch of matrices, which are all but the last two; `None` for fewer axes.
    pub fn leading(&self) -> Option<&[usize]> {
        Some(&self.sizes()[..self.rank().checked_sub(2)?])
    }

    /// Whether both are matrices in batches of the same sizes.
    pub fn same_batch(&self, other: &Shape) -> bool {
        self.leading().is_some_and(|own| Some(own) == other.leading())
    }

    /// Row-major strides in elements.
    ///
    /// ```
    /// # use gt_ir::Shape;
    /// let shape = Shape::new(&[2, 3, 4])?;
    /// assert_eq!(shape.strides()[..3], [12, 4, 1]);
    /// # Ok::<(), gt_ir::OpError>(())
    /// ```
    pub fn strides(&self) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut step = 1;
        for i in (0..self.rank()).rev() {
            strides[i] = step;
            step *= self.sizes[i];
        }
        strides
    }

    /// Turns a possibly negative axis into an index below `rank`.
    ///
    /// ```
    /// # use gt_ir::Shape;
    /// let shape = Shape::new(&[2, 3])?;
    /// assert_eq!(shape.axis("sum", -1)?, 1);
    /// let error = shape.axis("sum", 2).unwrap_err();
    /// assert_eq!(error.message, "sum: axis 2 is out of range for shape [2,3]");
    /// # Ok::<(), gt_ir::OpError>(())
    /// ```
    ///
    /// # Errors
    /// The axis is out of range; the message names `op` and the shape.
    pub fn axis(&self, op: &str, axis: i64) -> Result<usize, OpError> {
        let rank = self.rank() as i64;
        let resolved = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&resolved) {
            return Ok(resolved as usize);
        }
        let range = if rank == 0 {
            "a scalar has no axes".into()
        } else {
            format!("axes go from {} to {}", -rank, rank - 1)
        };
        Err(OpError::new(format!("{op}: axis {axis} is out of range for shape {self}")).hint(range))
    }

    /// The shape two operands broadcast to, aligned from the right; a name survives from whichever
    /// side has it.
    ///
    /// ```
    /// # use gt_ir::Shape;
    /// let shape = |text: &str| text.parse::<Shape>();
    /// assert_eq!(shape("[Batch=4,1]")?.broadcast(&shape("[5]")?), Some(shape("[Batch=4,5]")?));
    /// assert_eq!(shape("[2]")?.broadcast(&shape("[3]")?), None);
    /// # Ok::<(), gt_ir::OpError>(())
    /// ```
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other {
            return Some(*self);
        }
        let rank = self.rank().max(other.rank());
        let mut out = Shape { rank: rank as u8, ..Shape::SCALAR };
        for i in 1..=rank {
            let at = |s: &Shape| if i <= s.rank() { s.dim(s.rank() - i) } else { Dim::new(1) };
            let dim = broadcast_dim(at(self), at(other))?;
            (out.sizes[rank - i], out.names[rank - i]) = (dim.size, dim.name);
        }
        Some(out)
    }
}

/// One dimension of two that broadcast: equal sizes, or a size of 1 that repeats. A word is a
/// better name than `?`, and `?` better than none.
fn broadcast_dim(a: Dim, b: Dim) -> Option<Dim> {
    match (a.size, b.size) {
        (x, y) if x == y => {
            Some(if a.name == DimName::NONE || a.name == DimName::DYN && b.name.is_named() {
                b
            } else {
                a
            })
        }
        (_, 1) => Some(a),
        (1, _) => Some(b),
        _ => None,
    }
}

impl Type {
    /// A type from its parts.
    pub const fn new(dtype: DType, shape: Shape) -> Type {
        Type { dtype, shape }
    }

    /// A single number.
    pub const fn scalar(dtype: DType) -> Type {
        Type { dtype, shape: Shape::SCALAR }
    }

    /// Bytes of the row-major contents.
    pub fn bytes(&self) -> usize {
        self.shape.numel() * self.dtype.size()
    }

    /// The same shape with another element type.
    #[must_use]
    pub const fn with_dtype(self, dtype: DType) -> Type {
        Type { dtype, shape: self.shape }
    }

    /// Whether dtype and sizes agree, whatever the names.
    ///
    /// ```
    /// # use gt_ir::Type;
    /// let named: Type = "f32[Batch=32,784]".parse()?;
    /// assert!(named.same_layout(&"f32[32,784]".parse()?));
    /// assert!(!named.same_layout(&"f64[32,784]".parse()?));
    /// # Ok::<(), gt_ir::OpError>(())
    /// ```
    pub fn same_layout(&self, other: &Type) -> bool {
        self.dtype == other.dtype && self.shape.same_sizes(&other.shape)
    }

    /// The same type without names of dimensions.
    #[must_use]
    pub fn unnamed(&self) -> Type {
        Type { shape: self.shape.unnamed(), ..*self }
    }
}

impl PartialEq for Shape {
    /// Dimensions beyond the rank are zero in every shape, and seldom looked at.
    fn eq(&self, other: &Shape) -> bool {
        self.rank == other.rank
            && self.sizes[..4] == other.sizes[..4]
            && self.names == other.names
            && (self.rank <= 4 || self.sizes[4..] == other.sizes[4..])
    }
}

impl Hash for Shape {
    /// Only the dimensions there are, and their names only where there is one: shapes are hashed
    /// for every instruction.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let named = (0..self.rank()).filter(|&i| self.names[i] != DimName::NONE);
        let named = named.fold(0, |bits, i| bits | 1_u64 << i);
        state.write_u64(u64::from(self.rank) | named << 8);
        self.sizes().iter().for_each(|&size| state.write_usize(size));
        if named != 0 {
            self.dims().filter(|dim| dim.name != DimName::NONE).for_each(|d| d.name.hash(state));
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name == DimName::NONE {
            write!(f, "{}", self.size)
        } else {
            write!(f, "{}={}", self.name, self.size)
        }
    }
}

impl FromStr for Dim {
    type Err = OpError;
    fn from_str(s: &str) -> Result<Dim, OpError> {
        let (name, size) = s.split_once('=').map_or((None, s), |(n, s)| (Some(n), s));
        let bad = || {
            OpError::new(format!("`{s}` is not a dimension"))
                .hint("write `784`, `Batch=32` or `?=17`")
        };
        let name = match name {
            None => DimName::NONE,
            Some(name) => DimName::new(name).ok_or_else(bad)?,
        };
        let digits = !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit());
        let size = digits.then(|| size.parse().ok()).flatten().ok_or_else(bad)?;
        Ok(Dim { size, name })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.dims().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

impl FromStr for Shape {
    type Err = OpError;
    /// Reads what [`Display`](fmt::Display) writes; blanks around dimensions are allowed.
    fn from_str(s: &str) -> Result<Shape, OpError> {
        let inner = s.strip_prefix('[').and_then(|s| s.strip_suffix(']'));
        let inner = inner
            .ok_or_else(|| OpError::new(format!("`{s}` is not a shape")).hint("write `[2,3]`"))?;
        if inner.trim().is_empty() {
            return Ok(Shape::SCALAR);
        }
        let parts = inner.split(',').take(MAX_RANK + 1);
        let dims = parts.map(|d| d.trim().parse()).collect::<Result<Vec<Dim>, _>>()?;
        Shape::from_dims(&dims)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl FromStr for Type {
    type Err = OpError;
    fn from_str(s: &str) -> Result<Type, OpError> {
        let (dtype, shape) = s.split_at(s.find('[').unwrap_or(s.len()));
        let names = || DType::ALL.map(DType::name).join(", ");
        let dtype = dtype.parse().map_err(|()| {
            OpError::new(format!("unknown dtype `{dtype}`")).hint(format!("dtypes are {}", names()))
        })?;
        Ok(Type { dtype, shape: shape.parse()? })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.dims())
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let dims = smallvec::SmallVec::<[Dim; MAX_RANK]>::deserialize(d)?;
        Shape::from_dims(&dims).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().unwrap()
    }

    #[test]
    fn text_round_trips() {
        for s in ["[]", "[3]", "[Batch=32,784]", "[?=17,1,0]"] {
            assert_eq!(shape(s).to_string(), s);
        }
        assert_eq!("f32[Batch=2,3]".parse::<Type>().unwrap().to_string(), "f32[Batch=2,3]");
        for bad in [
            "",
            "[",
            "[-1]",
            "[1,]",
            "[a]",
            "[a=]",
            "[1,2,3,4,5,6,7,8,9]",
            "[281474976710657]",
            "[0,99999999999999999]",
        ] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
    }

    #[test]
    fn broadcasting_aligns_from_the_right_and_keeps_names() {
        let check = |a: &str, b: &str, want: Option<&str>| {
            assert_eq!(
                shape(a).broadcast(&shape(b)).map(|s| s.to_string()).as_deref(),
                want,
                "{a} {b}"
            );
            assert_eq!(
                shape(b).broadcast(&shape(a)).map(|s| s.to_string()).as_deref(),
                want,
                "{b} {a}"
            );
        };
        check("[Batch=4,3]", "[3]", Some("[Batch=4,3]"));
        check("[Batch=4,1]", "[4,5]", Some("[Batch=4,5]"));
        check("[?=4]", "[Batch=4]", Some("[Batch=4]"));
        check("[0,3]", "[1,3]", Some("[0,3]"));
        check("[]", "[2]", Some("[2]"));
        check("[2]", "[3]", None);
    }
}
