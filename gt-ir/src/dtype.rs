//! Element types and their promotion lattice (PyTorch's).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The element type of a tensor. Prints as the text form spells it: `f32`, `i64`, `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DType {
    /// IEEE 754 binary32, the default float.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// The upper half of a binary32: 8 bits of exponent, 8 of precision.
    Bf16,
    /// IEEE 754 binary16.
    F16,
    /// 64-bit two's complement, the default integer and the index type.
    I64,
    /// 32-bit two's complement.
    I32,
    /// 8-bit unsigned.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

/// How a type ranks in promotion: a higher category wins whatever the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// `bool`.
    Bool,
    /// `u8`, `i32`, `i64`.
    Int,
    /// `f16`, `bf16`, `f32`, `f64`.
    Float,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 8] = [
        DType::F32,
        DType::F64,
        DType::Bf16,
        DType::F16,
        DType::I64,
        DType::I32,
        DType::U8,
        DType::Bool,
    ];

    /// Bytes an element takes in memory and on the wire.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::Bf16 | DType::F16 => 2,
            DType::U8 | DType::Bool => 1,
        }
    }

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// The category that decides promotion across kinds.
    pub const fn category(self) -> Category {
        match self {
            DType::F32 | DType::F64 | DType::Bf16 | DType::F16 => Category::Float,
            DType::I64 | DType::I32 | DType::U8 => Category::Int,
            DType::Bool => Category::Bool,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self.category(), Category::Float)
    }

    /// Whether this is an integer type (`bool` is not).
    pub const fn is_int(self) -> bool {
        matches!(self.category(), Category::Int)
    }

    /// The smallest type both convert to, as PyTorch has it: `f16` with `bf16` is `f32`, an integer
    /// with a float is that float.
    ///
    /// ```
    /// use gt_ir::DType;
    /// assert_eq!(DType::I64.promote(DType::Bf16), DType::Bf16);
    /// assert_eq!(DType::Bf16.promote(DType::F16), DType::F32); // neither holds the other
    /// assert_eq!(DType::Bool.promote(DType::U8), DType::U8);
    /// ```
    pub fn promote(self, other: DType) -> DType {
        if self == other {
            return self;
        }
        let (low, high) =
            if self.category() <= other.category() { (self, other) } else { (other, self) };
        if low.category() < high.category() {
            return high;
        }
        match (low, high) {
            (DType::Bf16, DType::F16) | (DType::F16, DType::Bf16) => DType::F32,
            _ if low.size() > high.size() => low,
            _ => high,
        }
    }

    /// This type if it is a float, else the default float.
    pub const fn or_default_float(self) -> DType {
        if self.is_float() { self } else { DType::F32 }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ();
    fn from_str(s: &str) -> Result<Self, ()> {
        DType::ALL.into_iter().find(|d| d.name() == s).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_a_join() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), a);
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} {b}");
            }
        }
        assert_eq!(DType::U8.promote(DType::I32), DType::I32);
        assert_eq!(DType::I64.promote(DType::F16), DType::F16);
        assert_eq!(DType::Bf16.promote(DType::F16), DType::F32);
        assert_eq!(DType::Bool.promote(DType::U8), DType::U8);
    }
}
