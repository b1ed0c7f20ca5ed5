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

/// Attributes that are one of some words: the type and its text form.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident, $syntax:literal {
            $($(#[$of:meta])* $variant:ident = $word:literal,)+
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum $name { $($(#[$of])* $variant),+ }

        impl Attr for $name {
            const SYNTAX: &'static str = $syntax;
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $word),+ })
            }
            fn parse(s: &str) -> Option<Self> {
                match s {
                    $($word => Some($name::$variant),)+
                    _ => None,
                }
            }
        }
    )+ };
}

words! {
    /// How many vectors an orthogonal factor has: `reduced` or `full`.
    Extent, "reduced or full" {
        /// As many as the smaller side of the matrix.
        Reduced = "reduced",
        /// A whole basis.
        Full = "full",
    }

    /// What is computed of a spectrum: `values`, `reduced` or `full`.
    Spectrum, "values, reduced or full" {
        /// No vectors.
        Values = "values",
        /// A vector for each value.
        Reduced = "reduced",
        /// Whole bases.
        Full = "full",
    }

    /// What is computed of the spectrum of a symmetric matrix: `values` or `vectors`.
    Eigen, "values or vectors" {
        /// No vectors.
        Values = "values",
        /// A vector for each value.
        Vectors = "vectors",
    }

    /// The sign of the exponent of a Fourier transform: `forward` or `inverse`.
    Direction, "forward or inverse" {
        /// Minus, from times to frequencies.
        Forward = "forward",
        /// Plus, back again.
        Inverse = "inverse",
    }
}

impl Direction {
    /// The other one.
    #[must_use]
    pub const fn turned(self) -> Direction {
        match self {
            Direction::Forward => Direction::Inverse,
            Direction::Inverse => Direction::Forward,
        }
    }
}
