//! Arithmetic on elements of eight bytes: as many as a register has lanes of 32 bits are two
//! registers.

use gt_ir::DType;

use super::{
    Unsupported,
    doubles::Doubles,
    ir::{Class, Function, Inst, Op, Reg, Source},
    isa::{self, Vectors},
    lanes::{Pair, TOWARDS_ZERO, Value, predicate, rounding},
};
use crate::kernel::{
    formulas::{Compare, Formulas as _},
    powers::Powers as _,
    spec::{Binary, Unary},
};

const ADD: Op = Op::Binary(isa::VADDPD, None);
const SUB: Op = Op::Binary(isa::VSUBPD, None);
const MUL: Op = Op::Binary(isa::VMULPD, None);
const DIV: Op = Op::Binary(isa::VDIVPD, None);
const RANGE_MIN: Op = Op::Binary(isa::VRANGEPD, Some(0b0100));
const RANGE_MAX: Op = Op::Binary(isa::VRANGEPD, Some(0b0101));
const IADD: Op = Op::Binary(isa::VPADDQ, None);
const ISUB: Op = Op::Binary(isa::VPSUBQ, None);
const IMUL: Op = Op::Binary(isa::VPMULLQ, None);
const IMAX: Op = Op::Binary(isa::VPMAXSQ, None);
const IMIN: Op = Op::Binary(isa::VPMINSQ, None);
const AND: Op = Op::Binary(isa::VPANDQ, None);
const XOR: Op = Op::Binary(isa::VPXORQ, None);
const LEFT_SHIFT: Op = Op::Binary(isa::VPSLLVQ, None);
const RIGHT_SHIFT: Op = Op::Binary(isa::VPSRAVQ, None);
const SQRT: Op = Op::Unary(isa::VSQRTPD);
const IABS: Op = Op::Unary(isa::VPABSQ);
const TEST: Op = Op::Compare(isa::VPTESTMQ, None);
const FLOAT_TO_DOUBLE: Op = Op::Unary(isa::VCVTPS2PD);
const DOUBLE_TO_FLOAT: Op = Op::Unary(isa::VCVTPD2PS);
const INT_TO_DOUBLE: Op = Op::Unary(isa::VCVTDQ2PD);
const DOUBLE_TO_INT: Op = Op::Unary(isa::VCVTTPD2DQ);
const LONG_TO_DOUBLE: Op = Op::Unary(isa::VCVTQQ2PD);
const DOUBLE_TO_LONG: Op = Op::Unary(isa::VCVTTPD2QQ);
const LONG_TO_FLOAT: Op = Op::Unary(isa::VCVTQQ2PS);
const LONG_TO_INT: Op = Op::Narrow(isa::VPMOVQD);

const fn compare(predicate: u8) -> Op {
    Op::Compare(isa::VCMPPD, Some(predicate))
}

const fn icompare(predicate: u8) -> Op {
    Op::Compare(isa::VPCMPQ, Some(predicate))
}

const NOT_EQUAL: u8 = 0x04;
const TWO_TO_31: u64 = 0x41e0_0000_0000_0000;
const TWO_TO_63: u64 = 0x43e0_0000_0000_0000;

impl Function {
    fn two_each(&mut self, op: Op, a: Pair, b: Pair) -> Pair {
        let a = a.map(|v| self.held(v));
        let low = self.long_binary(op, a[0], b[0]);
        if a[0] == a[1] && b[0] == b[1] {
            return [low; 2];
        }
        [low, self.long_binary(op, a[1], b[1])]
    }

    fn one_each(&mut self, op: Op, a: Pair) -> Pair {
        let a = a.map(|v| self.held(v));
        let low = self.long_unary(op, a[0]);
        if a[0] == a[1] { [low; 2] } else { [low, self.long_unary(op, a[1])] }
    }

    /// A formula of `f64` for each half of the lanes.
    fn doubles_each<const N: usize>(
        &mut self,
        mut formula: impl FnMut(&mut Doubles<'_>, [Source; N]) -> Option<Source>,
        of: [Pair; N],
    ) -> Result<Pair, Unsupported> {
        let of = of.map(|pair| pair.map(|v| self.held(v)));
        let alike = of.iter().all(|[low, high]| low == high);
        let mut half = |i: usize| {
            formula(&mut Doubles(self), of.map(|pair| pair[i])).ok_or(Unsupported("no formula"))
        };
        let low = half(0)?;
        Ok([low, if alike { low } else { half(1)? }])
    }

    fn compare_each(&mut self, op: Op, a: Pair, b: Pair) -> Reg {
        let a = a.map(|v| self.held(v));
        let [low, high] = [0, 1].map(|i| self.make_in(Class::Mask, op, &[a[i], b[i]]));
        self.make_in(Class::Mask, Op::MaskJoin, &[Source::Reg(low), Source::Reg(high)])
    }

    /// The sum of lanes of 64 bits.
    pub(super) fn long_sum(&mut self, a: Source, b: Source) -> Source {
        let a = self.held(a);
        self.make(IADD, &[a, b])
    }

    /// The mask of the upper half of the lanes.
    pub(super) fn upper(&mut self, mask: Reg) -> Reg {
        self.make_in(Class::Mask, Op::MaskUpper, &[Source::Reg(mask)])
    }

    pub(super) fn select_each(&mut self, mask: Reg, a: Pair, b: Pair) -> Pair {
        let masks = [mask, self.upper(mask)];
        [0, 1].map(|i| self.long_select(masks[i], a[i], b[i]))
    }

    fn masked_each(&mut self, mask: Reg, one: u64) -> Pair {
        [mask, self.upper(mask)].map(|mask| {
            let dst = self.reg(Class::Vector);
            let sources = [Source::Wide(one)];
            self.push(Inst { mask: Some(mask), ..Inst::new(Op::MaskedConst, Some(dst), &sources) });
            Source::Reg(dst)
        })
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "`elementary` says of every other op whether it has a formula"
    )]
    pub(super) fn unary_pair(
        &mut self,
        op: Unary,
        dtype: DType,
        a: Pair,
    ) -> Result<Value, Unsupported> {
        let sign = [Source::Wide(1 << 63); 2];
        let float = dtype.is_float();
        if let Some(how) = rounding(op) {
            let round = Op::Round { wide: true, how };
            return Ok(Value::Pair(if float { self.one_each(round, a) } else { a }));
        }
        Ok(Value::Pair(match op {
            Unary::Neg if float => self.two_each(XOR, a, sign),
            Unary::Abs if float => self.two_each(AND, a, [Source::Wide(u64::MAX >> 1); 2]),
            Unary::Neg => self.two_each(ISUB, [Source::Wide(0); 2], a),
            Unary::Abs => self.one_each(IABS, a),
            Unary::Sqrt if float => self.one_each(SQRT, a),
            _ if float => self.doubles_each(|doubles, [x]| doubles.elementary(op, x), [a])?,
            _ => return Err(Unsupported("a function of integers")),
        }))
    }

    pub(super) fn binary_pair(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Pair,
        b: Pair,
    ) -> Result<Value, Unsupported> {
        let float = dtype.is_float();
        let op = match op {
            Binary::Eq | Binary::Lt => {
                let equal = op == Binary::Eq;
                let op = match float {
                    true => {
                        compare(predicate(if equal { Compare::Equal } else { Compare::LessThan }))
                    }
                    false => icompare(u8::from(!equal)),
                };
                return Ok(Value::Mask(self.compare_each(op, a, b)));
            }
            Binary::Maximum | Binary::Minimum if float => {
                let range = if op == Binary::Maximum { RANGE_MAX } else { RANGE_MIN };
                let out = self
                    .doubles_each(|doubles, [x, y]| Some(doubles.extremum(range, x, y)), [a, b])?;
                return Ok(Value::Pair(out));
            }
            Binary::Add => {
                if float {
                    ADD
                } else {
                    IADD
                }
            }
            Binary::Sub => {
                if float {
                    SUB
                } else {
                    ISUB
                }
            }
            Binary::Mul => {
                if float {
                    MUL
                } else {
                    IMUL
                }
            }
            Binary::Div if float => DIV,
            Binary::Pow if float => {
                let out = self.doubles_each(|doubles, [x, y]| Some(doubles.pow(x, y)), [a, b])?;
                return Ok(Value::Pair(out));
            }
            Binary::Fmod if float => {
                let out = self.doubles_each(|doubles, [x, y]| Some(doubles.fmod(x, y)), [a, b])?;
                return Ok(Value::Pair(out));
            }
            Binary::Fmod if self.vectors == Vectors::Ymm => {
                return Err(Unsupported("remainders, which take less time one by one"));
            }
            Binary::Fmod => return Ok(Value::Pair(self.long_fmod(a, b))),
            Binary::Maximum => IMAX,
            Binary::Minimum => IMIN,
            Binary::BitwiseAnd if !float => AND,
            Binary::LeftShift if !float => LEFT_SHIFT,
            Binary::RightShift if !float => RIGHT_SHIFT,
            Binary::Div
            | Binary::Pow
            | Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::LogicalXor
            | Binary::BitwiseAnd
            | Binary::LeftShift
            | Binary::RightShift => {
                return Err(Unsupported("an operation on elements of eight bytes"));
            }
        };
        Ok(Value::Pair(self.two_each(op, a, b)))
    }

    /// What division leaves, with the sign of `a`; `a` itself where `b` is 0.
    ///
    /// A quotient of doubles is wrong by less than 2^11, so the rest is less than `b` and 2^12
    /// together, and the second quotient is wrong by 1 at most: then the rest has the wrong sign.
    /// Products and differences wrap, and the rest fits.
    fn long_fmod(&mut self, a: Pair, b: Pair) -> Pair {
        let zero = [Source::Wide(0); 2];
        let divisor = self.one_each(LONG_TO_DOUBLE, b);
        let mut rest = a;
        for _ in 0..2 {
            let dividend = self.one_each(LONG_TO_DOUBLE, rest);
            let quotient = self.two_each(DIV, dividend, divisor);
            let quotient = self.one_each(DOUBLE_TO_LONG, quotient);
            let product = self.two_each(IMUL, quotient, b);
            rest = self.two_each(ISUB, rest, product);
        }
        let size = self.one_each(IABS, b);
        let minus = self.two_each(ISUB, zero, size);
        let negative = self.compare_each(icompare(1), a, zero);
        let size = self.select_each(negative, minus, size);
        let moved = self.two_each(IADD, rest, size);
        let signs = self.two_each(XOR, rest, a);
        let differs = self.compare_each(icompare(1), signs, zero);
        let moved = self.select_each(differs, moved, rest);
        let is_some = self.compare_each(TEST, rest, rest);
        self.select_each(is_some, moved, zero)
    }

    /// The same of integers of 32 bits, in doubles. A quotient that is not whole lies further from
    /// whole numbers than a double is wrong, and everything else is exact.
    pub(super) fn int_fmod(&mut self, a: Source, b: Source) -> Source {
        let [x, y] = [a, b].map(|v| self.widened(DType::I32, DType::F64, v));
        let quotient = self.two_each(DIV, x, y);
        let whole = self.one_each(Op::Round { wide: true, how: TOWARDS_ZERO }, quotient);
        let product = self.two_each(MUL, whole, y);
        let rest = self.two_each(SUB, x, product);
        let halves = self.one_each(DOUBLE_TO_INT, rest);
        let rest = self.make(Op::Join, &halves);
        let divides = self.nonzero(b);
        self.select(divides, rest, a)
    }

    /// Casts from or to a dtype of eight bytes.
    pub(super) fn cast_wide(
        &mut self,
        from: DType,
        to: DType,
        v: Value,
    ) -> Result<Value, Unsupported> {
        match v {
            Value::Mask(m) => {
                let one = if to == DType::F64 { 1f64.to_bits() } else { 1 };
                Ok(Value::Pair(self.masked_each(m, one)))
            }
            Value::Lanes(v) => Ok(Value::Pair(self.widened(from, to, v))),
            Value::Pair(v) => match (from, to) {
                (DType::F64, DType::Bool) => {
                    Ok(Value::Mask(self.compare_each(compare(NOT_EQUAL), v, [Source::Wide(0); 2])))
                }
                (_, DType::Bool) => {
                    let v = v.map(|v| self.held(v));
                    Ok(Value::Mask(self.compare_each(TEST, v, v)))
                }
                (DType::F64, DType::I64) => Ok(Value::Pair(self.double_to_long(v))),
                (_, DType::F64) => Ok(Value::Pair(self.one_each(LONG_TO_DOUBLE, v))),
                _ => self.narrowed(from, to, v),
            },
        }
    }

    fn widened(&mut self, from: DType, to: DType, v: Source) -> Pair {
        let halves = [v, self.exchanged(v, self.vectors.lanes() / 2)];
        match (from.is_float(), to) {
            (true, DType::F64) => self.one_each(FLOAT_TO_DOUBLE, halves),
            (true, _) => {
                let double = self.one_each(FLOAT_TO_DOUBLE, halves);
                self.double_to_long(double)
            }
            (false, DType::F64) => self.one_each(INT_TO_DOUBLE, halves),
            (false, _) => self.one_each(Op::Extend, halves),
        }
    }

    /// Towards zero, saturating; NaN gives 0.
    fn double_to_long(&mut self, v: Pair) -> Pair {
        let long = self.one_each(DOUBLE_TO_LONG, v);
        let large = self.compare_each(
            compare(predicate(Compare::GreaterThanOrEqual)),
            v,
            [Source::Wide(TWO_TO_63); 2],
        );
        let long = self.select_each(large, [Source::Wide(i64::MAX as u64); 2], long);
        let nan = self.compare_each(compare(predicate(Compare::Unordered)), v, v);
        self.select_each(nan, [Source::Wide(0); 2], long)
    }

    fn narrowed(&mut self, from: DType, to: DType, v: Pair) -> Result<Value, Unsupported> {
        let op = match (from, to.is_float()) {
            (DType::F64, true) => DOUBLE_TO_FLOAT,
            (DType::F64, false) => DOUBLE_TO_INT,
            (_, true) => LONG_TO_FLOAT,
            (_, false) => LONG_TO_INT,
        };
        let halves = self.one_each(op, v);
        let mut out = self.make(Op::Join, &halves);
        if from == DType::F64 && !to.is_float() {
            let large = self.compare_each(
                compare(predicate(Compare::GreaterThanOrEqual)),
                v,
                [Source::Wide(TWO_TO_31); 2],
            );
            out = self.select(large, Source::Const(i32::MAX as u32), out);
            let nan = self.compare_each(compare(predicate(Compare::Unordered)), v, v);
            out = self.select(nan, Source::Const(0), out);
            if to == DType::U8 {
                return Ok(Value::Lanes(self.clamp_byte(out)));
            }
        }
        Ok(Value::Lanes(self.normalize(to, out)))
    }
}
