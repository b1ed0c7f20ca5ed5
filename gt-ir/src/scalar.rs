//! Scalars as they stand on a tape: literal operands whose value is a slot of the compiled program,
//! never part of its key.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::dtype::DType;

/// A literal operand. Its type is weak: it takes the dtype of the tensors beside it, as a Python
/// number does in PyTorch.
///
/// Equality and hashing go by bits, so `0.0` differs from `-0.0`, except that every `nan` is the
/// same.
///
/// ```
/// use gt_ir::Scalar;
/// assert_eq!("2".parse(), Ok(Scalar::I64(2)));
/// assert_eq!("2.0".parse(), Ok(Scalar::F64(2.0)));
/// assert_ne!(Scalar::F64(0.0), Scalar::F64(-0.0));
/// assert!("+2".parse::<Scalar>().is_err()); // one spelling for one number
/// ```
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Scalar {
    /// A floating-point literal.
    F64(f64),
    /// An integer literal.
    I64(i64),
    /// `true` or `false`.
    Bool(bool),
}

impl Scalar {
    /// The dtype this literal has when no tensor stands beside it: `f32`, `i64` or `bool`.
    ///
    /// ```
    /// use gt_ir::{DType, Scalar};
    /// assert_eq!(Scalar::from(2.0f64).weak_dtype(), DType::F32);
    /// assert_eq!(Scalar::from(2i32).weak_dtype(), DType::I64);
    /// ```
    pub const fn weak_dtype(self) -> DType {
        match self {
            Scalar::F64(_) => DType::F32,
            Scalar::I64(_) => DType::I64,
            Scalar::Bool(_) => DType::Bool,
        }
    }

    /// The value as a float.
    pub const fn as_f64(self) -> f64 {
        match self {
            Scalar::F64(v) => v,
            Scalar::I64(v) => v as f64,
            Scalar::Bool(v) => v as u8 as f64,
        }
    }

    /// The value as an integer; floats truncate and saturate.
    pub const fn as_i64(self) -> i64 {
        match self {
            Scalar::F64(v) => v as i64,
            Scalar::I64(v) => v,
            Scalar::Bool(v) => v as i64,
        }
    }

    /// What equality and hashing compare: the kind of literal, then its bits.
    fn bits(self) -> (u8, u64) {
        match self {
            // The text form has one spelling of NaN.
            Scalar::F64(v) if v.is_nan() => (0, f64::NAN.to_bits()),
            Scalar::F64(v) => (0, v.to_bits()),
            Scalar::I64(v) => (1, v as u64),
            Scalar::Bool(v) => (2, v as u64),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::F64(v) if v.is_nan() => f.write_str("nan"),
            Scalar::F64(v) if v.is_infinite() => f.write_str(if *v > 0.0 { "inf" } else { "-inf" }),
            // Debug keeps a point or an exponent and the shortest digits that read back equal.
            Scalar::F64(v) => write!(f, "{v:?}"),
            Scalar::I64(v) => write!(f, "{v}"),
            Scalar::Bool(v) => write!(f, "{v}"),
        }
    }
}

impl FromStr for Scalar {
    type Err = ();
    fn from_str(s: &str) -> Result<Self, ()> {
        match s {
            "true" => return Ok(Scalar::Bool(true)),
            "false" => return Ok(Scalar::Bool(false)),
            "nan" => return Ok(Scalar::F64(f64::NAN)),
            "inf" => return Ok(Scalar::F64(f64::INFINITY)),
            "-inf" => return Ok(Scalar::F64(f64::NEG_INFINITY)),
            _ => (),
        }
        if !s.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            // Rust's parser also takes "infinity" and "+1"; the text form has one spelling each.
            return Err(());
        }
        if let Ok(v) = s.parse::<i64>() {
            return Ok(Scalar::I64(v));
        }
        if !s.contains(['.', 'e', 'E']) {
            return Err(()); // An integer that does not fit is an error, not a silent float.
        }
        s.parse::<f64>().ok().filter(|v| v.is_finite()).map(Scalar::F64).ok_or(())
    }
}

macro_rules! scalar_from {
    ($($t:ty => $variant:ident as $as:ty),*) => { $(
        impl From<$t> for Scalar {
            fn from(v: $t) -> Self {
                Scalar::$variant(v as $as)
            }
        }
    )* };
}
scalar_from! {
    f64 => F64 as f64, f32 => F64 as f64,
    i64 => I64 as i64, i32 => I64 as i64, u8 => I64 as i64,
    bool => Bool as bool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let cases = [
            0.0,
            -0.0,
            1.5,
            1e-5,
            1e300,
            f64::MIN_POSITIVE,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            3.0,
        ];
        for v in cases.map(Scalar::F64).into_iter().chain([
            Scalar::I64(i64::MIN),
            Scalar::I64(7),
            Scalar::Bool(true),
        ]) {
            assert_eq!(v.to_string().parse::<Scalar>(), Ok(v), "{v}");
        }
        for bad in ["", "x", "infinity", "+1", "1.5.2", "99999999999999999999", "1e999", "-"] {
            assert!(bad.parse::<Scalar>().is_err(), "{bad}");
        }
    }
}
