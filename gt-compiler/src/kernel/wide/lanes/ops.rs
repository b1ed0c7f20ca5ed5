//! The operations of a kernel on its values.

use gt_ir::DType;

use super::{
    AND, Function, IABS, IMAX, IMIN, IMUL, K_AND, K_AND_NOT, K_OR, K_XNOR, K_XOR, LEFT_SHIFT, MAX,
    MIN, OR, Op, RANGE_MAX, RANGE_MIN, RIGHT_SHIFT, Reg, SQRT, Source, Unsupported, Value, Vectors,
    icompare, rounding,
};
use crate::kernel::{
    formulas::{Compare, Formulas},
    powers::Powers as _,
    spec::{Binary, Unary},
};

impl Function {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "`elementary` says of every other op whether it has a formula"
    )]
    pub(in super::super) fn unary(
        &mut self,
        op: Unary,
        dtype: DType,
        a: Value,
    ) -> Result<Value, Unsupported> {
        let a = match (op, a) {
            (Unary::LogicalNot, Value::Mask(m)) => {
                return Ok(Value::Mask(self.make_mask(Op::MaskNot, &[Source::Reg(m)])));
            }
            (_, Value::Lanes(v)) => v,
            (_, Value::Pair(v)) => return self.unary_pair(op, dtype, v),
            (_, Value::Mask(_)) => return Err(Unsupported("arithmetic on bool")),
        };
        let float = dtype.is_float();
        // Integers are whole already, and rounded narrow floats are narrow floats.
        if let Some(how) = rounding(op) {
            let round = Op::Round { wide: false, how };
            return Ok(Value::Lanes(if float { self.make(round, &[a]) } else { a }));
        }
        let v = match op {
            // Narrow floats stay exact.
            Unary::Neg if float => {
                return Ok(Value::Lanes(self.xor(a, Source::Const(0x8000_0000))));
            }
            Unary::Abs if float => return Ok(Value::Lanes(self.fabs(a))),
            Unary::Neg => self.isub(Source::Const(0), a),
            Unary::Abs => self.make(IABS, &[a]),
            Unary::Sqrt if float => self.make(SQRT, &[a]),
            _ => match self.elementary(op, a) {
                Some(v) if float => v,
                _ => return Err(Unsupported("a function of integers")),
            },
        };
        Ok(Value::Lanes(self.normalize(dtype, v)))
    }

    pub(in super::super) fn binary(
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
            Binary::Maximum | Binary::Minimum => {
                return Ok(Value::Lanes(self.extremum(op, a, b)));
            }
            Binary::Eq => return Ok(Value::Mask(self.fcmp(Compare::Equal, a, b))),
            Binary::Lt => return Ok(Value::Mask(self.fcmp(Compare::LessThan, a, b))),
            Binary::Pow => self.pow(a, b),
            Binary::Fmod => self.fmod(a, b),
            Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::LogicalXor
            | Binary::BitwiseAnd
            | Binary::LeftShift
            | Binary::RightShift => {
                return Err(Unsupported("logic on floats"));
            }
        };
        Ok(Value::Lanes(self.normalize(dtype, v)))
    }

    /// The instruction orders zeros by sign, but prefers numbers to NaN.
    fn extremum(&mut self, op: Binary, a: Source, b: Source) -> Source {
        let largest = op == Binary::Maximum;
        let chosen = match self.vectors {
            Vectors::Ymm => self.either_extremum(largest, a, b),
            Vectors::Zmm => self.either(if largest { RANGE_MAX } else { RANGE_MIN }, a, b),
        };
        let unordered = match (a, b) {
            (a, Source::Const(_)) => self.fcmp(Compare::Unordered, a, a),
            _ => self.fcmp(Compare::Unordered, a, b),
        };
        self.select(unordered, Source::Const(u32::MAX), chosen)
    }

    /// Of two zeros these instructions give the second one. Both orders together have its sign.
    fn either_extremum(&mut self, largest: bool, a: Source, b: Source) -> Source {
        let (op, both) = if largest { (MAX, AND) } else { (MIN, OR) };
        let (a, b) = (self.held(a), self.held(b));
        let (second, first) = (self.make(op, &[a, b]), self.make(op, &[b, a]));
        self.make(both, &[first, second])
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
            Binary::Maximum => self.either(IMAX, a, b),
            Binary::Minimum => self.either(IMIN, a, b),
            Binary::BitwiseAnd => self.and(a, b),
            Binary::LeftShift => self.two(LEFT_SHIFT, a, b),
            Binary::RightShift => self.two(RIGHT_SHIFT, a, b),
            Binary::Eq => return Ok(Value::Mask(self.compared(icompare(0), a, b))),
            Binary::Lt => return Ok(Value::Mask(self.compared(icompare(1), a, b))),
            Binary::Fmod => self.int_fmod(a, b),
            Binary::Div
            | Binary::Pow
            | Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::LogicalXor => {
                return Err(Unsupported("an operation on integers"));
            }
        };
        Ok(Value::Lanes(self.normalize(dtype, v)))
    }

    fn binary_bool(&mut self, op: Binary, a: Reg, b: Reg) -> Result<Reg, Unsupported> {
        let op = match op {
            Binary::Add | Binary::LogicalOr | Binary::Maximum => K_OR,
            Binary::Mul | Binary::LogicalAnd | Binary::Minimum | Binary::BitwiseAnd => K_AND,
            Binary::LogicalXor => K_XOR,
            Binary::Eq => K_XNOR,
            Binary::Lt => K_AND_NOT,
            Binary::Sub
            | Binary::Div
            | Binary::Pow
            | Binary::Fmod
            | Binary::LeftShift
            | Binary::RightShift => {
                return Err(Unsupported("arithmetic on bool"));
            }
        };
        Ok(self.masks(op, a, b))
    }

    pub(in super::super) fn choose(
        &mut self,
        c: Value,
        a: Value,
        b: Value,
    ) -> Result<Value, Unsupported> {
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
}
