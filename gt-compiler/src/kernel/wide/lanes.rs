//! Arithmetic on sixteen lanes.
//!
//! A dtype lies in a register as in the Cranelift path (`super::super::lanes`), save that a `bool` is a mask. Dtypes of eight bytes are
//! in `pairs`. Where the processor does a whole step of a formula in one instruction, it gives the same bits.

use gt_ir::DType;

use super::{
    Unsupported,
    asm::evex,
    ir::{Class, Function, Inst, Op, Reg, Source},
    pairs::Pair,
};
use crate::kernel::{
    formulas::{Compare, Formulas, TRIG_LIMIT, Trig},
    host,
    spec::{Binary, Unary},
};

/// A value of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Lanes(Source),
    Pair(Pair),
    Mask(Reg),
}

/// Instructions on two vectors.
const ADD: Op = Op::Binary("vaddps", evex(1, 0, 0x58), None);
const SUB: Op = Op::Binary("vsubps", evex(1, 0, 0x5c), None);
const MUL: Op = Op::Binary("vmulps", evex(1, 0, 0x59), None);
const DIV: Op = Op::Binary("vdivps", evex(1, 0, 0x5e), None);
const MIN: Op = Op::Binary("vminps", evex(1, 0, 0x5d), None);
const MAX: Op = Op::Binary("vmaxps", evex(1, 0, 0x5f), None);
const SCALE: Op = Op::Binary("vscalefps", evex(2, 1, 0x2c), None);
const RANGE_MIN: Op = Op::Binary("vrangeps.min", evex(3, 1, 0x50), Some(0b0100));
const RANGE_MAX: Op = Op::Binary("vrangeps.max", evex(3, 1, 0x50), Some(0b0101));
const IADD: Op = Op::Binary("vpaddd", evex(1, 1, 0xfe), None);
const ISUB: Op = Op::Binary("vpsubd", evex(1, 1, 0xfa), None);
const IMUL: Op = Op::Binary("vpmulld", evex(2, 1, 0x40), None);
const IMAX: Op = Op::Binary("vpmaxsd", evex(2, 1, 0x3d), None);
const IMIN: Op = Op::Binary("vpminsd", evex(2, 1, 0x39), None);
const AND: Op = Op::Binary("vpandd", evex(1, 1, 0xdb), None);
const OR: Op = Op::Binary("vpord", evex(1, 1, 0xeb), None);
const XOR: Op = Op::Binary("vpxord", evex(1, 1, 0xef), None);
const SQRT: Op = Op::Unary("vsqrtps", evex(1, 0, 0x51));
const IABS: Op = Op::Unary("vpabsd", evex(2, 1, 0x1e));
const TO_FLOAT: Op = Op::Unary("vcvtdq2ps", evex(1, 0, 0x5b));
const TO_INT: Op = Op::Unary("vcvttps2dq", evex(1, 2, 0x5b));
const TEST: Op = Op::Compare("vptestmd", evex(2, 1, 0x27), None);
const K_AND: Op = Op::MaskBinary("kandw", 0x41);
const K_AND_NOT: Op = Op::MaskBinary("kandnw", 0x42);
const K_OR: Op = Op::MaskBinary("korw", 0x45);
const K_XNOR: Op = Op::MaskBinary("kxnorw", 0x46);
const K_XOR: Op = Op::MaskBinary("kxorw", 0x47);

pub(super) const fn call(function: host::Function, wide: bool) -> Op {
    Op::Call { function, wide }
}

/// A float comparison by its predicate.
const fn compare(predicate: u8) -> Op {
    Op::Compare("vcmpps", evex(1, 0, 0xc2), Some(predicate))
}

const fn icompare(predicate: u8) -> Op {
    Op::Compare("vpcmpd", evex(3, 1, 0x1f), Some(predicate))
}

/// Bits of the first source where the second has ones, of the third elsewhere.
const FIRST_WHERE_SECOND: u8 = 0b1110_0010;

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

    /// Halves of the lanes exchanged: 8 lanes apart, 4, 2 or 1.
    pub(super) fn exchanged(&mut self, v: Source, distance: usize) -> Source {
        let (groups, order) = match distance {
            8 => (true, 0b01_00_11_10),
            4 => (true, 0b10_11_00_01),
            2 => (false, 0b01_00_11_10),
            _ => (false, 0b10_11_00_01),
        };
        let v = self.held(v);
        self.make(Op::Exchange { groups, order }, &[v])
    }
}

impl Formulas for Function {
    type V = Source;
    type M = Reg;

    fn f32(&mut self, v: f32) -> Source {
        Source::Const(v.to_bits())
    }
    fn i32(&mut self, v: i32) -> Source {
        Source::Const(v as u32)
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
        self.make(Op::MulAdd, &[a, b, c])
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
        self.make(Op::Shift("vpslld", 6, n), &[v])
    }
    fn shr(&mut self, v: Source, n: u8) -> Source {
        let v = self.held(v);
        self.make(Op::Shift("vpsrld", 2, n), &[v])
    }
    fn sar(&mut self, v: Source, n: u8) -> Source {
        let v = self.held(v);
        self.make(Op::Shift("vpsrad", 4, n), &[v])
    }
    fn fcmp(&mut self, how: Compare, a: Source, b: Source) -> Reg {
        let predicate = match how {
            Compare::Equal => 0x00,
            Compare::LessThan => 0x11,
            Compare::GreaterThan => 0x1e,
            Compare::GreaterThanOrEqual => 0x1d,
            Compare::Unordered => 0x03,
        };
        self.compared(compare(predicate), a, b)
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
    fn to_float(&mut self, v: Source) -> Source {
        self.make(TO_FLOAT, &[v])
    }
    fn as_int(&mut self, v: Source) -> Source {
        v
    }
    fn as_f32(&mut self, v: Source) -> Source {
        v
    }

    // Whole steps in one instruction.

    fn clamp(&mut self, x: Source, low: f32, high: f32) -> Source {
        let (low, high) = (self.f32(low), self.f32(high));
        let x = self.two(MIN, high, x); // the second where the comparison fails, as of a NaN
        self.two(MAX, low, x)
    }
    fn scale(&mut self, p: Source, _: Source, n: Source) -> Source {
        self.two(SCALE, p, n)
    }
    fn power(&mut self, _: Source, n: Source) -> Source {
        self.two(SCALE, Source::Const(1f32.to_bits()), n)
    }
    fn with_sign_of(&mut self, v: Source, x: Source) -> Source {
        let (v, x) = (self.held(v), self.held(x));
        let sign = self.held(Source::Const(0x8000_0000));
        self.make(Op::Lookup(FIRST_WHERE_SECOND), &[x, sign, v])
    }
}

impl Function {
    /// Brings a fresh result into the range or precision of its dtype.
    pub(super) fn normalize(&mut self, dtype: DType, v: Source) -> Source {
        match dtype {
            DType::F16 => {
                let v = self.held(v);
                self.make(Op::RoundHalf, &[v])
            }
            DType::Bf16 => self.round_bf16(v),
            DType::U8 => self.and(v, Source::Const(0xff)),
            DType::F32 | DType::I32 | DType::F64 | DType::I64 | DType::Bool => v,
        }
    }

    fn round_bf16(&mut self, v: Source) -> Source {
        let odd = self.shr(v, 16);
        let odd = self.and(odd, Source::Const(1));
        let sum = self.iadd(v, Source::Const(0x7fff));
        let sum = self.iadd(sum, odd);
        let quiet = self.or(v, Source::Const(0x0040_0000));
        let is_nan = self.fcmp(Compare::Unordered, v, v);
        let out = self.select(is_nan, quiet, sum);
        self.and(out, Source::Const(0xffff_0000))
    }

    /// An element of memory, widened, as it lies in a register.
    pub(super) fn loaded(&mut self, dtype: DType, v: Source) -> Value {
        Value::Lanes(match dtype {
            DType::Bool => return Value::Mask(self.nonzero(v)),
            DType::Bf16 => self.shl(v, 16),
            DType::F16 => self.half_to_float(v),
            _ => v,
        })
    }

    fn half_to_float(&mut self, h: Source) -> Source {
        let sign = self.and(h, Source::Const(0x8000));
        let sign = self.shl(sign, 16);
        let magnitude = self.and(h, Source::Const(0x7fff));
        let magnitude = self.shl(magnitude, 13);
        let scaled = self.fmul(magnitude, Source::Const(0x7780_0000)); // 2^112, the distance of the exponent biases
        let special = self.or(magnitude, Source::Const(0x7f80_0000));
        let is_special = self.compared(icompare(5), magnitude, Source::Const(0x0f80_0000));
        let out = self.select(is_special, special, scaled);
        self.or(out, sign)
    }

    /// A value as the narrow integer that goes to memory.
    pub(super) fn stored(&mut self, dtype: DType, v: Value) -> Result<Source, Unsupported> {
        Ok(match (dtype, v) {
            (DType::Bool, Value::Mask(m)) => self.of_mask(m, 1),
            (DType::Bf16, Value::Lanes(v)) => self.shr(v, 16),
            (DType::F16, Value::Lanes(v)) => self.float_to_half(v),
            (DType::F32 | DType::I32 | DType::U8, Value::Lanes(v)) => v,
            _ => return Err(Unsupported("a store of this dtype")),
        })
    }

    fn float_to_half(&mut self, v: Source) -> Source {
        let sign = self.and(v, Source::Const(0x8000_0000));
        let magnitude = self.xor(v, sign);
        let sign = self.shr(sign, 16);
        let small = self.fmul(magnitude, Source::Const(0x0780_0000)); // 2^-112
        let small = self.shr(small, 13);
        let infinity = Source::Const(0x7f80_0000);
        let is_infinite = self.compared(icompare(0), magnitude, infinity);
        let out = self.select(is_infinite, Source::Const(0x7c00), small);
        let is_nan = self.compared(icompare(6), magnitude, infinity);
        let out = self.select(is_nan, Source::Const(0x7e00), out);
        self.or(out, sign)
    }

    pub(super) fn unary(
        &mut self,
        op: Unary,
        dtype: DType,
        a: Value,
    ) -> Result<Value, Unsupported> {
        let a = match (op, a) {
            (Unary::Not, Value::Mask(m)) => {
                return Ok(Value::Mask(self.make_mask(Op::MaskNot, &[Source::Reg(m)])));
            }
            (_, Value::Lanes(v)) => v,
            (_, Value::Pair(v)) => return self.unary_pair(op, dtype, v),
            (_, Value::Mask(_)) => return Err(Unsupported("arithmetic on bool")),
        };
        let float = dtype.is_float();
        let v = match op {
            Unary::Neg if float => self.xor(a, Source::Const(0x8000_0000)),
            Unary::Abs if float => self.fabs(a),
            Unary::Neg => self.isub(Source::Const(0), a),
            Unary::Abs => self.make(IABS, &[a]),
            Unary::Sqrt if float => self.make(SQRT, &[a]),
            Unary::Exp if float => self.exp(a),
            Unary::Log if float => self.log(a),
            Unary::Tanh if float => self.tanh(a),
            Unary::Erf if float => self.erf(a),
            Unary::Sin if float => self.trig(Trig::Sin, a),
            Unary::Cos if float => self.trig(Trig::Cos, a),
            _ => return Err(Unsupported("a function of integers")),
        };
        Ok(Value::Lanes(self.normalize(dtype, v)))
    }

    /// Unusual arguments go to the host's function; the other lanes have the value they would have had without.
    fn trig(&mut self, which: Trig, x: Source) -> Source {
        let (x, fast) = (self.held(x), self.trig_reduced(which, x));
        let magnitude = self.fabs(x);
        let unusual = self.compared(compare(0x16), magnitude, Source::Const(TRIG_LIMIT.to_bits())); // not at most
        let function = match which {
            Trig::Sin => host::Function::SinF32,
            Trig::Cos => host::Function::CosF32,
        };
        let out = self.make_in(Class::Vector, Op::Move { wide: false }, &[fast]);
        let inst = Inst::new(call(function, false), Some(out), &[x]);
        self.push(Inst { mask: Some(unusual), merge: true, ..inst });
        Source::Reg(out)
    }

    pub(super) fn binary(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
    ) -> Result<Value, Unsupported> {
        let (a, b) = match (a, b) {
            (Value::Lanes(a), Value::Lanes(b)) => (a, b),
            (Value::Pair(a), Value::Pair(b)) => return self.binary_pair(op, dtype, a, b),
            (Value::Mask(a), Value::Mask(b)) => return self.binary_bool(op, a, b).map(Value::Mask),
            _ => return Err(Unsupported("operands of different kinds")),
        };
        if dtype.is_float() {
            self.binary_float(op, dtype, a, b)
        } else {
            self.binary_int(op, dtype, a, b)
        }
    }

    fn binary_float(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Source,
        b: Source,
    ) -> Result<Value, Unsupported> {
        let v = match op {
            Binary::Add => self.fadd(a, b),
            Binary::Sub => self.fsub(a, b),
            Binary::Mul => self.fmul(a, b),
            Binary::Div => self.fdiv(a, b),
            Binary::Max => return Ok(Value::Lanes(self.extremum(RANGE_MAX, a, b))),
            Binary::Min => return Ok(Value::Lanes(self.extremum(RANGE_MIN, a, b))),
            Binary::Eq => return Ok(Value::Mask(self.fcmp(Compare::Equal, a, b))),
            Binary::Lt => return Ok(Value::Mask(self.fcmp(Compare::LessThan, a, b))),
            Binary::Pow => self.two(call(host::Function::PowF32, false), a, b),
            Binary::And | Binary::Or | Binary::Xor => {
                return Err(Unsupported("logic on floats"));
            }
        };
        Ok(Value::Lanes(self.normalize(dtype, v)))
    }

    /// The instruction orders zeros by sign, but prefers numbers to NaN.
    fn extremum(&mut self, op: Op, a: Source, b: Source) -> Source {
        let chosen = self.either(op, a, b);
        let unordered = match (a, b) {
            (a, Source::Const(_)) => self.fcmp(Compare::Unordered, a, a),
            _ => self.fcmp(Compare::Unordered, a, b),
        };
        self.select(unordered, Source::Const(u32::MAX), chosen)
    }

    fn binary_int(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Source,
        b: Source,
    ) -> Result<Value, Unsupported> {
        let v = match op {
            Binary::Add => self.iadd(a, b),
            Binary::Sub => self.isub(a, b),
            Binary::Mul => self.either(IMUL, a, b),
            Binary::Max => self.either(IMAX, a, b),
            Binary::Min => self.either(IMIN, a, b),
            Binary::Eq => return Ok(Value::Mask(self.compared(icompare(0), a, b))),
            Binary::Lt => return Ok(Value::Mask(self.compared(icompare(1), a, b))),
            Binary::Div | Binary::Pow | Binary::And | Binary::Or | Binary::Xor => {
                return Err(Unsupported("an operation on integers"));
            }
        };
        Ok(Value::Lanes(self.normalize(dtype, v)))
    }

    fn binary_bool(&mut self, op: Binary, a: Reg, b: Reg) -> Result<Reg, Unsupported> {
        let op = match op {
            Binary::Add | Binary::Or | Binary::Max => K_OR,
            Binary::Mul | Binary::And | Binary::Min => K_AND,
            Binary::Xor => K_XOR,
            Binary::Eq => K_XNOR,
            Binary::Lt => K_AND_NOT,
            Binary::Sub | Binary::Div | Binary::Pow => {
                return Err(Unsupported("arithmetic on bool"));
            }
        };
        Ok(self.masks(op, a, b))
    }

    pub(super) fn choose(&mut self, c: Value, a: Value, b: Value) -> Result<Value, Unsupported> {
        Ok(match (c, a, b) {
            (Value::Mask(c), Value::Lanes(a), Value::Lanes(b)) => {
                Value::Lanes(self.select(c, a, b))
            }
            (Value::Mask(c), Value::Pair(a), Value::Pair(b)) => {
                Value::Pair(self.select_each(c, a, b))
            }
            (Value::Mask(c), Value::Mask(a), Value::Mask(b)) => {
                let (yes, no) = (self.masks(K_AND, c, a), self.masks(K_AND_NOT, c, b));
                Value::Mask(self.masks(K_OR, yes, no))
            }
            _ => return Err(Unsupported("operands of different kinds")),
        })
    }

    /// A value in another dtype, as the Cranelift path converts it.
    pub(super) fn cast(&mut self, from: DType, to: DType, v: Value) -> Result<Value, Unsupported> {
        let is_wide = |d: DType| d.size() == 8;
        if from == to {
            return Ok(v);
        }
        if is_wide(from) || is_wide(to) {
            return self.cast_wide(from, to, v);
        }
        let v = match v {
            Value::Mask(m) => {
                return Ok(Value::Lanes(
                    self.of_mask(m, if to.is_float() { 1f32.to_bits() } else { 1 }),
                ));
            }
            Value::Lanes(v) => v,
            Value::Pair(_) => return Err(Unsupported("operands of different kinds")),
        };
        if to == DType::Bool {
            let zero = Source::Const(0);
            // Not equal, which a NaN is.
            let m = if from.is_float() {
                self.compared(compare(0x04), v, zero)
            } else {
                self.nonzero(v)
            };
            return Ok(Value::Mask(m));
        }
        let out = match (from.is_float(), to.is_float()) {
            (true, false) => {
                let int = self.saturate(v);
                if to == DType::I32 {
                    return Ok(Value::Lanes(int));
                }
                return Ok(Value::Lanes(self.clamp_byte(int)));
            }
            (false, true) => self.to_float(v),
            _ => v,
        };
        Ok(Value::Lanes(self.normalize(to, out)))
    }

    pub(super) fn clamp_byte(&mut self, v: Source) -> Source {
        let low = self.either(IMAX, v, Source::Const(0));
        self.either(IMIN, low, Source::Const(255))
    }

    /// Floats towards zero, at most the largest integer; NaN gives 0.
    fn saturate(&mut self, v: Source) -> Source {
        let int = self.make(TO_INT, &[v]); // of what does not fit, the smallest integer
        let large = self.fcmp(Compare::GreaterThanOrEqual, v, Source::Const(0x4f00_0000));
        let int = self.select(large, Source::Const(i32::MAX as u32), int);
        let is_nan = self.fcmp(Compare::Unordered, v, v);
        self.select(is_nan, Source::Const(0), int)
    }
}
