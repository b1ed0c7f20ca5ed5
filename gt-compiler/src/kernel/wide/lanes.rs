//! Arithmetic on lanes of 32 bits.
//!
//! A dtype lies in a register as in the Cranelift path (`super::super::lanes`), save that a `bool`
//! is a mask. Dtypes of eight bytes are in `pairs`. Where the processor does a whole step of a
//! formula in one instruction, it gives the same bits.

mod cast;
mod ops;

use super::{
    Unsupported,
    ir::{Class, Function, Inst, Op, Reg, Source},
    isa::{self, Vectors},
};
use crate::kernel::{
    formulas::{Compare, F32, Format, Formulas},
    host,
    spec::Unary,
};

/// The lower half of the lanes, then the upper.
pub(super) type Pair = [Source; 2];

/// A value of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Lanes(Source),
    Pair(Pair),
    Mask(Reg),
}

/// Instructions on two vectors.
const ADD: Op = Op::Binary(isa::VADDPS, None);
const SUB: Op = Op::Binary(isa::VSUBPS, None);
const MUL: Op = Op::Binary(isa::VMULPS, None);
const DIV: Op = Op::Binary(isa::VDIVPS, None);
const MIN: Op = Op::Binary(isa::VMINPS, None);
const MAX: Op = Op::Binary(isa::VMAXPS, None);
const SCALE: Op = Op::Binary(isa::VSCALEFPS, None);
const RANGE_MIN: Op = Op::Binary(isa::VRANGEPS, Some(0b0100));
const RANGE_MAX: Op = Op::Binary(isa::VRANGEPS, Some(0b0101));
const IADD: Op = Op::Binary(isa::VPADDD, None);
const ISUB: Op = Op::Binary(isa::VPSUBD, None);
const IMUL: Op = Op::Binary(isa::VPMULLD, None);
const IMAX: Op = Op::Binary(isa::VPMAXSD, None);
const IMIN: Op = Op::Binary(isa::VPMINSD, None);
const AND: Op = Op::Binary(isa::VPANDD, None);
const OR: Op = Op::Binary(isa::VPORD, None);
const XOR: Op = Op::Binary(isa::VPXORD, None);
/// A count of all bits or more, which a negative one is too, leaves 0 or the sign.
const LEFT_SHIFT: Op = Op::Binary(isa::VPSLLVD, None);
const RIGHT_SHIFT: Op = Op::Binary(isa::VPSRAVD, None);
const SQRT: Op = Op::Unary(isa::VSQRTPS);
const IABS: Op = Op::Unary(isa::VPABSD);
const TO_FLOAT: Op = Op::Unary(isa::VCVTDQ2PS);
const TO_INT: Op = Op::Unary(isa::VCVTTPS2DQ);
/// Keeps the result where the first source is a number, and makes of its NaN a quiet one.
const QUIET_NAN: Op = Op::Binary(isa::VFIXUPIMMPS, Some(0));
const TEST: Op = Op::Compare(isa::VPTESTMD, None);
const K_AND: Op = Op::MaskBinary(isa::KANDW);
const K_AND_NOT: Op = Op::MaskBinary(isa::KANDNW);
const K_OR: Op = Op::MaskBinary(isa::KORW);
const K_XNOR: Op = Op::MaskBinary(isa::KXNORW);
const K_XOR: Op = Op::MaskBinary(isa::KXORW);

pub(super) const fn call(function: host::Function, wide: bool) -> Op {
    Op::Call { function, wide }
}

/// A float comparison by its predicate.
const fn compare(predicate: u8) -> Op {
    Op::Compare(isa::VCMPPS, Some(predicate))
}

const fn icompare(predicate: u8) -> Op {
    Op::Compare(isa::VPCMPD, Some(predicate))
}

/// True of NaN, too.
pub(super) const NOT_AT_MOST: u8 = 0x16;

/// The number of a comparison.
pub(super) const fn predicate(how: Compare) -> u8 {
    match how {
        Compare::Equal => 0x00,
        Compare::LessThan => 0x11,
        Compare::GreaterThan => 0x1e,
        Compare::GreaterThanOrEqual => 0x1d,
        Compare::Unordered => 0x03,
    }
}

/// How `Op::Round` rounds, without a word of what is inexact.
const NEAREST: u8 = 8;
pub(super) const DOWN: u8 = NEAREST | 1;
const UP: u8 = NEAREST | 2;
pub(super) const TOWARDS_ZERO: u8 = NEAREST | 3;

/// How an operation rounds to integers, if it does.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others do not round to integers")]
pub(super) fn rounding(op: Unary) -> Option<u8> {
    Some(match op {
        Unary::Floor => DOWN,
        Unary::Ceil => UP,
        Unary::Trunc => TOWARDS_ZERO,
        Unary::Round => NEAREST,
        _ => return None,
    })
}

/// Bits of the first source where the second has ones, of the third elsewhere.
pub(super) const FIRST_WHERE_SECOND: u8 = 0b1110_0010;

impl Function {
    pub(super) fn make(&mut self, op: Op, sources: &[Source]) -> Source {
        Source::Reg(self.make_in(Class::Vector, op, sources))
    }

    fn make_mask(&mut self, op: Op, sources: &[Source]) -> Reg {
        self.make_in(Class::Mask, op, sources)
    }

    pub(super) fn make_in(&mut self, class: Class, op: Op, sources: &[Source]) -> Reg {
        let dst = self.reg(class);
        self.push(Inst::new(op, Some(dst), sources));
        dst
    }

    /// A source anywhere but last.
    pub(super) fn held(&mut self, v: Source) -> Source {
        Source::Reg(self.register(v))
    }

    /// A register with the value.
    pub(super) fn register(&mut self, v: Source) -> Reg {
        match v {
            Source::Reg(r) => r,
            Source::Const(_) => self.constant(Op::Splat { wide: false }, &[v]),
            Source::Wide(_) => self.constant(Op::Splat { wide: true }, &[v]),
        }
    }

    fn two(&mut self, op: Op, a: Source, b: Source) -> Source {
        let a = self.held(a);
        self.make(op, &[a, b])
    }

    /// As `two`, where the order does not matter.
    fn either(&mut self, op: Op, a: Source, b: Source) -> Source {
        let swap = matches!((a, b), (Source::Const(_), Source::Reg(_)));
        if swap { self.two(op, b, a) } else { self.two(op, a, b) }
    }

    fn compared(&mut self, op: Op, a: Source, b: Source) -> Reg {
        let a = self.held(a);
        self.make_mask(op, &[a, b])
    }

    pub(super) fn masks(&mut self, op: Op, a: Reg, b: Reg) -> Reg {
        self.make_mask(op, &[Source::Reg(a), Source::Reg(b)])
    }

    /// 0 or 1 of a mask, or another constant in place of 1.
    pub(super) fn of_mask(&mut self, mask: Reg, one: u32) -> Source {
        let dst = self.reg(Class::Vector);
        self.push(Inst {
            mask: Some(mask),
            ..Inst::new(Op::MaskedConst, Some(dst), &[Source::Const(one)])
        });
        Source::Reg(dst)
    }

    pub(super) fn nonzero(&mut self, v: Source) -> Reg {
        let v = self.held(v);
        self.make_mask(TEST, &[v, v])
    }

    /// `fast`, in place of which unusual lanes have what the host's function gives. The other lanes
    /// have the value they would have had without.
    pub(super) fn host_where(
        &mut self,
        unusual: Reg,
        call: Op,
        args: &[Source],
        fast: Source,
    ) -> Source {
        let wide = matches!(call, Op::Call { wide: true, .. });
        let out = self.make_in(Class::Vector, Op::Move { wide }, &[fast]);
        let inst = Inst::new(call, Some(out), args);
        self.push(Inst { mask: Some(unusual), merge: true, ..inst });
        Source::Reg(out)
    }

    /// Each lane exchanged with the one so many lanes away.
    pub(super) fn exchanged(&mut self, v: Source, distance: usize) -> Source {
        let v = self.held(v);
        self.make(Op::Exchange(distance), &[v])
    }
}

impl Formulas for Function {
    type V = Source;
    type M = Reg;

    const FORMAT: &'static Format = &F32;

    fn float(&mut self, v: f64) -> Source {
        Source::Const((v as f32).to_bits())
    }
    fn word(&mut self, bits: u64) -> Source {
        Source::Const(bits as u32)
    }
    fn fadd(&mut self, a: Source, b: Source) -> Source {
        self.either(ADD, a, b)
    }
    fn fsub(&mut self, a: Source, b: Source) -> Source {
        self.two(SUB, a, b)
    }
    fn fmul(&mut self, a: Source, b: Source) -> Source {
        self.either(MUL, a, b)
    }
    fn fdiv(&mut self, a: Source, b: Source) -> Source {
        self.two(DIV, a, b)
    }
    fn fabs(&mut self, v: Source) -> Source {
        self.either(AND, v, Source::Const(0x7fff_ffff))
    }
    fn fma(&mut self, a: Source, b: Source, c: Source) -> Source {
        let (a, b) = (self.held(a), self.held(b));
        self.make(Op::MulAdd { wide: false }, &[a, b, c])
    }
    fn iadd(&mut self, a: Source, b: Source) -> Source {
        self.either(IADD, a, b)
    }
    fn isub(&mut self, a: Source, b: Source) -> Source {
        self.two(ISUB, a, b)
    }
    fn and(&mut self, a: Source, b: Source) -> Source {
        self.either(AND, a, b)
    }
    fn or(&mut self, a: Source, b: Source) -> Source {
        self.either(OR, a, b)
    }
    fn xor(&mut self, a: Source, b: Source) -> Source {
        self.either(XOR, a, b)
    }
    fn shl(&mut self, v: Source, n: u8) -> Source {
        let v = self.held(v);
        self.make(Op::Shift(isa::VPSLLD, n), &[v])
    }
    fn shr(&mut self, v: Source, n: u8) -> Source {
        let v = self.held(v);
        self.make(Op::Shift(isa::VPSRLD, n), &[v])
    }
    fn fcmp(&mut self, how: Compare, a: Source, b: Source) -> Reg {
        self.compared(compare(predicate(how)), a, b)
    }
    fn icmp_ne(&mut self, a: Source, b: Source) -> Reg {
        self.compared(icompare(4), a, b)
    }
    fn select(&mut self, m: Reg, a: Source, b: Source) -> Source {
        let (b, dst) = (self.held(b), self.reg(Class::Vector));
        self.push(Inst {
            mask: Some(m),
            ..Inst::new(Op::Blend { wide: false }, Some(dst), &[b, a])
        });
        Source::Reg(dst)
    }
    fn as_int(&mut self, v: Source) -> Source {
        v
    }
    fn as_float(&mut self, v: Source) -> Source {
        v
    }
    fn unless<const N: usize>(
        &mut self,
        of: Source,
        limit: f64,
        fast: Source,
        (function, args): (host::Function, [Source; N]),
    ) -> Source {
        let (size, limit) = (self.fabs(of), self.float(limit));
        let unusual = self.compared(compare(NOT_AT_MOST), size, limit);
        self.host_where(unusual, call(function, false), &args, fast)
    }

    // Whole steps in one instruction; some of them need AVX-512.

    fn clamp(&mut self, x: Source, [low, high]: [f64; 2]) -> Source {
        let (low, high) = (self.float(low), self.float(high));
        let x = self.two(MIN, high, x); // the second where the comparison fails, as of a NaN
        self.two(MAX, low, x)
    }
    fn scale(&mut self, p: Source, int: Source, n: Source) -> Source {
        match self.vectors {
            Vectors::Ymm => self.scale_in_steps(p, int),
            Vectors::Zmm => self.two(SCALE, p, n),
        }
    }
    fn power(&mut self, int: Source, n: Source) -> Source {
        match self.vectors {
            Vectors::Ymm => self.exp2_int(int),
            Vectors::Zmm => self.two(SCALE, Source::Const(1f32.to_bits()), n),
        }
    }
    fn with_sign_of(&mut self, v: Source, x: Source) -> Source {
        if self.vectors == Vectors::Ymm {
            return self.magnitude_and_sign(v, x);
        }
        let (v, x) = (self.held(v), self.held(x));
        let sign = self.held(Source::Const(0x8000_0000));
        self.make(Op::Lookup(FIRST_WHERE_SECOND), &[x, sign, v])
    }
}
