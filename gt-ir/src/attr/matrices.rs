//! Attributes of linear algebra: triangles, and how much of a decomposition is computed.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Attr;

/// A triangle of a matrix: `lower`, `upper`, or `lower,unit` with ones on the diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Triangle {
    /// Above the diagonal, not below.
    pub upper: bool,
    /// The diagonal is not read; its elements are 1.
    pub unit: bool,
}

impl Triangle {
    /// The triangle of the transposed matrix.
    #[must_use]
    pub const fn transposed(self) -> Triangle {
        Triangle { upper: !self.upper, ..self }
    }
}

impl Attr for Triangle {
    const SYNTAX: &'static str = "lower or upper[,unit]";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.upper { "upper" } else { "lower" })?;
        f.write_str(if self.unit { ",unit" } else { "" })
    }
    fn parse(s: &str) -> Option<Self> {
        let (side, unit) = match s.strip_suffix(",unit") {
            Some(side) => (side, true),
            None => (s, false),
        };
        match side {
            "lower" => Some(Triangle { upper: false, unit }),
            "upper" => Some(Triangle { upper: true, unit }),
            _ => None,
        }
    }
}

/// How many vectors an orthogonal factor has: `reduced` or `full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Extent {
    /// As many as the smaller side of the matrix.
    Reduced,
    /// A whole basis.
    Full,
}

impl Attr for Extent {
    const SYNTAX: &'static str = "reduced or full";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Extent::Reduced => "reduced",
            Extent::Full => "full",
        })
    }
    fn parse(s: &str) -> Option<Self> {
        match s {
            "reduced" => Some(Extent::Reduced),
            "full" => Some(Extent::Full),
            _ => None,
        }
    }
}

/// What is computed of a spectrum: `values`, `reduced` or `full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Spectrum {
    /// No vectors.
    Values,
    /// A vector for each value.
    Reduced,
    /// Whole bases.
    Full,
}

impl Attr for Spectrum {
    const SYNTAX: &'static str = "values, reduced or full";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spectrum::Values => f.write_str("values"),
            Spectrum::Reduced => Extent::Reduced.print(f),
            Spectrum::Full => Extent::Full.print(f),
        }
    }
    fn parse(s: &str) -> Option<Self> {
        match (s, Extent::parse(s)) {
            ("values", _) => Some(Spectrum::Values),
            (_, Some(Extent::Reduced)) => Some(Spectrum::Reduced),
            (_, Some(Extent::Full)) => Some(Spectrum::Full),
            (_, None) => None,
        }
    }
}

/// What is computed of the spectrum of a symmetric matrix: `values` or `vectors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Eigen {
    /// No vectors.
    Values,
    /// A vector for each value.
    Vectors,
}

impl Attr for Eigen {
    const SYNTAX: &'static str = "values or vectors";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Eigen::Values => "values",
            Eigen::Vectors => "vectors",
        })
    }
    fn parse(s: &str) -> Option<Self> {
        match s {
            "values" => Some(Eigen::Values),
            "vectors" => Some(Eigen::Vectors),
            _ => None,
        }
    }
}
