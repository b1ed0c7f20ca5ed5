//! Floats with the arithmetic of instructions: halves are computed in `f32` and rounded once.
//!
//! For routines that generated code does not reach. Guarantees: the bits of the instructions. It
//! knows nothing of integers, whose arithmetic is the language's own.

use bytemuck::Pod;
use half::{bf16, f16};

/// An element of a routine.
pub(super) trait Number: Pod + Send + Sync + PartialEq {
    const MINUS_ZERO: Self;
    /// A literal, from the bits of an argument: those of an `f32` for less than 64 bits.
    fn of_bits(bits: u64) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($element:ty: $minus_zero:expr, $of_bits:expr, $into:expr, $from:expr;)*) => { $(
        impl Number for $element {
            const MINUS_ZERO: $element = $minus_zero;
            fn of_bits(bits: u64) -> $element {
                $of_bits(bits)
            }
            fn add(self, other: $element) -> $element {
                $from($into(self) + $into(other))
            }
            fn sub(self, other: $element) -> $element {
                $from($into(self) - $into(other))
            }
            fn mul(self, other: $element) -> $element {
                $from($into(self) * $into(other))
            }
        }
    )* };
}
numbers! {
    f32: -0.0, |bits| f32::from_bits(bits as u32), f32::from, f32::from;
    f64: -0.0, f64::from_bits, f64::from, f64::from;
    bf16: bf16::NEG_ZERO, |bits| bf16::from_f32(f32::from_bits(bits as u32)), bf16::to_f32,
        bf16::from_f32;
    f16: f16::NEG_ZERO, |bits| f16::from_f32(f32::from_bits(bits as u32)), f16::to_f32,
        f16::from_f32;
}
