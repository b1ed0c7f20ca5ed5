//! The op table: the only list of ops there is.
//!
//! One row gives an op's name, attribute, class, arity, type rule, gradient and, for a derived op,
//! its expansion into others. The text form, the verifier, autograd, expansion and the reference
//! page are folds over it; engines and the interpreter match on the primitive kinds alone. Rules
//! are functions in `rules`; rows only name them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    attr::{
        Attention, AttentionGrad, Attr, Axes, Axis, AxisSet, Classes, Conv, Diagonal, Direction,
        Eigen, Extent, Fold, Groups, Order, Pad, Perm, Pool, Reduce, ReduceOne, Slice, Spectrum,
        Swap, Trailing, Triangle, Window,
    },
    body::{Cond, Scan},
    dtype::DType,
    emit::Emit,
    error::OpError,
    factors::Factors,
    grad::{Grads, Vjp},
    intern::fnv,
    operand::ValueId,
    rules::{
        activation, attention, bits, branches, derive, elementary, fold, grad as g, infer as ty,
        loops, matrices, meet, normal, part, pool, scan, shard as sh, statistic, window,
    },
    shape::{Shape, Type},
};

pub use crate::operand::{Operand, OperandType};

/// How many operands an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly so many.
    Exactly(usize),
    /// At least the first number, at most the second: the last ones may be left out.
    Between(usize, usize),
    /// One or more.
    Variadic,
}

/// What kind of computation an op is; decides how it fuses and how it can be sharded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Each result element depends on the elements at the same (broadcast) position.
    Pointwise,
    /// Axes are folded away.
    Reduce,
    /// A product summed over a shared axis.
    Contract,
    /// Each matrix of the last two axes is taken as a whole: solutions and decompositions.
    Matrix,
    /// Elements move, none is computed.
    Move,
    /// Positions are data.
    Gather,
    /// Made from attributes and literals alone.
    Source,
}

/// How gradients flow through an op. Every row must say.
#[derive(Clone, Copy)]
pub enum Grad {
    /// By this rule.
    Rule(fn(&mut Vjp<'_>) -> Result<Grads, OpError>),
    /// By the expansion, which is computed again and walked backwards; every operand is kept for
    /// it.
    Expansion,
    /// The result does not depend smoothly on the operands: gradients end here.
    Zero,
}

/// The function a derived op expands by: emits instructions that compute it and returns their
/// result.
pub type Expansion = fn(&mut dyn Emit, &Op, &[Operand]) -> Result<ValueId, OpError>;

/// What an op means to the engines.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// Engines implement it.
    Primitive,
    /// It is other ops.
    Derived(Expansion),
}

/// The dtype an op computes in under automatic mixed precision, as in PyTorch's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The narrow float that was asked for: products.
    Narrow,
    /// `f32`: sums of many numbers, and functions whose error grows.
    Full,
    /// The dtype its operands promote to.
    AsGiven,
}

/// A property of an op that most ops of its class do not have: what a row says behind `=>`.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// The work of one element, in additions.
    Weight(u32),
    /// The operands may change places.
    Commutes,
    /// Computed in `f32` under mixed precision.
    Full,
    /// How it is computed by parts.
    Shard(Sharding),
    /// Not computed by parts, unlike others of its class.
    Whole,
    /// Which operands its gradient rule reads depends on the attributes.
    Keeps,
    /// As `Keeps`, of the result as well.
    KeepsAll,
}

/// The properties that [`Mark`]s give, with the defaults of the class.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// The work of one element of the result of a pointwise op or a source, in additions: what a
    /// vector unit takes, roughly. Up to 3 it is one instruction, up to 16 a polynomial; above
    /// that unusual operands take another way.
    pub weight: u32,
    /// Whether the operands may change places.
    pub commutes: bool,
    /// The dtype of its computation under mixed precision.
    pub precision: Precision,
    /// The factors of its dimensions: how it is computed by parts. A row without this rule is
    /// computed whole, or by its expansion.
    pub shard: Option<Sharding>,
    /// Whether every operand is kept for its gradient, because the rule may read any of them.
    pub keeps: bool,
    /// Whether the result is kept as well.
    pub keeps_result: bool,
}

impl Marks {
    const fn of(class: Class, marks: &[Mark]) -> Marks {
        let precision = match class {
            Class::Contract => Precision::Narrow,
            Class::Matrix => Precision::Full,
            _ => Precision::AsGiven,
        };
        let shard: Option<Sharding> = match class {
            Class::Pointwise => Some(sh::aligned),
            Class::Reduce => Some(sh::reduced),
            Class::Matrix => Some(sh::problems),
            Class::Contract | Class::Move | Class::Gather | Class::Source => None,
        };
        let (keeps, keeps_result) = (false, false);
        let mut all = Marks { weight: 1, commutes: false, precision, shard, keeps, keeps_result };
        let mut i = 0;
        while i < marks.len() {
            match marks[i] {
                Mark::Weight(weight) => all.weight = weight,
                Mark::Commutes => all.commutes = true,
                Mark::Full => all.precision = Precision::Full,
                Mark::Shard(rule) => all.shard = Some(rule),
                Mark::Whole => all.shard = None,
                Mark::Keeps => all.keeps = true,
                Mark::KeepsAll => (all.keeps, all.keeps_result) = (true, true),
            }
            i += 1;
        }
        all
    }
}

/// A type rule: the result's type from the operands', or why there is none. The arity has been
/// checked.
pub type Infer = fn(&Op, &[OperandType]) -> Result<Type, OpError>;

/// A sharding rule: the factors of an op on operands of these types, whose result has this type.
/// None where the op cannot be computed by parts: a derived op is then expanded.
pub type Sharding = fn(&Op, &[OperandType], &Type) -> Option<Factors>;

/// Everything the rest of GT may ask about an op.
pub struct OpSpec {
    /// Name in the text form and in messages.
    pub name: &'static str,
    /// One sentence or more for the reference.
    pub doc: &'static str,
    /// Spelling of the attribute between brackets; empty when there is none.
    pub attr: &'static str,
    /// Number of operands.
    pub arity: Arity,
    /// Kind of computation.
    pub class: Class,
    /// Type rule.
    pub infer: Infer,
    /// Gradient.
    pub grad: Grad,
    /// Primitive or derived.
    pub meaning: Meaning,
    /// Properties of its own.
    pub marks: Marks,
}

impl OpSpec {
    /// Whether the contents of the operands can make it fail: positions that are data may be out
    /// of range.
    pub const fn can_fail(&self) -> bool {
        matches!(self.class, Class::Gather)
    }
}

macro_rules! ops {
    (
        unary { $( $(#[doc = $udoc:literal])+ $uname:literal = $unary:ident, $uinfer:path, $ugrad:expr $(=> $($umark:expr),+)?; )* }
        binary { $( $(#[doc = $bdoc:literal])+ $bname:literal = $binary:ident, $binfer:path, $bgrad:expr $(=> $($bmark:expr),+)?; )* }
        primitive { $($primitive:tt)* }
        derived { $($derived:tt)* }
    ) => {
        ops!(@table
            $( $(#[doc = $udoc])+ $uname = $unary, Pointwise, Exactly(1), $uinfer, $ugrad $(=> $($umark),+)?; )*
            $( $(#[doc = $bdoc])+ $bname = $binary, Pointwise, Exactly(2), $binfer, $bgrad $(=> $($bmark),+)?; )*
            $($primitive)* $($derived)*);
        ops!(@operators Unary "A pointwise primitive of one operand without an attribute." $( $(#[doc = $udoc])+ $unary )*);
        ops!(@operators Binary "A pointwise primitive of two operands without an attribute." $( $(#[doc = $bdoc])+ $binary )*);
        ops!(@primitives [$($unary)*] [$($binary)*] $($primitive)*);
    };
    (@operators $enum:ident $about:literal $( $(#[doc = $doc:literal])+ $variant:ident )*) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $enum { $( $(#[doc = $doc])+ $variant ),* }

        impl $enum {
            /// Every operator, in table order.
            pub const ALL: &'static [$enum] = &[ $( $enum::$variant ),* ];

            /// The operator's row.
            pub const fn spec(self) -> &'static OpSpec {
                match self { $( $enum::$variant => OpKind::$variant.spec(), )* }
            }
        }
    };
    (@primitives [$($unary:ident)*] [$($binary:ident)*] $( $(#[doc = $doc:literal])+ $name:literal = $variant:ident $(($attr:ty))?, $class:ident, $arity:expr, $infer:path, $grad:expr $(=> $($mark:expr),+)?; )*) => {
        /// An op that engines implement, with its attribute: engines and the interpreter match on
        /// it, so that a new primitive is a compile error there and a derived op concerns nobody.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Primitive {
            /// An operator on one operand.
            Unary(Unary),
            /// An operator on two operands.
            Binary(Binary),
            $( $(#[doc = $doc])+ $variant $(($attr))? ),*
        }

        impl Op {
            /// The op as a primitive; `None` for a derived one.
            pub const fn primitive(&self) -> Option<Primitive> {
                match *self {
                    $( Op::$unary => Some(Primitive::Unary(Unary::$unary)), )*
                    $( Op::$binary => Some(Primitive::Binary(Binary::$binary)), )*
                    $( ops!(@bind a $variant $($attr)?) => Some(ops!(@primitive a $variant $($attr)?)), )*
                    _ => None,
                }
            }
        }
    };
    (@table $( $(#[doc = $doc:literal])+ $name:literal = $variant:ident $(($attr:ty))?, $class:ident, $arity:expr, $infer:path, $grad:expr $(, $meaning:expr)? $(=> $($mark:expr),+)?; )*) => {
        /// An op with its attribute. Prints and parses as one atom: `exp`, `sum[0,1]`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Op { $( $(#[doc = $doc])+ $variant $(($attr))? ),* }

        /// An op without its attribute.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OpKind { $( $(#[doc = $doc])+ $variant ),* }

        impl OpKind {
            /// Every op, in table order.
            pub const ALL: &'static [OpKind] = &[ $( OpKind::$variant ),* ];

            /// The op's row.
            pub const fn spec(self) -> &'static OpSpec {
                match self { $( OpKind::$variant => const { &OpSpec {
                    name: $name, doc: concat!($($doc),+), attr: ops!(@syntax $($attr)?), arity: $arity,
                    class: Class::$class, infer: $infer, grad: $grad, meaning: ops!(@meaning $($meaning)?),
                    marks: Marks::of(Class::$class, &[$($($mark),+)?]),
                } }, )* }
            }
        }

        impl Op {
            /// The op without its attribute.
            pub const fn kind(&self) -> OpKind {
                match self { $( ops!(@pat $variant $($attr)?) => OpKind::$variant, )* }
            }

            /// The axes the attribute names; none for an op without such an attribute.
            pub fn axes(&self) -> AxisSet {
                match self { $( ops!(@bind a $variant $($attr)?) => ops!(@axes a $($attr)?), )* }
            }

            /// The op without the names of dimensions in its attribute.
            #[must_use]
            pub fn unnamed(&self) -> Op {
                match self { $( ops!(@bind a $variant $($attr)?) => ops!(@unnamed a $variant $($attr)?), )* }
            }
        }

        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $( ops!(@bind a $variant $($attr)?) => ops!(@print f a $name $($attr)?), )* }
            }
        }

        impl FromStr for Op {
            type Err = ParseOpError;
            fn from_str(s: &str) -> Result<Self, ParseOpError> {
                let (head, body) = split_brackets(s)?;
                match head { $( $name => ops!(@parse body $variant $($attr)?), )* _ => Err(ParseOpError::Unknown) }
            }
        }

        /// A number that changes whenever the table does: programs and peers made with another
        /// table are told so.
        pub const FINGERPRINT: u64 = fnv(concat!($( $name, "[", $(stringify!($attr),)? "]", stringify!($arity), ";" ),*).as_bytes());
    };
    (@meaning) => { Meaning::Primitive };
    (@meaning $meaning:expr) => { $meaning };
    (@primitive $a:ident $v:ident) => { Primitive::$v };
    (@primitive $a:ident $v:ident $attr:ty) => { Primitive::$v($a) };
    (@axes $a:ident) => { AxisSet::default() };
    (@axes $a:ident $attr:ty) => { Attr::axes($a) };
    (@unnamed $a:ident $v:ident) => { Op::$v };
    (@unnamed $a:ident $v:ident $attr:ty) => { Op::$v(Attr::unnamed($a)) };
    (@syntax) => { "" };
    (@syntax $attr:ty) => { <$attr as Attr>::SYNTAX };
    (@pat $v:ident) => { Op::$v };
    (@pat $v:ident $attr:ty) => { Op::$v(_) };
    (@bind $a:ident $v:ident) => { Op::$v };
    (@bind $a:ident $v:ident $attr:ty) => { Op::$v($a) };
    (@print $f:ident $a:ident $name:literal) => { $f.write_str($name) };
    (@print $f:ident $a:ident $name:literal $attr:ty) => {{ $f.write_str(concat!($name, "["))?; Attr::print($a, $f)?; $f.write_str("]") }};
    (@parse $b:ident $v:ident) => { if $b.is_none() { Ok(Op::$v) } else { Err(ParseOpError::Attribute("")) } };
    (@parse $b:ident $v:ident $attr:ty) => {
        $b.and_then(<$attr as Attr>::parse).map(Op::$v).ok_or(ParseOpError::Attribute(<$attr as Attr>::SYNTAX))
    };
}

use Arity::{Between, Exactly, Variadic};
use Grad::{Expansion as Through, Rule, Zero};
use Mark::{Commutes, Full, Keeps, KeepsAll, Shard, Weight, Whole};
use Meaning::Derived;

#[rustfmt::skip]
ops! {
unary {
    /// The negative of x.
    "neg"         = Neg,         ty::arithmetic, Rule(g::neg) => Shard(sh::quotient);
    /// The absolute value of x. Its gradient at 0 is 0.
    "abs"         = Abs,         ty::arithmetic, Rule(g::abs);
    /// e to the power x.
    "exp"         = Exp,         ty::float,      Rule(g::exp) => Weight(16), Full;
    /// 2 to the power x, exact for whole numbers.
    "exp2"        = Exp2,        ty::float,      Rule(g::exp2) => Weight(16), Full;
    /// The natural logarithm of x.
    "log"         = Log,         ty::float,      Rule(g::log) => Weight(16), Full;
    /// The square root of x.
    "sqrt"        = Sqrt,        ty::float,      Rule(g::sqrt) => Weight(3);
    /// The sine of x, an angle in radians.
    "sin"         = Sin,         ty::float,      Rule(g::sin) => Weight(20);
    /// The cosine of x, an angle in radians.
    "cos"         = Cos,         ty::float,      Rule(g::cos) => Weight(20);
    /// The hyperbolic tangent of x.
    "tanh"        = Tanh,        ty::float,      Rule(g::tanh) => Weight(16);
    /// Gauss's error function of x.
    "erf"         = Erf,         ty::float,      Rule(g::erf) => Weight(16);
    /// The largest integer that is not above x. Infinities and NaN stay as they are.
    "floor"       = Floor,       ty::arithmetic, Zero;
    /// The smallest integer that is not below x. Infinities and NaN stay as they are.
    "ceil"        = Ceil,        ty::arithmetic, Zero;
    /// x without its fraction. Infinities and NaN stay as they are.
    "trunc"       = Trunc,       ty::arithmetic, Zero;
    /// The integer nearest to x, and the even one of two. Infinities and NaN stay as they are.
    "round"       = Round,       ty::arithmetic, Zero;
    /// Whether x is zero.
    "logical_not" = LogicalNot,  ty::compare,    Zero;
}

binary {
    /// x + y. On `bool` it is logical or.
    "add"         = Add,         ty::arithmetic_or_bool, Rule(g::add) => Commutes, Shard(sh::additive);
    /// x - y.
    "sub"         = Sub,         ty::arithmetic, Rule(g::sub) => Shard(sh::additive);
    /// x * y. On `bool` it is logical and.
    "mul"         = Mul,         ty::arithmetic_or_bool, Rule(g::mul) => Commutes, Shard(sh::product);
    /// x / y, true division: integers give a result of the default float dtype.
    "div"         = Div,         ty::float,      Rule(g::div) => Weight(3), Shard(sh::quotient);
    /// x to the power y. For integers a negative y gives 0, except where x is 1 or -1.
    "pow"         = Pow,         ty::arithmetic, Rule(g::pow) => Weight(30), Full;
    /// The remainder `x - trunc(x / y) * y`, computed exactly. It has the sign of x, and is smaller
    /// than y in absolute value. Where y is 0, a float result is NaN, and an integer result is x.
    "fmod"        = Fmod,        ty::arithmetic, Rule(elementary::remainder_grad) => Weight(20);
    /// The larger of x and y, or NaN if either is NaN. Where they are equal, each gets half of the
    /// gradient.
    "maximum"     = Maximum,     ty::arithmetic_or_bool, Rule(g::extremum) => Commutes;
    /// The smaller of x and y, or NaN if either is NaN. Where they are equal, each gets half of the
    /// gradient.
    "minimum"     = Minimum,     ty::arithmetic_or_bool, Rule(g::extremum) => Commutes;
    /// Whether x equals y.
    "eq"          = Eq,          ty::compare,    Zero => Commutes;
    /// Whether x is less than y.
    "lt"          = Lt,          ty::compare,    Zero;
    /// Whether x and y are both nonzero.
    "logical_and" = LogicalAnd,  ty::compare,    Zero => Commutes;
    /// Whether x or y is nonzero.
    "logical_or"  = LogicalOr,   ty::compare,    Zero => Commutes;
    /// Whether exactly one of x and y is nonzero.
    "logical_xor" = LogicalXor,  ty::compare,    Zero => Commutes;
    /// The bits that are 1 in both x and y. On `bool` it is logical and.
    "bitwise_and" = BitwiseAnd,  ty::bits,       Zero => Commutes;
    /// The bits of x moved up by y places. Where y is negative or not below the number of bits, the
    /// result is 0.
    "bitwise_left_shift" = LeftShift, ty::shifted, Zero;
    /// The bits of x moved down by y places, which is `floor(x / 2^y)`: the sign stays. Where y is
    /// negative or not below the number of bits, the result is -1 for a negative x, and 0 otherwise.
    "bitwise_right_shift" = RightShift, ty::shifted, Zero;
}

primitive {
    /// x where a condition holds, and y elsewhere: `where c, x, y`.
    "where"       = Where,       Pointwise, Exactly(3), ty::select,     Rule(g::select);
    /// The same values in another dtype. A float becomes an integer by truncation and saturation,
    /// and NaN becomes 0. A cast to `bool` gives whether the value is nonzero.
    "cast"        = Cast(DType), Pointwise, Exactly(1), ty::cast,       Rule(g::cast);

    /// The sum over axes. Integers and `bool` are summed in `i64`.
    "sum"         = Sum(Reduce), Reduce,    Exactly(1), ty::sum,        Rule(g::sum) => Full, Shard(sh::sum);
    /// The largest element over axes, or NaN if an element is NaN. Equal largest elements share the
    /// gradient equally.
    "max"         = Max(Reduce), Reduce,    Exactly(1), ty::extremum,   Rule(g::extremum_over) => Shard(sh::max);
    /// The smallest element over axes, or NaN if an element is NaN. Equal smallest elements share
    /// the gradient equally.
    "min"         = Min(Reduce), Reduce,    Exactly(1), ty::extremum,   Rule(g::extremum_over) => Shard(sh::min);
    /// The positions along an axis in the sorted order of their elements, as `i64`. Equal elements
    /// keep their order, and NaN counts as the largest.
    "argsort"     = ArgSort(Order), Reduce, Exactly(1), ty::argsort,    Zero;
    /// The sum of the elements up to each position of an axis, which is included. Integers and
    /// `bool` are summed in `i64`.
    "cumsum"      = CumSum(Axis), Reduce,   Exactly(1), scan::infer,    Rule(scan::cumsum_grad) => Full;

    /// The matrix product over the last two axes. Leading axes broadcast. A 1-D first operand
    /// counts as a row, a 1-D second operand as a column. Different dtypes promote.
    "matmul"      = MatMul,      Contract,  Exactly(2), ty::matmul,     Rule(g::matmul) => Shard(sh::matmul);

    /// The lower triangular L with `x = L L^T`, of a symmetric positive definite matrix of which the
    /// lower triangle is read. A matrix that is not positive definite gives NaN.
    "cholesky"    = Cholesky,    Matrix,    Exactly(1), matrices::infer_square, Rule(matrices::cholesky_grad);
    /// The solution X of `A X = B` for a triangular matrix A, of which only the triangle is read:
    /// `triangular_solve A, B`. Leading axes broadcast.
    "triangular_solve" = TriangularSolve(Triangle), Matrix, Exactly(2), matrices::infer_solve, Rule(matrices::triangular_grad);
    /// The solution X of `A X = B`: `solve A, B`. Leading axes broadcast. A singular matrix gives
    /// NaN.
    "solve"       = Solve,       Matrix,    Exactly(2), matrices::infer_solve, Rule(matrices::solve_grad);
    /// Three numbers in a last axis: the determinant, its sign, and the logarithm of its absolute
    /// value. At a singular matrix the gradient of the determinant is 0, and that of the logarithm
    /// is NaN.
    "determinant" = Determinant, Matrix,    Exactly(1), matrices::infer_determinant, Rule(matrices::determinant_grad);
    /// The factors of `x = Q R`, Q with orthonormal columns and R upper triangular. Row i of the
    /// result is column i of Q, then row i of R. `full` gives as many columns of Q as it has rows.
    "qr"          = Qr(Extent),  Matrix,    Exactly(1), matrices::infer_qr, Rule(matrices::qr_grad) => KeepsAll;
    /// The eigenvalues of a symmetric matrix in ascending order; the lower triangle is read. With
    /// `vectors`, row i of the result is eigenvalue i, then its vector. A matrix that is not finite
    /// gives NaN. In gradients, vectors of equal eigenvalues do not turn into each other.
    "eigh"        = Eigh(Eigen), Matrix,    Exactly(1), matrices::infer_eigh, Rule(matrices::eigh_grad) => KeepsAll;
    /// The singular values in descending order. Otherwise row i of the result is singular value i,
    /// then its left vector, then its right vector; `full` has a row for each row and column of x.
    /// A matrix that is not finite gives NaN. In gradients, vectors of equal singular values do not
    /// turn into each other.
    "svd"         = Svd(Spectrum), Matrix,  Exactly(1), matrices::infer_svd, Rule(matrices::svd_grad) => KeepsAll;
    /// The exponential of a square matrix, the sum of `x^k / k!`.
    "matrix_exp"  = MatrixExp,   Matrix,    Exactly(1), matrices::infer_square, Rule(matrices::exp_grad);
    /// The discrete Fourier transform of `n` complex numbers, rows of a real and an imaginary part:
    /// element k is the sum of `x_j exp(-2 pi i j k / n)`, with plus in the exponent for `inverse`.
    /// Neither divides by n.
    "fft"         = Fft(Direction), Matrix, Exactly(1), matrices::infer_fft, Rule(matrices::fft_grad);

    /// The same elements, in row-major order, in another shape of the same size.
    "reshape"     = Reshape(Shape), Move,   Exactly(1), ty::reshape,    Rule(g::reshape) => Shard(sh::reshape);
    /// The operand with its axes in another order: axis i of the result is axis `perm[i]` of the
    /// operand.
    "permute"     = Permute(Perm), Move,    Exactly(1), ty::permute,    Rule(g::permute) => Shard(sh::permute);
    /// The operand with axes of size 1 repeated to the given shape. New axes may be added in front.
    "expand"      = Expand(Shape), Move,    Exactly(1), ty::expand,     Rule(g::expand) => Shard(sh::expand);
    /// Every `step`-th element of an axis, from `start` up to `stop`, which is not included.
    "slice"       = Slice(Slice), Move,     Exactly(1), ty::slice,      Rule(g::slice) => Shard(sh::beside);
    /// The operands, one after the other along an axis.
    "cat"         = Cat(Axis),   Move,      Variadic,   ty::cat,        Rule(g::cat) => Shard(sh::cat);
    /// Windows along an axis: element k of window i is element `i * step + k * dilation`. In the
    /// result the axis counts windows, and a new last axis has the elements of each window.
    "unfold"      = Unfold(Window), Move,   Exactly(1), window::infer_unfold, Rule(fold::unfold_grad) => Shard(sh::beside);
    /// The operand with a literal put before, after and between the elements of an axis:
    /// `pad[axis,lo,hi,interior] x, value`.
    "pad"         = Pad(Pad),    Move,      Exactly(2), ty::pad,        Rule(g::pad) => Shard(sh::beside);

    /// `out[..i..] = x[..index[..i..]..]` along an axis. The result has the shape of the index.
    "gather"      = Gather(Axis), Gather,   Exactly(2), ty::gather,     Rule(g::gather) => Shard(sh::gather);
    /// A base with `src[..i..]` added at position `index[..i..]` of an axis: `scatter_add base,
    /// index, src`.
    "scatter_add" = ScatterAdd(Axis), Gather, Exactly(3), ty::scatter_add, Rule(g::scatter_add) => Shard(sh::scatter_add);
    /// Whole slices of x along an axis, one slice for each element of an index of any shape.
    "index_select" = IndexSelect(Axis), Gather, Exactly(2), ty::index_select, Rule(g::index_select) => Shard(sh::index_select);
    /// A base with whole slices of src added at the positions of an index: `index_add base, index,
    /// src`.
    "index_add"   = IndexAdd(Axis), Gather, Exactly(3), ty::index_add,  Rule(g::index_add) => Shard(sh::index_add);

    /// The numbers 0, 1, 2, .. in row-major order, in an integer dtype.
    "iota"        = Iota(Type),  Source,    Exactly(0), ty::iota,       Zero;
    /// Random numbers, uniform in [0, 1), from a seed.
    "rand"        = Rand(Type),  Source,    Exactly(1), ty::random,     Zero => Weight(20);
    /// Random numbers of the standard normal distribution, from a seed.
    "randn"       = Randn(Type), Source,    Exactly(1), ty::random,     Zero => Weight(40);
    /// Random integers, uniform in [low, high), from a seed: `randint low, high, seed`.
    "randint"     = Randint(Type), Source,  Exactly(3), ty::randint,    Zero => Weight(20);
}

derived {
    /// The same literal in every element.
    "full"        = Full(Type),  Source,    Exactly(1), ty::literals,   Zero,             Derived(derive::full);
    /// `start + i * step` for i = 0, 1, ..: `arange start, step`.
    "arange"      = Arange(Type), Source,   Exactly(2), ty::arange,     Zero,             Derived(derive::arange);
    /// Whether x differs from y.
    "ne"          = Ne,          Pointwise, Exactly(2), ty::compare,    Zero,             Derived(derive::ne);
    /// Whether x is greater than y.
    "gt"          = Gt,          Pointwise, Exactly(2), ty::compare,    Zero,             Derived(derive::gt);
    /// Whether x is at least y.
    "ge"          = Ge,          Pointwise, Exactly(2), ty::compare,    Zero,             Derived(derive::ge);
    /// Whether x is at most y.
    "le"          = Le,          Pointwise, Exactly(2), ty::compare,    Zero,             Derived(derive::le);
    /// 1 / sqrt(x).
    "rsqrt"       = Rsqrt,       Pointwise, Exactly(1), ty::float,      Rule(g::rsqrt),   Derived(derive::rsqrt) => Full;
    /// 1 / (1 + exp(-x)).
    "sigmoid"     = Sigmoid,     Pointwise, Exactly(1), ty::float,      Rule(g::sigmoid), Derived(derive::sigmoid);
    /// max(x, 0). Its gradient at 0 is 0.
    "relu"        = Relu,        Pointwise, Exactly(1), ty::arithmetic, Rule(g::relu),    Derived(derive::relu);
    /// x * Phi(x), where Phi is the distribution function of the standard normal distribution
    /// (Hendrycks and Gimpel 2016).
    "gelu"        = Gelu,        Pointwise, Exactly(1), ty::float,      Rule(g::gelu),    Derived(derive::gelu);
    /// The approximation of `gelu` by a hyperbolic tangent.
    "gelu_tanh"   = GeluTanh,    Pointwise, Exactly(1), ty::float,      Rule(g::gelu_tanh), Derived(derive::gelu_tanh);
    /// The mean of floats over axes.
    "mean"        = Mean(Reduce), Reduce,   Exactly(1), ty::mean,       Rule(g::mean),    Derived(derive::mean);
    /// exp(x), divided by its sum along an axis.
    "softmax"     = Softmax(Axis), Reduce,  Exactly(1), ty::softmax,    Rule(g::softmax), Derived(derive::softmax) => Full;
    /// The logarithm of `softmax`, computed without overflow.
    "log_softmax" = LogSoftmax(Axis), Reduce, Exactly(1), ty::softmax,  Rule(g::log_softmax), Derived(derive::log_softmax) => Full;
    /// x normalized to mean 0 and variance 1 over the last dimensions, then scaled and shifted:
    /// `layer_norm x, weight, bias, eps` (Ba, Kiros and Hinton 2016).
    "layer_norm"  = LayerNorm(Trailing), Reduce, Exactly(4), ty::layer_norm, Rule(g::layer_norm), Derived(derive::layer_norm) => Full, Shard(sh::trailing);
    /// The operand with two axes exchanged.
    "transpose"   = Transpose(Swap), Move,  Exactly(1), ty::transpose,  Rule(g::transpose), Derived(derive::transpose) => Shard(sh::permute);
    /// A new last axis, as `i64`, with 1 at the index and 0 elsewhere. An index outside the classes
    /// gives zeros only.
    "one_hot"     = OneHot(Classes), Pointwise, Exactly(1), ty::one_hot, Zero,            Derived(derive::one_hot) => Shard(sh::one_hot);

    /// The bits that are 1 in x or in y. On `bool` it is logical or.
    "bitwise_or"  = BitwiseOr,   Pointwise, Exactly(2), ty::bits,       Zero,             Derived(bits::or);
    /// The bits that are 1 in exactly one of x and y. On `bool` it is logical exclusive or.
    "bitwise_xor" = BitwiseXor,  Pointwise, Exactly(2), ty::bits,       Zero,             Derived(bits::xor);
    /// The bits that are 0 in x. On `bool` it is the logical opposite.
    "bitwise_not" = BitwiseNot,  Pointwise, Exactly(1), ty::bits,       Zero,             Derived(bits::not);

    /// -1, 0 or 1, by the sign of x. NaN gives 0.
    "sign"        = Sign,        Pointwise, Exactly(1), ty::arithmetic, Zero,             Derived(activation::sign);
    /// The remainder `x - floor(x / y) * y`. It has the sign of y, and is at most as large as y in
    /// absolute value. Where y is 0, the result is that of `fmod`.
    "remainder"   = Remainder,   Pointwise, Exactly(2), ty::arithmetic, Rule(elementary::remainder_grad), Derived(elementary::remainder);
    /// log(1 + x), precise also for small x.
    "log1p"       = Log1p,       Pointwise, Exactly(1), ty::float,      Rule(elementary::log1p_grad), Derived(elementary::log1p) => Full;
    /// exp(x) - 1, precise also for small x.
    "expm1"       = Expm1,       Pointwise, Exactly(1), ty::float,      Rule(elementary::expm1_grad), Derived(elementary::expm1) => Full;
    /// The arc tangent of x, in radians.
    "atan"        = Atan,        Pointwise, Exactly(1), ty::float,      Rule(elementary::atan_grad), Derived(elementary::atan);
    /// The angle of the point (x, y), in radians from -pi to pi: `atan2 y, x`.
    "atan2"       = Atan2,       Pointwise, Exactly(2), ty::float,      Rule(elementary::atan2_grad), Derived(elementary::atan2);
    /// The logarithm of x to base 2.
    "log2"        = Log2,        Pointwise, Exactly(1), ty::float,      Through,          Derived(activation::log2) => Full;
    /// The logarithm of x to base 10.
    "log10"       = Log10,       Pointwise, Exactly(1), ty::float,      Through,          Derived(activation::log10) => Full;
    /// x * sigmoid(x) (Elfwing, Uchibe and Doya 2018).
    "silu"        = Silu,        Pointwise, Exactly(1), ty::float,      Through,          Derived(activation::silu);
    /// log(1 + exp(x)), computed without overflow.
    "softplus"    = Softplus,    Pointwise, Exactly(1), ty::float,      Rule(activation::softplus_grad), Derived(activation::softplus) => Full;
    /// x where it is positive, and x times a slope elsewhere: `leaky_relu x, slope` (Maas, Hannun
    /// and Ng 2013).
    "leaky_relu"  = LeakyRelu,   Pointwise, Exactly(2), activation::infer, Through,       Derived(activation::leaky_relu);
    /// x where it is positive, and `alpha * (exp(x) - 1)` elsewhere: `elu x, alpha` (Clevert,
    /// Unterthiner and Hochreiter 2016).
    "elu"         = Elu,         Pointwise, Exactly(2), activation::infer, Through,       Derived(activation::elu);
    /// x, raised to a lower bound where it is below, then lowered to an upper bound where it is
    /// above: `clamp x, low, high`. The result is NaN if any operand is NaN. Where x equals a
    /// bound, it keeps its gradient.
    "clamp"       = Clamp,       Pointwise, Exactly(3), activation::infer_clamp, Rule(activation::clamp_grad), Derived(activation::clamp);
    /// x with each element set to 0 with probability p, and the others divided by 1 - p: `dropout
    /// x, p, seed` (Srivastava et al. 2014).
    "dropout"     = Dropout,     Pointwise, Exactly(3), activation::infer_dropout, Rule(activation::dropout_grad), Derived(activation::dropout) => Whole;
    /// The elements of the last two axes on and below a diagonal, and 0 elsewhere. Diagonal 0 is
    /// the main one, and positive ones are above it.
    "tril"        = Tril(Diagonal), Pointwise, Exactly(1), part::infer_triangle, Through, Derived(part::triangle) => Shard(sh::matrices);
    /// The elements of the last two axes on and above a diagonal, and 0 elsewhere. Diagonal 0 is
    /// the main one, and positive ones are above it.
    "triu"        = Triu(Diagonal), Pointwise, Exactly(1), part::infer_triangle, Through, Derived(part::triangle) => Shard(sh::matrices);

    /// The index of the largest element along an axis, as `i64`. Of equal elements it is the first,
    /// and a NaN counts as the largest.
    "argmax"      = Argmax(ReduceOne), Reduce, Exactly(1), ty::argmax,  Zero,             Derived(statistic::place);
    /// The index of the smallest element along an axis, as `i64`. Of equal elements it is the
    /// first, and a NaN counts as the smallest.
    "argmin"      = Argmin(ReduceOne), Reduce, Exactly(1), ty::argmax,  Zero,             Derived(statistic::place);
    /// The product over axes. Integers and `bool` are multiplied in `i64`. Engines choose the order.
    "prod"        = Prod(Reduce), Reduce,   Exactly(1), ty::sum,        Through,          Derived(scan::prod) => Full;
    /// The product of the elements up to each position of an axis, which is included. Integers and
    /// `bool` are multiplied in `i64`.
    "cumprod"     = CumProd(Axis), Reduce,  Exactly(1), scan::infer,    Through,          Derived(scan::cumprod) => Full;
    /// The largest of the elements up to each position of an axis, which is included: of equal ones
    /// the last, which gets all of the gradient. NaN counts as the largest.
    "cummax"      = CumMax(Axis), Reduce,   Exactly(1), scan::infer_extremum, Rule(scan::extremum_grad), Derived(scan::extremum);
    /// The smallest of the elements up to each position of an axis, which is included: of equal ones
    /// the last, which gets all of the gradient. NaN counts as the smallest.
    "cummin"      = CumMin(Axis), Reduce,   Exactly(1), scan::infer_extremum, Rule(scan::extremum_grad), Derived(scan::extremum);
    /// Whether at least one element over axes is nonzero.
    "any"         = Any(Reduce), Reduce,    Exactly(1), ty::truth,      Zero,             Derived(statistic::any);
    /// Whether all elements over axes are nonzero.
    "all"         = All(Reduce), Reduce,    Exactly(1), ty::truth,      Zero,             Derived(statistic::all);
    /// The logarithm of the sum of exp(x) over axes, computed without overflow.
    "logsumexp"   = LogSumExp(Reduce), Reduce, Exactly(1), ty::float_over, Rule(statistic::logsumexp_grad), Derived(statistic::logsumexp) => Full;
    /// The variance over axes: the sum of the squared differences from the mean, divided by the
    /// count less a correction: `var x, correction`.
    "var"         = Var(Reduce), Reduce,    Exactly(2), ty::var,        Rule(statistic::var_grad), Derived(statistic::var) => Full;
    /// The Euclidean norm over axes. Its gradient at 0 is 0.
    "norm"        = Norm(Reduce), Reduce,   Exactly(1), ty::mean,       Rule(statistic::norm_grad), Derived(statistic::norm) => Full;
    /// x divided by its root mean square over the last dimensions, then scaled: `rms_norm x,
    /// weight, eps` (Zhang and Sennrich 2019).
    "rms_norm"    = RmsNorm(Trailing), Reduce, Exactly(3), normal::infer_rms, Through,    Derived(normal::rms_norm) => Full, Shard(sh::trailing);
    /// x normalized to mean 0 and variance 1 in each group of channels (axis 1), then scaled and
    /// shifted by channel: `group_norm x, weight, bias, eps` (Wu and He 2018).
    "group_norm"  = GroupNorm(Groups), Reduce, Exactly(4), normal::infer_group, Through,  Derived(normal::group_norm) => Full, Shard(sh::batch);
    /// x normalized by given statistics of each channel (axis 1), then scaled and shifted:
    /// `batch_norm x, mean, var, weight, bias, eps` (Ioffe and Szegedy 2015).
    "batch_norm"  = BatchNorm,   Reduce,    Exactly(6), normal::infer_batch, Through,     Derived(normal::batch_norm) => Full, Shard(sh::channels);

    /// softmax(query key^T * scale + mask) value over `[.., heads, length, width]` (Vaswani et al.
    /// 2017). The operands are `query, key, value, scale` or `query, key, value, scale, mask`. Key
    /// and value may have fewer heads than the query. A mask is `bool`, true where attention is
    /// paid, or a float that is added. A row without any attention gives 0. With `causal` no
    /// attention is paid to later positions.
    "scaled_dot_product_attention" = ScaledDotProductAttention(Attention), Contract, Between(4, 5), attention::infer, Rule(attention::grad), Derived(attention::expand) => Shard(sh::attention);
    /// The gradient of `scaled_dot_product_attention` for one of its operands. The first operand is
    /// the gradient of its result. Its operands follow.
    "scaled_dot_product_attention_grad" = ScaledDotProductAttentionGrad(AttentionGrad), Contract, Between(5, 6), attention::infer_grad, Through, Derived(attention::expand_grad) => Shard(sh::attention);

    /// The pseudoinverse (Moore 1920, Penrose 1955): `pinv x, rtol`. Singular values up to `rtol`
    /// times the largest count as 0.
    "pinv"        = Pinv,        Matrix,    Exactly(2), matrices::infer_pinv, Rule(matrices::pinv_grad), Derived(matrices::pinv);

    /// The convolution of `[batch, channels, height, width]` with kernels `[out channels, channels
    /// / groups, height, width]`: `conv2d x, weight`. It is a matrix product over unfolded windows
    /// (Chellapilla, Puri and Simard 2006), or a sum of slices where each channel has small kernels
    /// of its own.
    "conv2d"      = Conv2d(Conv), Contract, Exactly(2), window::infer_conv, Rule(window::conv_grad), Derived(window::conv2d) => Shard(sh::conv), Keeps;

    /// The adjoint of `unfold`: each element of a window is added at the position that it came
    /// from, in an axis of `len` elements.
    "fold"        = Fold(Fold),  Reduce,    Exactly(1), fold::infer,        Rule(fold::grad), Derived(fold::fold) => Shard(sh::beside);
    /// The largest element of each window over the last two axes of `[.., channels, height,
    /// width]`, or NaN if an element is NaN. Of equal largest elements the first gets all of the
    /// gradient.
    "max_pool2d"  = MaxPool2d(Pool), Reduce, Exactly(1), pool::infer,       Rule(pool::max_grad), Derived(pool::max) => Shard(sh::pool);
    /// The operand with the elements of some axes in reverse order.
    "flip"        = Flip(Axes),  Move,      Exactly(1), part::infer_flip, Rule(part::flip_grad), Derived(part::flip) => Shard(sh::beside);
    /// x with a strided range of an axis replaced: `slice_assign x, value`.
    "slice_assign" = SliceAssign(Slice), Move, Exactly(2), part::infer_assign, Rule(part::assign_grad), Derived(part::assign) => Shard(sh::beside);
    /// A base with whole slices replaced at the positions of an index: `index_copy base, index,
    /// src`. Slices for the same position are added up.
    "index_copy"  = IndexCopy(Axis), Gather, Exactly(3), ty::index_add, Through,          Derived(part::index_copy);
    /// A base with `src[..i..]` put at position `index[..i..]` of an axis: `scatter base, index,
    /// src`. Elements for the same position are added up.
    "scatter"     = Scatter(Axis), Gather,  Exactly(3), ty::scatter_add, Through,         Derived(part::scatter) => Shard(sh::beside);
    /// The largest of an element of a base and of all that comes to its place: `scatter_max base,
    /// index, src` brings `src[..i..]` to position `index[..i..]` of an axis. NaN if one of them is.
    /// Equal largest elements share the gradient equally.
    "scatter_max" = ScatterMax(Axis), Gather, Exactly(3), ty::scatter_add, Rule(meet::extremum_grad), Derived(meet::scatter) => Shard(sh::beside);
    /// As `scatter_max`, the smallest.
    "scatter_min" = ScatterMin(Axis), Gather, Exactly(3), ty::scatter_add, Rule(meet::extremum_grad), Derived(meet::scatter) => Shard(sh::beside);
    /// As `scatter_max`, the product.
    "scatter_mul" = ScatterMul(Axis), Gather, Exactly(3), ty::scatter_add, Through,       Derived(meet::scatter) => Shard(sh::beside);
    /// A loop that carries values from each round to the next: `scan carried.., scanned.., same..`,
    /// as `lax.scan` of JAX. A round computes a body of the carried values, of a slice of each
    /// scanned operand along its first axis, and of what is the same in all rounds. It gives the
    /// values that are carried on, then a slice of each result that is stacked. The result of the
    /// op is a line of the elements of all carried and all stacked results of one dtype.
    "scan"        = Scan(Scan),  Gather,    Variadic,   loops::infer,   Rule(loops::scan_grad), Derived(loops::unroll) => Keeps;
    /// A choice between two functions of the same arguments: `cond condition, arguments..`, as
    /// `lax.cond` of JAX. The condition is one `bool`. Engines may compute both functions, and an
    /// index outside of its axis is then an error in either. The gradient is a choice, too: what the
    /// other function has for a gradient, such as NaN, does not matter. The result of the op is a
    /// line of the elements of all results of one dtype.
    "cond"        = Cond(Cond),  Gather,    Variadic,   branches::infer, Rule(branches::grad), Derived(branches::both) => Keeps;
}
}

/// Why a text is not an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseOpError {
    /// No row has this name.
    Unknown,
    /// The attribute is missing, superfluous or malformed; holds the right spelling, empty when the
    /// op takes none.
    Attribute(&'static str),
}

impl OpKind {
    /// The op's name.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether engines implement it.
    pub const fn is_primitive(self) -> bool {
        matches!(self.spec().meaning, Meaning::Primitive)
    }
}

impl Op {
    /// The op's row.
    pub const fn spec(&self) -> &'static OpSpec {
        self.kind().spec()
    }

    /// The op's name.
    pub const fn name(&self) -> &'static str {
        self.spec().name
    }

    /// The number of instructions that it stands for: those of all rounds of a loop and of both
    /// functions of a choice, and 1 for any other op.
    pub fn work(&self) -> usize {
        match self {
            Op::Scan(scan) => scan.work(),
            Op::Cond(cond) => cond.work(),
            _ => 1,
        }
    }

    /// The op on a part of its operands whose result has this type: an attribute that states the
    /// shape of the result follows, and names of dimensions are left out.
    #[must_use]
    pub fn resized(&self, part: &Type) -> Op {
        match self {
            Op::Reshape(_) => Op::Reshape(part.shape.unnamed()),
            Op::Expand(_) => Op::Expand(part.shape.unnamed()),
            _ => self.unnamed(),
        }
    }
}

/// The type of `op` applied to operands of these types.
///
/// ```
/// use gt_ir::{Op, OperandType, Scalar, infer};
/// let x = OperandType::Tensor("i64[Batch=32,1]".parse()?);
/// let row = OperandType::Tensor("f32[10]".parse()?);
/// assert_eq!(infer(&Op::Add, &[x, row])?.to_string(), "f32[Batch=32,10]");
/// // A literal does not change the dtype of a tensor of its category or a higher one.
/// let two = OperandType::Scalar(Scalar::I64(2));
/// assert_eq!(infer(&Op::Mul, &[row, two])?.to_string(), "f32[10]");
/// # Ok::<(), gt_ir::OpError>(())
/// ```
///
/// # Errors
/// Wrong number of operands, or shapes, dtypes or attributes that do not fit; the message names the
/// op and the operands.
pub fn infer(op: &Op, ins: &[OperandType]) -> Result<Type, OpError> {
    let spec = op.spec();
    let fits = match spec.arity {
        Exactly(n) => ins.len() == n,
        Between(low, high) => (low..=high).contains(&ins.len()),
        Variadic => !ins.is_empty(),
    };
    if !fits {
        let wants = match spec.arity {
            Exactly(1) => "1 operand".to_owned(),
            Exactly(n) => format!("{n} operands"),
            Between(low, high) => format!("{low} to {high} operands"),
            Variadic => "at least 1 operand".to_owned(),
        };
        return Err(OpError::new(format!("{}: takes {wants}, but got {}", spec.name, ins.len())));
    }
    (spec.infer)(op, ins)
}

/// The factors of `op` on operands of these types, whose result has type `out`: how it may be
/// computed by parts. None where it cannot be.
pub fn factors(op: &Op, ins: &[OperandType], out: &Type) -> Option<Factors> {
    op.spec().marks.shard.and_then(|rule| rule(op, ins, out))
}

/// `sum[0,1]` into `sum` and `0,1`; the brackets must close at the end.
fn split_brackets(s: &str) -> Result<(&str, Option<&str>), ParseOpError> {
    match s.split_once('[') {
        None => Ok((s, None)),
        Some((head, rest)) => {
            rest.strip_suffix(']').map(|body| (head, Some(body))).ok_or(ParseOpError::Unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Keep;

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = OpKind::ALL.iter().map(|k| k.name()).collect();
        assert_eq!(names.len(), OpKind::ALL.len());
    }

    /// These are expanded on several workers. A primitive would be computed whole.
    #[test]
    fn rows_without_a_sharding_rule_are_few() {
        let without = |kind: &OpKind| {
            let spec = kind.spec();
            spec.class != Class::Source && spec.marks.shard.is_none()
        };
        let without = OpKind::ALL.iter().copied().filter(without);
        assert!(without.clone().all(|kind| !kind.is_primitive()));
        let names: Vec<&str> = without.map(OpKind::name).collect();
        assert_eq!(names, ["dropout", "index_copy", "scan", "cond"]);
    }

    #[test]
    fn an_axis_that_no_set_of_axes_can_have_is_refused() {
        let (x, axis) = (OperandType::Tensor("f32[2,3]".parse().unwrap()), Axis(91));
        let r = ReduceOne { axis: 91, keep: Keep::No };
        let order = Order { axis: 91, descending: false };
        let ops = [
            Op::Argmax(r),
            Op::Argmin(r),
            Op::ArgSort(order),
            Op::CumSum(axis),
            Op::CumProd(axis),
            Op::CumMax(axis),
            Op::CumMin(axis),
            Op::Softmax(axis),
            Op::LogSoftmax(axis),
        ];
        ops.iter().for_each(|op| assert!(infer(op, &[x]).is_err(), "{op}"));
    }

    #[test]
    fn text_round_trips() {
        let ops = "exp sum[] sum[0,1] sum[keep] sum[0,2,keep] argmax[1,keep] reshape[Batch=2,3] \
                   reshape[] permute[1,0] slice[0,1,5,2] pad[1,0,2,1] cast[bf16] full[f32[?=2,3]] \
                   one_hot[10] transpose[0,1] softmax[1] layer_norm[1]";
        for s in ops.split_whitespace() {
            assert_eq!(s.parse::<Op>().map(|o| o.to_string()).as_deref(), Ok(s));
        }
        for bad in [
            "sum",
            "exp[1]",
            "sum[0,0]",
            "sum[00]",
            "sum[8]",
            "permute[0,0]",
            "cast[f31]",
            "slice[0,1]",
            "sum[0",
            "sum[,keep]",
        ] {
            assert!(bad.parse::<Op>().is_err(), "{bad}");
        }
        assert_eq!("mathmul".parse::<Op>(), Err(ParseOpError::Unknown));
    }
}
