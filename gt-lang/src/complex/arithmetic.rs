//! Sums, products and quotients, with shapes that broadcast.
//!
//! Quotients of complex numbers are Smith's (1962, Algorithm 116): with |c| >= |d| and r = d / c,
//! (a + bi) / (c + di) is ((a + b r) + (b - a r) i) / (c + d r), and likewise with c and d
//! exchanged. No square of a part is taken, so nothing overflows unless parts come within a factor
//! of two of the largest number. PyTorch and NumPy divide in this way.

use gt_ir::{Op, OpError};

use super::arg::Term;
use super::parts::nonzero;
use super::{Complex, ComplexArg, ComplexTensor};
use crate::core::{Arg, DynTensor};
use crate::fft;

macro_rules! methods {
    ($($(#[$doc:meta])+ $name:ident => $function:ident;)+) => {
        impl ComplexTensor {$(
            $(#[$doc])+
            #[must_use]
            #[track_caller]
            pub fn $name<'a>(&'a self, other: impl Into<ComplexArg<'a>>) -> ComplexTensor {
                $function(ComplexArg::Complex(self), other.into())
            }
        )+}
    };
}

methods! {
    /// The sum with complex or real numbers; shapes broadcast. Also written `z + w`.
    add => sum;
    /// The difference with complex or real numbers; shapes broadcast. Also written `z - w`.
    sub => difference;
    /// The product with complex or real numbers, element by element; shapes broadcast. Also written
    /// `z * w`.
    mul => product;
    /// The quotient by complex or real numbers; shapes broadcast. Also written `z / w`.
    div => quotient;
}

impl ComplexTensor {
    /// The opposite numbers. Also written `-z`.
    #[must_use]
    #[track_caller]
    pub fn neg(&self) -> ComplexTensor {
        ComplexTensor::of(self.pairs.neg())
    }

    /// One over each number.
    #[must_use]
    #[track_caller]
    pub fn reciprocal(&self) -> ComplexTensor {
        quotient(ComplexArg::from(1.0), ComplexArg::Complex(self))
    }

    /// Each number times itself.
    #[must_use]
    #[track_caller]
    pub fn square(&self) -> ComplexTensor {
        self.mul(self)
    }
}

#[track_caller]
pub(super) fn sum(x: ComplexArg<'_>, y: ComplexArg<'_>) -> ComplexTensor {
    part_by_part(Op::Add, x, y)
}

#[track_caller]
pub(super) fn difference(x: ComplexArg<'_>, y: ComplexArg<'_>) -> ComplexTensor {
    part_by_part(Op::Sub, x, y)
}

/// An op that treats both parts alike; one of the operands is a tensor.
#[track_caller]
fn part_by_part(op: Op, x: ComplexArg<'_>, y: ComplexArg<'_>) -> ComplexTensor {
    match (x.term(), y.term()) {
        (Term::Pairs(x), Term::Pairs(y)) => {
            ComplexTensor::of(record(op, Arg::Tensor(&x), Arg::Tensor(&y)))
        }
        (Term::Pairs(x), Term::Number(y)) => {
            let [a, b] = ComplexTensor::of(x).parts();
            let re = record(op, Arg::Tensor(&a), Arg::from(y.re));
            ComplexTensor::joined(&re, &record(op, Arg::Tensor(&b), Arg::from(y.im)))
        }
        (Term::Number(x), Term::Pairs(y)) => {
            let [a, b] = ComplexTensor::of(y).parts();
            let re = record(op, Arg::from(x.re), Arg::Tensor(&a));
            ComplexTensor::joined(&re, &record(op, Arg::from(x.im), Arg::Tensor(&b)))
        }
        (Term::Number(x), Term::Number(_)) => of_no_tensor(x),
    }
}

#[track_caller]
fn record(op: Op, x: Arg<'_>, y: Arg<'_>) -> DynTensor {
    DynTensor::record(op, &[x, y])
}

/// Operators and methods have a tensor on one side, so this is never asked for.
#[track_caller]
fn of_no_tensor(number: Complex<f64>) -> ComplexTensor {
    let error = OpError::new("complex numbers: an operation of two numbers, and no tensor");
    ComplexTensor::scalar(number).refused(error)
}

/// Products: two multiplications for real factors, four for complex ones.
#[track_caller]
pub(super) fn product(x: ComplexArg<'_>, y: ComplexArg<'_>) -> ComplexTensor {
    match (x, y) {
        (ComplexArg::Complex(x), ComplexArg::Complex(y)) => {
            ComplexTensor::of(fft::mul(&x.pairs, &y.pairs))
        }
        (ComplexArg::Complex(z), ComplexArg::Real(Arg::Tensor(r)))
        | (ComplexArg::Real(Arg::Tensor(r)), ComplexArg::Complex(z)) => {
            ComplexTensor::of(&z.pairs * r.unsqueeze(-1))
        }
        (ComplexArg::Complex(z), ComplexArg::Real(number))
        | (ComplexArg::Real(number), ComplexArg::Complex(z)) => {
            ComplexTensor::of(z.pairs.mul(number))
        }
        (ComplexArg::Complex(z), ComplexArg::Number(w))
        | (ComplexArg::Number(w), ComplexArg::Complex(z)) => {
            let [re, im] = z.parts();
            ComplexTensor::of(fft::times([&re, &im], [Arg::from(w.re), Arg::from(w.im)]))
        }
        (ComplexArg::Real(Arg::Tensor(r)), other) | (other, ComplexArg::Real(Arg::Tensor(r))) => {
            product(ComplexArg::Complex(&ComplexTensor::from_real(r)), other)
        }
        (ComplexArg::Real(Arg::Scalar(_)) | ComplexArg::Number(_), _) => of_no_tensor(Complex::i()),
    }
}

#[track_caller]
pub(super) fn quotient(x: ComplexArg<'_>, y: ComplexArg<'_>) -> ComplexTensor {
    match (x, y) {
        (_, ComplexArg::Complex(y)) => {
            let [c, d] = y.parts();
            let is_flat = c.abs().ge(&d.abs());
            let (large, small) = (is_flat.where_(&c, &d), is_flat.where_(&d, &c));
            let ratio = small / nonzero(&large);
            let (wide, high) = (is_flat.where_(1.0, &ratio), is_flat.where_(&ratio, 1.0));
            // Both 0: parts are divided by 0, so that there is an infinity for each that is not 0.
            let none = large.eq(0.0);
            let over = none.where_(0.0, &(c * &wide + d * &high));
            divided(x, [Arg::Tensor(&wide), Arg::Tensor(&high)], Arg::Tensor(&over))
        }
        (ComplexArg::Complex(z), ComplexArg::Real(Arg::Tensor(r))) => {
            ComplexTensor::of(&z.pairs / r.unsqueeze(-1))
        }
        (ComplexArg::Complex(z), ComplexArg::Real(number)) => {
            ComplexTensor::of(z.pairs.div(number))
        }
        (ComplexArg::Complex(_), ComplexArg::Number(w)) => {
            let (wide, high) = match w.re.abs() >= w.im.abs() {
                true if w.re == 0.0 => (1.0, 0.0),
                true => (1.0, w.im / w.re),
                false => (w.re / w.im, 1.0),
            };
            let over = Arg::from(w.re * wide + w.im * high);
            divided(x, [Arg::from(wide), Arg::from(high)], over)
        }
        (ComplexArg::Real(Arg::Tensor(r)), _) => {
            quotient(ComplexArg::Complex(&ComplexTensor::from_real(r)), y)
        }
        (_, ComplexArg::Real(Arg::Tensor(r))) => {
            quotient(x, ComplexArg::Complex(&ComplexTensor::from_real(r)))
        }
        (ComplexArg::Real(Arg::Scalar(_)) | ComplexArg::Number(_), _) => of_no_tensor(Complex::i()),
    }
}

/// `(a + bi) (wide - high i) / over`.
#[track_caller]
fn divided(x: ComplexArg<'_>, [wide, high]: [Arg<'_>; 2], over: Arg<'_>) -> ComplexTensor {
    let parts;
    let [a, b] = match x {
        ComplexArg::Complex(x) => {
            parts = x.parts();
            [Arg::Tensor(&parts[0]), Arg::Tensor(&parts[1])]
        }
        ComplexArg::Number(x) => [Arg::from(x.re), Arg::from(x.im)],
        ComplexArg::Real(a) => {
            let (re, im) = (record(Op::Mul, a, wide), record(Op::Mul, a, high).neg());
            return ComplexTensor::joined(&re.div(over), &im.div(over));
        }
    };
    let re = record(Op::Mul, a, wide) + record(Op::Mul, b, high);
    let im = record(Op::Mul, b, wide) - record(Op::Mul, a, high);
    ComplexTensor::joined(&re.div(over), &im.div(over))
}
