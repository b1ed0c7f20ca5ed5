//! The formulas of `f64`, on a vector of lanes of 64 bits.

use super::{
    ir::{Class, Function, Op, Reg, Source},
    isa::{self, Vectors},
    lanes::{FIRST_WHERE_SECOND, NOT_AT_MOST, call, predicate},
};
use crate::kernel::{
    formulas::{Compare, F64, Format, Formulas},
    host,
};

/// A function whose vectors are doubles, or integers of 64 bits.
pub(super) struct Doubles<'f>(pub(super) &'f mut Function);

impl Doubles<'_> {
    fn two(&mut self, op: isa::Packed, a: Source, b: Source) -> Source {
        let a = self.0.held(a);
        self.0.make(Op::Binary(op, None), &[a, b])
    }

    /// As `two`, where the order does not matter.
    fn either(&mut self, op: isa::Packed, a: Source, b: Source) -> Source {
        let swap = matches!((a, b), (Source::Wide(_), Source::Reg(_)));
        if swap { self.two(op, b, a) } else { self.two(op, a, b) }
    }

    fn compared(&mut self, op: isa::Packed, predicate: u8, a: Source, b: Source) -> Reg {
        let a = self.0.held(a);
        self.0.make_in(Class::Mask, Op::Compare(op, Some(predicate)), &[a, b])
    }

    fn shifted(&mut self, op: isa::Packed, v: Source, n: u8) -> Source {
        let v = self.0.held(v);
        self.0.make(Op::Shift(op, n), &[v])
    }

    /// The instruction orders zeros by sign, but prefers numbers to NaN.
    pub(super) fn extremum(&mut self, range: Op, a: Source, b: Source) -> Source {
        let chosen = self.0.long_binary(range, a, b);
        let unordered = self.fcmp(Compare::Unordered, a, b);
        self.0.long_select(unordered, Source::Wide(u64::MAX), chosen)
    }
}

impl Formulas for Doubles<'_> {
    type V = Source;
    type M = Reg;

    const FORMAT: &'static Format = &F64;

    fn float(&mut self, v: f64) -> Source {
        Source::Wide(v.to_bits())
    }
    fn word(&mut self, bits: u64) -> Source {
        Source::Wide(bits)
    }
    fn fadd(&mut self, a: Source, b: Source) -> Source {
        self.either(isa::VADDPD, a, b)
    }
    fn fsub(&mut self, a: Source, b: Source) -> Source {
        self.two(isa::VSUBPD, a, b)
    }
    fn fmul(&mut self, a: Source, b: Source) -> Source {
        self.either(isa::VMULPD, a, b)
    }
    fn fdiv(&mut self, a: Source, b: Source) -> Source {
        self.two(isa::VDIVPD, a, b)
    }
    fn fabs(&mut self, v: Source) -> Source {
        self.either(isa::VPANDQ, v, Source::Wide(u64::MAX >> 1))
    }
    fn fma(&mut self, a: Source, b: Source, c: Source) -> Source {
        let (a, b) = (self.0.held(a), self.0.held(b));
        self.0.make(Op::MulAdd { wide: true }, &[a, b, c])
    }
    fn iadd(&mut self, a: Source, b: Source) -> Source {
        self.either(isa::VPADDQ, a, b)
    }
    fn isub(&mut self, a: Source, b: Source) -> Source {
        self.two(isa::VPSUBQ, a, b)
    }
    fn and(&mut self, a: Source, b: Source) -> Source {
        self.either(isa::VPANDQ, a, b)
    }
    fn or(&mut self, a: Source, b: Source) -> Source {
        self.either(isa::VPORQ, a, b)
    }
    fn xor(&mut self, a: Source, b: Source) -> Source {
        self.either(isa::VPXORQ, a, b)
    }
    fn shl(&mut self, v: Source, n: u8) -> Source {
        self.shifted(isa::VPSLLQ, v, n)
    }
    fn shr(&mut self, v: Source, n: u8) -> Source {
        self.shifted(isa::VPSRLQ, v, n)
    }
    fn fcmp(&mut self, how: Compare, a: Source, b: Source) -> Reg {
        self.compared(isa::VCMPPD, predicate(how), a, b)
    }
    fn icmp_ne(&mut self, a: Source, b: Source) -> Reg {
        self.compared(isa::VPCMPQ, 4, a, b)
    }
    fn select(&mut self, m: Reg, a: Source, b: Source) -> Source {
        self.0.long_select(m, a, b)
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
        let unusual = self.compared(isa::VCMPPD, NOT_AT_MOST, size, limit);
        self.0.host_where(unusual, call(function, true), &args, fast)
    }

    // Whole steps in one instruction; some of them need AVX-512.

    fn clamp(&mut self, x: Source, [low, high]: [f64; 2]) -> Source {
        let (low, high) = (self.float(low), self.float(high));
        // The second operand where the comparison fails, as of a NaN.
        let x = self.two(isa::VMINPD, high, x);
        self.two(isa::VMAXPD, low, x)
    }
    fn scale(&mut self, p: Source, int: Source, n: Source) -> Source {
        match self.0.vectors {
            Vectors::Ymm => self.scale_in_steps(p, int),
            Vectors::Zmm => self.two(isa::VSCALEFPD, p, n),
        }
    }
    fn power(&mut self, int: Source, n: Source) -> Source {
        match self.0.vectors {
            Vectors::Ymm => self.exp2_int(int),
            Vectors::Zmm => self.two(isa::VSCALEFPD, Source::Wide(1f64.to_bits()), n),
        }
    }
    fn with_sign_of(&mut self, v: Source, x: Source) -> Source {
        if self.0.vectors == Vectors::Ymm {
            return self.magnitude_and_sign(v, x);
        }
        let (v, x) = (self.0.held(v), self.0.held(x));
        let sign = self.0.held(Source::Wide(F64.sign()));
        self.0.make(Op::Lookup(FIRST_WHERE_SECOND), &[x, sign, v])
    }
}
