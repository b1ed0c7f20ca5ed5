//! Arithmetic on lanes of 64 bits that vectors of 256 bits have no instruction for, in terms of
//! what they have. The bits are those of the missing instruction.

use super::{
    ir::{Class, Function, Inst, Op, Reg, Source},
    isa::{self, Vectors},
    lanes,
};

const ADD: Op = Op::Binary(isa::VPADDQ, None);
const SUB: Op = Op::Binary(isa::VPSUBQ, None);
const XOR: Op = Op::Binary(isa::VPXORQ, None);
const AND: Op = Op::Binary(isa::VPANDQ, None);
const OR: Op = Op::Binary(isa::VPORQ, None);
/// The product of the lower halves of lanes.
const HALF_PRODUCT: Op = Op::Binary(isa::VPMULUDQ, None);
const LOGICAL_DOWN: Op = Op::Binary(isa::VPSRLVQ, None);
const LESS: Op = Op::Compare(isa::VPCMPQ, Some(1));
const MAX: Op = Op::Binary(isa::VMAXPD, None);
const MIN: Op = Op::Binary(isa::VMINPD, None);
const FLOAT_ADD: Op = Op::Binary(isa::VADDPD, None);
const FLOAT_SUB: Op = Op::Binary(isa::VSUBPD, None);
const MUL: Op = Op::Binary(isa::VMULPD, None);
const DIV: Op = Op::Binary(isa::VDIVPD, None);
const HALF_UP: Op = Op::Shift(isa::VPSLLQ, 32);
const HALF_DOWN: Op = Op::Shift(isa::VPSRLQ, 32);
const DOWN: Op = Op::Round { wide: true, how: lanes::DOWN };
const TOWARDS_ZERO: Op = Op::Round { wide: true, how: lanes::TOWARDS_ZERO };
const TWO_TO_52: u64 = 0x4330_0000_0000_0000;
/// `vrangepd` by its number: the larger of two.
const LARGER: u8 = 0b0101;

impl Function {
    /// `op a` of lanes of 64 bits.
    pub(super) fn long_unary(&mut self, op: Op, a: Source) -> Source {
        match (self.vectors, op) {
            (Vectors::Ymm, Op::Unary(isa::VPABSQ)) => self.long_abs(a),
            (Vectors::Ymm, Op::Unary(isa::VCVTQQ2PD)) => self.long_to_double(a),
            (Vectors::Ymm, Op::Unary(isa::VCVTQQ2PS)) => self.long_to_float(a),
            (Vectors::Ymm, Op::Unary(isa::VCVTTPD2QQ)) => self.double_to_integer(a),
            _ => self.make(op, &[a]),
        }
    }

    /// `a op b` of lanes of 64 bits.
    pub(super) fn long_binary(&mut self, op: Op, a: Source, b: Source) -> Source {
        match (self.vectors, op) {
            (Vectors::Ymm, Op::Binary(isa::VPMULLQ, _)) => self.long_product(a, b),
            (Vectors::Ymm, Op::Binary(isa::VPMAXSQ, _)) => {
                let less = self.make_in(Class::Mask, LESS, &[a, b]);
                self.long_select(less, b, a)
            }
            (Vectors::Ymm, Op::Binary(isa::VPMINSQ, _)) => {
                let less = self.make_in(Class::Mask, LESS, &[a, b]);
                self.long_select(less, a, b)
            }
            (Vectors::Ymm, Op::Binary(isa::VPSRAVQ, _)) => self.long_shift_down(a, b),
            (Vectors::Ymm, Op::Binary(isa::VRANGEPD, range)) => {
                let (op, both) = if range == Some(LARGER) { (MAX, AND) } else { (MIN, OR) };
                self.double_extremum(op, both, a, b)
            }
            _ => self.make(op, &[a, b]),
        }
    }

    /// `a / by` of integers from 0 to below 2^52, whose quotient is below 2^32, rounded down by way
    /// of doubles. These are exact here: a quotient that is not whole lies further below the next
    /// whole number than a double is wrong.
    pub(super) fn long_quotient(&mut self, a: Source, by: i32) -> Source {
        let number = self.make(OR, &[a, Source::Wide(TWO_TO_52)]);
        let number = self.make(FLOAT_SUB, &[number, Source::Wide(TWO_TO_52)]);
        let quotient = self.make(DIV, &[number, Source::Wide(f64::from(by).to_bits())]);
        let quotient = self.make(DOWN, &[quotient]);
        // The bits of an integer below 2^32 are the low ones of its sum with 2^52.
        let bits = self.make(FLOAT_ADD, &[quotient, Source::Wide(TWO_TO_52)]);
        self.make(XOR, &[bits, Source::Wide(TWO_TO_52)])
    }

    /// `a` where the mask's lower half holds, else `b`.
    pub(super) fn long_select(&mut self, mask: Reg, a: Source, b: Source) -> Source {
        let (b, dst) = (self.held(b), self.reg(Class::Vector));
        let op = Op::Blend { wide: true };
        self.push(Inst { mask: Some(mask), ..Inst::new(op, Some(dst), &[b, a]) });
        Source::Reg(dst)
    }

    /// Of two zeros these instructions give the second one. Both orders together have its sign.
    fn double_extremum(&mut self, op: Op, both: Op, a: Source, b: Source) -> Source {
        let (a, b) = (self.held(a), self.held(b));
        let (second, first) = (self.make(op, &[a, b]), self.make(op, &[b, a]));
        self.make(both, &[first, second])
    }

    fn long_abs(&mut self, a: Source) -> Source {
        let zero = self.held(Source::Wide(0));
        let (minus, negative) =
            (self.make(SUB, &[zero, a]), self.make_in(Class::Mask, LESS, &[a, zero]));
        self.long_select(negative, minus, a)
    }

    /// The bits of a negative number are turned, moved with zeros behind them, and turned again.
    fn long_shift_down(&mut self, a: Source, count: Source) -> Source {
        let a = self.held(a);
        let zero = self.held(Source::Wide(0));
        let negative = self.make_in(Class::Mask, LESS, &[a, zero]);
        let signs = self.long_select(negative, Source::Wide(u64::MAX), zero);
        let turned = self.make(XOR, &[a, signs]);
        let moved = self.make(LOGICAL_DOWN, &[turned, count]);
        self.make(XOR, &[moved, signs])
    }

    /// By halves; the product of the upper ones is beyond the lane.
    fn long_product(&mut self, a: Source, b: Source) -> Source {
        let (a, b) = (self.held(a), self.held(b));
        let [a_up, b_up] = [a, b].map(|v| self.make(HALF_DOWN, &[v]));
        let [left, right] = [(a_up, b), (a, b_up)].map(|(x, y)| self.make(HALF_PRODUCT, &[x, y]));
        let cross = self.make(ADD, &[left, right]);
        let cross = self.make(HALF_UP, &[cross]);
        let low = self.make(HALF_PRODUCT, &[a, b]);
        self.make(ADD, &[low, cross])
    }

    /// Each half stands in the low bits of a large power of two. Only the last sum rounds.
    fn long_to_double(&mut self, a: Source) -> Source {
        /// 2^84, and 2^63 in its low bits, which makes the upper half positive.
        const TWO_TO_84: u64 = 0x4530_0000_8000_0000;
        /// 2^84 + 2^63 + 2^52.
        const ALL_ADDED: u64 = 0x4530_0000_8010_0000;
        let upper = self.make(HALF_DOWN, &[a]);
        let upper = self.make(XOR, &[upper, Source::Wide(TWO_TO_84)]);
        let upper = self.make(FLOAT_SUB, &[upper, Source::Wide(ALL_ADDED)]);
        let lower = self.make(AND, &[a, Source::Wide(u64::from(u32::MAX))]);
        let lower = self.make(OR, &[lower, Source::Wide(TWO_TO_52)]);
        self.make(FLOAT_ADD, &[upper, lower])
    }

    /// By way of a double. Where that rounds, the bits below its last one become one bit, which
    /// tells the second rounding on which side the integer lies.
    fn long_to_float(&mut self, a: Source) -> Source {
        const BELOW: u64 = 0x7ff;
        let a = self.held(a);
        let low = self.make(AND, &[a, Source::Wide(BELOW)]);
        let low = self.make(ADD, &[low, Source::Wide(BELOW)]);
        let marked = self.make(OR, &[a, low]);
        let marked = self.make(AND, &[marked, Source::Wide(!BELOW)]);
        let [least, most] = [-(1_i64 << 53), 1 << 53].map(|v| self.held(Source::Wide(v as u64)));
        let small = self.make_in(Class::Mask, LESS, &[a, most]);
        let a_or_marked = self.long_select(small, a, marked);
        let small = self.make_in(Class::Mask, LESS, &[a, least]);
        let exact = self.long_select(small, marked, a_or_marked);
        let double = self.long_to_double(exact);
        self.make(Op::Unary(isa::VCVTPD2PS), &[double])
    }

    /// Towards zero, by halves. Of what is too large, anything; of what is too small, the smallest
    /// integer.
    fn double_to_integer(&mut self, a: Source) -> Source {
        const TWO_TO_32: u64 = 0x41f0_0000_0000_0000;
        const TWO_TO_MINUS_32: u64 = 0x3df0_0000_0000_0000;
        const MINUS_TWO_TO_63: u64 = 0xc3e0_0000_0000_0000;
        let least = self.held(Source::Wide(MINUS_TWO_TO_63));
        let a = self.make(MAX, &[least, a]);
        let whole = self.make(TOWARDS_ZERO, &[a]);
        let upper = self.make(MUL, &[whole, Source::Wide(TWO_TO_MINUS_32)]);
        let upper = self.make(DOWN, &[upper]);
        let rest = self.make(MUL, &[upper, Source::Wide(TWO_TO_32)]);
        let lower = self.make(FLOAT_SUB, &[whole, rest]);
        // The bits of an integer below 2^32 are the low ones of its sum with 2^52.
        let lower = self.make(FLOAT_ADD, &[lower, Source::Wide(TWO_TO_52)]);
        let lower = self.make(XOR, &[lower, Source::Wide(TWO_TO_52)]);
        let upper = self.make(Op::Unary(isa::VCVTTPD2DQ), &[upper]);
        let upper = self.make(Op::Extend, &[upper]);
        let upper = self.make(HALF_UP, &[upper]);
        self.make(OR, &[upper, lower])
    }
}
