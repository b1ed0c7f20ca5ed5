//! Operations on the bits of integers, which are logical ones on truth values: methods with
//! PyTorch's names, and `& | ^ << >> !`.
//!
//! Guarantees: tensors of floats have none of them, so a mistake is a compiler error.

use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};

use super::kind::{Bool, Int, Kind, Promote};
use super::operand::Operand;
use super::relation::Broadcast;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;

/// Kinds whose elements are bits: integers and truth values.
#[diagnostic::on_unimplemented(
    message = "elements of kind `{Self}` have no bits to operate on",
    note = "`.int()` and `.bool()` change the kind"
)]
pub trait Bits: Kind {}
impl Bits for Int {}
impl Bits for Bool {}

macro_rules! methods {
    ($kind:ident: $($(#[$doc:meta])+ $name:ident;)+) => { $(
        $(#[$doc])+
        ///
        /// The other operand is a tensor that broadcasts, or a number.
        #[must_use]
        #[track_caller]
        pub fn $name<R>(&self, other: R) -> Tensor<R::Out, R::Kind>
        where
            R: Operand<S, $kind>,
            R::Kind: Bits,
        {
            let (l, r) = (self.as_dyn(), other.arg());
            Tensor::joined(stringify!($name), l.$name(r), &[Arg::Tensor(l), r])
        }
    )+ };
}

impl<S: Shape, K: Bits> Tensor<S, K> {
    methods! { K:
        /// The bits that are 1 in both; logical and of truth values.
        bitwise_and;
        /// The bits that are 1 in either; logical or of truth values.
        bitwise_or;
        /// The bits that are 1 in one of the two; logical exclusive or of truth values.
        bitwise_xor;
    }

    /// The bits that are 0; the logical opposite of truth values.
    #[must_use]
    #[track_caller]
    pub fn bitwise_not(&self) -> Self {
        Tensor::wrap(self.as_dyn().bitwise_not())
    }
}

impl<S: Shape> Tensor<S, Int> {
    methods! { Int:
        /// The bits moved up by so many places; 0 if a count is negative or not below the number of
        /// bits.
        bitwise_left_shift;
        /// The bits moved down by so many places, `floor(x / 2^y)`; 0 or -1, by the sign, if a
        /// count is negative or not below the number of bits.
        bitwise_right_shift;
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $name:ident [$($k:ident)?] $kind:ident: $t:ty;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<S, R, $($k: Bits + Promote<K2>,)? K2: Bits> $trait<&Tensor<R, K2>> for $t
        where
            S: Shape + Broadcast<R>,
            R: Shape,
            $kind: Promote<K2, Out: Bits>,
        {
            type Output = Tensor<<S as Broadcast<R>>::Out, <$kind as Promote<K2>>::Out>;
            #[track_caller]
            fn $method(self, rhs: &Tensor<R, K2>) -> Self::Output {
                self.$name(rhs)
            }
        }
        #[diagnostic::do_not_recommend]
        impl<S, R, $($k: Bits + Promote<K2>,)? K2: Bits> $trait<Tensor<R, K2>> for $t
        where
            S: Shape + Broadcast<R>,
            R: Shape,
            $kind: Promote<K2, Out: Bits>,
        {
            type Output = Tensor<<S as Broadcast<R>>::Out, <$kind as Promote<K2>>::Out>;
            #[track_caller]
            fn $method(self, rhs: Tensor<R, K2>) -> Self::Output {
                self.$name(rhs)
            }
        }
        #[diagnostic::do_not_recommend]
        impl<S: Shape $(, $k: Bits<WithInt: Bits>)?> $trait<i64> for $t {
            type Output = Tensor<S, <$kind as Kind>::WithInt>;
            #[track_caller]
            fn $method(self, rhs: i64) -> Self::Output {
                self.$name(rhs)
            }
        }
    )+ };
}
operators! {
    BitAnd bitand bitwise_and [K] K: Tensor<S, K>;
    BitAnd bitand bitwise_and [K] K: &Tensor<S, K>;
    BitOr bitor bitwise_or [K] K: Tensor<S, K>;
    BitOr bitor bitwise_or [K] K: &Tensor<S, K>;
    BitXor bitxor bitwise_xor [K] K: Tensor<S, K>;
    BitXor bitxor bitwise_xor [K] K: &Tensor<S, K>;
    Shl shl bitwise_left_shift [] Int: Tensor<S, Int>;
    Shl shl bitwise_left_shift [] Int: &Tensor<S, Int>;
    Shr shr bitwise_right_shift [] Int: Tensor<S, Int>;
    Shr shr bitwise_right_shift [] Int: &Tensor<S, Int>;
}

impl<S: Shape, K: Bits> Not for Tensor<S, K> {
    type Output = Self;
    #[track_caller]
    fn not(self) -> Self {
        self.bitwise_not()
    }
}
impl<S: Shape, K: Bits> Not for &Tensor<S, K> {
    type Output = Tensor<S, K>;
    #[track_caller]
    fn not(self) -> Tensor<S, K> {
        self.bitwise_not()
    }
}
