//! Dimensions as types: static (`N<784>`), named (`dims! { Batch }`), run-time (`Dyn`) and the
//! broadcaster (`One`).
//!
//! Guarantees: every dimension type is zero-sized; two dimensions relate only through [`SameDim`]
//! and [`BcastDim`], both reflexive for every [`Dim`], so code generic over dimensions needs `D:
//! Dim` and nothing else. It does no arithmetic on sizes: what needs arithmetic is a [`Dyn`] or is
//! checked when it is recorded.

/// What a dimension type says about a size; this is what the recorded shape carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimSpec {
    /// The size is known at compile time.
    Static(usize),
    /// The size is known at run time; every dimension of this name in an operation must agree.
    Named(&'static str),
    /// The size is known at run time and has no name.
    Open,
}

/// Two dimensions that must be equal. `Dyn` equals anything; the result is whichever side knows
/// more.
#[diagnostic::on_unimplemented(
    message = "dimension mismatch: `{Self}` is not `{Rhs}`",
    label = "`{Self}` is not `{Rhs}`",
    note = "use `.assume()` where the size is only known at run time"
)]
pub trait SameDim<Rhs> {
    /// The dimension both sides stand for.
    type Out: Dim;
}

/// NumPy broadcasting of one dimension against another: `One` stretches, all else must be equal.
#[diagnostic::on_unimplemented(
    message = "dimensions `{Self}` and `{Rhs}` do not broadcast",
    label = "`{Self}` against `{Rhs}`",
    note = "only `One` stretches"
)]
pub trait BcastDim<Rhs> {
    /// The dimension after broadcasting.
    type Out: Dim;
}

/// A dimension: `N<V>`, `One`, `Dyn`, or a name declared with [`dims!`](crate::dims). The only
/// bound generic code writes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a dimension",
    label = "not a dimension",
    note = "dimensions are `N<784>`, `One`, `Dyn` and the names declared by `dims! {{ .. }}`"
)]
pub trait Dim:
    'static
    + Copy
    + SameDim<Self, Out = Self>
    + SameDim<Dyn, Out = Self>
    + BcastDim<Self, Out = Self>
    + BcastDim<One, Out = Self>
{
    /// What the recorded shape says about this dimension.
    const SPEC: DimSpec;
}

/// A size known at compile time: `N<784>`, written `784` in [`T!`](crate::T).
#[derive(Clone, Copy, Debug)]
pub struct N<const V: usize>;

/// A size known only at run time, written `?` in [`T!`](crate::T). It unifies with every dimension;
/// the check happens when recorded.
#[derive(Clone, Copy, Debug)]
pub struct Dyn;

/// The size 1 that broadcasts, written `1` in [`T!`](crate::T). A layer with one output is a
/// `Linear<N<16>, One>`: `N<1>` is another type, which does not broadcast.
#[derive(Clone, Copy, Debug)]
pub struct One;

/// A dimension whose size the type knows: `N<V>` or `One`.
#[diagnostic::on_unimplemented(
    message = "the size of dimension `{Self}` is not known at compile time",
    label = "`{Self}` has no static size"
)]
pub trait StaticDim: Dim {
    /// The size.
    const SIZE: usize;
}

impl<const V: usize> Dim for N<V> {
    const SPEC: DimSpec = DimSpec::Static(V);
}
impl Dim for Dyn {
    const SPEC: DimSpec = DimSpec::Open;
}
impl Dim for One {
    const SPEC: DimSpec = DimSpec::Static(1);
}
#[diagnostic::do_not_recommend]
impl<const V: usize> StaticDim for N<V> {
    const SIZE: usize = V;
}
#[diagnostic::do_not_recommend]
impl StaticDim for One {
    const SIZE: usize = 1;
}

/// Rows of a dimension relation: `[generics] left, right => result`.
macro_rules! relate {
    ($relation:ident: $([$($g:tt)*] $l:ty, $r:ty => $out:ty;)*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($g)*> $relation<$r> for $l { type Out = $out; }
    )* };
}
relate! { SameDim:
    [const V: usize] N<V>, N<V> => N<V>;
    [const V: usize] N<V>, Dyn  => N<V>;
    [const V: usize] Dyn,  N<V> => N<V>;
    []               Dyn,  Dyn  => Dyn;
    []               One,  One  => One;
    []               One,  N<1> => One;
    []               N<1>, One  => One;
    []               One,  Dyn  => One;
    []               Dyn,  One  => One;
}
relate! { BcastDim:
    [const V: usize] N<V>, N<V> => N<V>;
    [const V: usize] N<V>, Dyn  => N<V>;
    [const V: usize] Dyn,  N<V> => N<V>;
    [const V: usize] N<V>, One  => N<V>;
    [const V: usize] One,  N<V> => N<V>;
    []               Dyn,  Dyn  => Dyn;
    []               One,  One  => One;
    []               One,  Dyn  => Dyn;
    []               Dyn,  One  => Dyn;
}

/// Declares named dimensions: `dims! { Batch, Seq }`. Each is a zero-sized type; two different
/// names never unify, and within one operation a name has one size.
///
/// ```
/// use gt_lang::prelude::*;
/// dims! {
///     /// Examples per step.
///     Batch,
///     Seq,
/// }
/// fn scale(x: &T![Batch, Seq]) -> T![Batch, Seq] {
///     x * 2.0
/// }
/// ```
#[macro_export]
macro_rules! dims {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => { $(
        $(#[$meta])*
        #[doc = concat!("The named dimension `", stringify!($name), "`.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl $crate::typed::Dim for $name {
            const SPEC: $crate::typed::DimSpec = $crate::typed::DimSpec::Named(stringify!($name));
        }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::SameDim<$name> for $name { type Out = $name; }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::SameDim<$crate::typed::Dyn> for $name { type Out = $name; }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::SameDim<$name> for $crate::typed::Dyn { type Out = $name; }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::BcastDim<$name> for $name { type Out = $name; }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::BcastDim<$crate::typed::Dyn> for $name { type Out = $name; }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::BcastDim<$name> for $crate::typed::Dyn { type Out = $name; }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::BcastDim<$crate::typed::One> for $name { type Out = $name; }
        #[diagnostic::do_not_recommend]
        impl $crate::typed::BcastDim<$name> for $crate::typed::One { type Out = $name; }
    )+ };
}
