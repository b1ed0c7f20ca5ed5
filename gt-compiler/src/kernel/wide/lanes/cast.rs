//! Dtypes in registers: what they become in memory, in other dtypes, and after an operation that
//! left their range or precision.

use gt_ir::DType;

use super::{
    Class, Function, IADD, IMAX, IMIN, Inst, Op, QUIET_NAN, Reg, Source, TEST, TO_FLOAT, TO_INT,
    Unsupported, Value, Vectors, compare,
};
use crate::kernel::formulas::{Compare, Formulas};

impl Function {
    /// Brings a fresh result into the range or precision of its dtype.
    pub(in super::super) fn normalize(&mut self, dtype: DType, v: Source) -> Source {
        match dtype {
            DType::F16 => self.round_f16(v),
            DType::Bf16 => self.round_bf16(v),
            DType::U8 => self.and(v, Source::Const(0xff)),
            DType::F32 | DType::I32 | DType::F64 | DType::I64 | DType::Bool => v,
        }
    }

    fn round_f16(&mut self, v: Source) -> Source {
        let v = self.held(v);
        let rounded = self.make_in(Class::Vector, Op::RoundHalf, &[v]);
        self.unrounded.push((rounded, v));
        Source::Reg(rounded)
    }

    fn round_bf16(&mut self, v: Source) -> Source {
        let rounded = match self.vectors {
            Vectors::Ymm => self.rounded_upper_half(v),
            Vectors::Zmm => self.rounded_by_masks(v),
        };
        let cleared = self.and(rounded, Source::Const(0xffff_0000));
        let cleared = self.register(cleared);
        self.unrounded.push((cleared, rounded));
        Source::Reg(cleared)
    }

    /// What a `bf16` or an `f16` was made of: a store makes the same of it. Of a `bf16` the upper
    /// half is the same, below it is anything.
    pub(in super::super) fn unrounded(&self, v: Source) -> Source {
        let made = |r: Reg| self.unrounded.binary_search_by_key(&r, |(rounded, _)| *rounded).ok();
        match v {
            Source::Reg(r) => made(r).map_or(v, |at| self.unrounded[at].1),
            Source::Const(_) | Source::Wide(_) => v,
        }
    }

    /// In the upper half, the `bf16` nearest to a float.
    fn rounded_upper_half(&mut self, v: Source) -> Source {
        let odd = self.shr(v, 16);
        let odd = self.and(odd, Source::Const(1));
        let sum = self.iadd(v, Source::Const(0x7fff));
        let sum = self.iadd(sum, odd);
        let quiet = self.or(v, Source::Const(0x0040_0000));
        let is_nan = self.fcmp(Compare::Unordered, v, v);
        self.select(is_nan, quiet, sum)
    }

    /// The same bits in the upper half, by fewer instructions.
    fn rounded_by_masks(&mut self, v: Source) -> Source {
        let v = self.held(v);
        let odd = self.compared(TEST, v, Source::Const(0x1_0000));
        let sum = self.make_in(Class::Vector, IADD, &[v, Source::Const(0x7fff)]);
        let one_more = [Source::Reg(sum), Source::Const(1)];
        self.push(Inst { mask: Some(odd), merge: true, ..Inst::new(IADD, Some(sum), &one_more) });
        // A digit for each kind of number, the lowest two for NaN.
        let kinds = [v, Source::Const(0x22)];
        self.push(Inst { merge: true, ..Inst::new(QUIET_NAN, Some(sum), &kinds) });
        Source::Reg(sum)
    }

    /// An element of memory, widened, as it lies in a register.
    pub(in super::super) fn loaded(&mut self, dtype: DType, v: Source) -> Value {
        Value::Lanes(match dtype {
            DType::Bool => return Value::Mask(self.nonzero(v)),
            DType::Bf16 => self.shl(v, 16),
            DType::F16 | DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 => v,
        })
    }

    /// A value as the store of its dtype takes it: as a narrow integer, or as a float.
    pub(in super::super) fn stored(
        &mut self,
        dtype: DType,
        v: Value,
    ) -> Result<Source, Unsupported> {
        Ok(match (dtype, v) {
            (DType::Bool, Value::Mask(m)) => self.of_mask(m, 1),
            (DType::Bf16, Value::Lanes(v)) => {
                let v = self.unrounded(v);
                self.shr(v, 16)
            }
            (DType::F16, Value::Lanes(v)) => self.unrounded(v),
            (DType::F32 | DType::I32 | DType::U8, Value::Lanes(v)) => v,
            _ => return Err(Unsupported("a store of this dtype")),
        })
    }

    /// A value in another dtype, as the Cranelift path converts it.
    pub(in super::super) fn cast(
        &mut self,
        from: DType,
        to: DType,
        v: Value,
    ) -> Result<Value, Unsupported> {
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
            (false, true) => self.make(TO_FLOAT, &[v]),
            _ => v,
        };
        Ok(Value::Lanes(self.normalize(to, out)))
    }

    pub(in super::super) fn clamp_byte(&mut self, v: Source) -> Source {
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
