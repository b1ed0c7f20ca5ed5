//! Element kinds: what a typed tensor says about its elements, so that indices, masks and numbers
//! are not mixed up.
//!
//! Guarantees: a [`Kind`] is a marker without data. The exact dtype (`f32` or `bf16`, `i64` or
//! `u8`) is not in the type; it is the recorded one and follows PyTorch's promotion.

use gt_ir::DType;

/// Floating point elements: `f32`, `f64`, `bf16`, `f16`.
#[derive(Clone, Copy, Debug)]
pub struct Float;
/// Integer elements: `i64`, `i32`, `u8`.
#[derive(Clone, Copy, Debug)]
pub struct Int;
/// Truth values, as comparisons give them.
#[derive(Clone, Copy, Debug)]
pub struct Bool;

/// `Float`, `Int` or `Bool`.
pub trait Kind: 'static + Copy + Promote<Self, Out = Self> {
    /// The kind's word in messages.
    const NAME: &'static str;
    /// The dtype that creation functions give this kind.
    const DEFAULT: DType;
    /// The kind of a sum: truth values and integers add up to integers.
    type Summed: Kind;
    /// The kind after an operation with an integer scalar.
    type WithInt: Kind;
    /// Whether a dtype is of this kind.
    fn has(dtype: DType) -> bool;
}

/// The kind of an operation on two kinds: floats win over integers, integers over truth values.
pub trait Promote<Rhs> {
    /// The kind of the result.
    type Out: Kind;
}

impl Kind for Float {
    const NAME: &'static str = "Float";
    const DEFAULT: DType = DType::F32;
    type Summed = Float;
    type WithInt = Float;
    fn has(dtype: DType) -> bool {
        dtype.is_float()
    }
}
impl Kind for Int {
    const NAME: &'static str = "Int";
    const DEFAULT: DType = DType::I64;
    type Summed = Int;
    type WithInt = Int;
    fn has(dtype: DType) -> bool {
        dtype.is_int()
    }
}
impl Kind for Bool {
    const NAME: &'static str = "Bool";
    const DEFAULT: DType = DType::Bool;
    type Summed = Int;
    type WithInt = Int;
    fn has(dtype: DType) -> bool {
        dtype == DType::Bool
    }
}

macro_rules! promote {
    ($($l:ident, $r:ident => $out:ident;)*) => { $(impl Promote<$r> for $l { type Out = $out; })* };
}
promote! {
    Float, Float => Float;
    Float, Int   => Float;
    Float, Bool  => Float;
    Int,   Float => Float;
    Int,   Int   => Int;
    Int,   Bool  => Int;
    Bool,  Float => Float;
    Bool,  Int   => Int;
    Bool,  Bool  => Bool;
}
