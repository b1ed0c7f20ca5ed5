//! `bf16`, two vectors at a time.
//!
//! A word of memory has two of them. The first vector of a pair has the elements in the lower
//! halves of a vector of words, the second those in the upper halves, so a pair is loaded and
//! stored as it lies. Only blocks of kernels whose other elements are the same in all lanes have
//! pairs; a last vector without another one, and vectors with lanes left out, have the elements in
//! their order. The bits of results are the same.

use gt_ir::DType;

use super::{
    Unsupported,
    emit::{Emitter, Part, Place},
    ir::{Function, Inst, Op, Source, Width},
    isa::Vectors,
    lanes::{FIRST_WHERE_SECOND, Value},
};
use crate::kernel::{
    formulas::Formulas,
    nest::Nest,
    spec::{Expr, ExprId},
};

const UPPER: Source = Source::Const(0xffff_0000);
/// The distance of elements side by side, in bytes.
const BESIDE: i64 = 2;

impl Nest {
    /// Whether vectors of a block share words of memory.
    pub(in super::super) fn by_words(&self) -> bool {
        let (Some(vector), spec) = (self.vector, &self.spec) else { return false };
        let is_half = |buffer: u16| spec.buffers[usize::from(buffer)] == DType::Bf16;
        let fits = |expr: &Expr| match expr {
            Expr::Load { buffer, access } => match self.stride(access, vector) {
                0 => true,
                stride => stride == 1 && is_half(*buffer),
            },
            Expr::Index(access) => self.stride(access, vector) == 0,
            Expr::Scalar(_)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Select(..)
            | Expr::Cast(_) => true,
        };
        vector + 1 == self.order.len()
            && spec.nodes.iter().all(|n| fits(&n.expr))
            && spec.stores.iter().all(|s| {
                s.fold.is_none() && self.stride(&s.access, vector) == 1 && is_half(s.buffer)
            })
    }
}

impl Emitter<'_> {
    /// Whether vector `u` is one of a pair of a block: not a last one without another one.
    pub(super) fn has_other(&self, part: Part, u: usize) -> bool {
        part == Part::Block && (u | 1) < self.unroll
    }

    /// Whether vector `u` shares its words with another one.
    pub(super) fn shares_words(&self, part: Part, u: usize) -> bool {
        self.by_words && self.has_other(part, u)
    }

    /// The elements of a load for vector `u` of a pair; `None` if they are the same in all lanes.
    pub(super) fn load_half(
        &mut self,
        id: usize,
        place: Place,
        (part, u): (Part, usize),
    ) -> Result<Option<Value>, Unsupported> {
        let nest = self.nest;
        let Expr::Load { access, .. } = &nest.spec.nodes[id].expr else { return Ok(None) };
        if !self.shares_words(part, u) || self.lane_stride(access, DType::Bf16, part) == 0 {
            return Ok(None);
        }
        if u.is_multiple_of(2) {
            let mem = self.mem(place, self.to_vector(u, BESIDE))?;
            self.words[id] = self.loading(Op::Load(Width::Word), mem, None);
        }
        let words = self.words[id];
        let half = if u % 2 == 1 { self.f.and(words, UPPER) } else { self.f.shl(words, 16) };
        Ok(Some(Value::Lanes(half)))
    }

    /// Stores both vectors of the pair that ends with vector `u`.
    pub(super) fn store_pair(&mut self, u: usize) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let mem = self.mem(self.store_at[i], self.to_vector(u - 1, BESIDE))?;
            let words = match self.moved(store.value) {
                Some(words) => words,
                None => {
                    let [lower, upper] = [u - 1, u].map(|u| self.operand(store.value, u));
                    self.f.words_of_halves(lower, upper)?
                }
            };
            let words = Source::Reg(self.f.register(words));
            let op = self.storing(i, Width::Word);
            self.f.push(Inst { mem: Some(mem), ..Inst::new(op, None, &[words]) });
        }
        Ok(())
    }

    /// The words of an element that is stored as it was loaded.
    fn moved(&self, value: ExprId) -> Option<Source> {
        let node = self.nest.spec.node(value);
        let Expr::Load { access, .. } = &node.expr else { return None };
        let is_along = self.nest.vector.is_some_and(|v| self.nest.stride(access, v) != 0);
        is_along.then(|| self.words[value.0 as usize])
    }
}

impl Function {
    /// The words that have these elements in their halves.
    fn words_of_halves(&mut self, lower: Value, upper: Value) -> Result<Source, Unsupported> {
        let lower = self.stored(DType::Bf16, lower)?;
        let Value::Lanes(upper) = upper else { return Err(Unsupported("a store of this dtype")) };
        let upper = self.unrounded(upper);
        Ok(self.upper_or(upper, lower))
    }

    /// The upper halves of the first, and the lower halves of the second, whose upper ones are 0.
    fn upper_or(&mut self, upper: Source, lower: Source) -> Source {
        if self.vectors == Vectors::Ymm {
            let upper = self.and(upper, UPPER);
            return self.or(upper, lower);
        }
        let [upper, mask, lower] = [upper, UPPER, lower].map(|v| self.held(v));
        self.make(Op::Lookup(FIRST_WHERE_SECOND), &[upper, mask, lower])
    }
}
