//! A tape in the making: its live values, and the instructions that their type rules accept.
//!
//! The generator knows which values are *exact*: all engines agree on them to the bit, since
//! nothing before them was rounded. An op that jumps, such as a comparison, takes exact floats
//! only, unless the configuration allows others. Otherwise a rounding of the last bit in one engine
//! would become another result altogether, and the comparison of engines would report a difference
//! that is no mistake.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Config, Source};
use crate::{
    dtype::DType,
    intern::{DimName, Loc},
    op::{Class, Op, OpKind, Operand, OperandType, infer},
    scalar::Scalar,
    shape::{Dim, Shape, Type},
    tape::{Entry, Instr, Tape, ValueId},
};

/// Named dimensions and the one size each has.
const NAMED: [(&str, usize); 3] = [("Batch", 4), ("Seq", 3), ("Feature", 5)];

/// A live value: its type, and whether engines agree on its elements to the bit.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) id: ValueId,
    pub(super) ty: Type,
    pub(super) exact: bool,
}

/// A tape in the making.
pub(super) struct Generator<'s, 'a> {
    source: &'s mut Source<'a>,
    pub(super) config: &'s Config,
    tape: Tape,
    live: Vec<Known>,
    scopes: Vec<Arc<str>>,
    next: u64,
}

impl<'s, 'a> Generator<'s, 'a> {
    /// A tape without entries, whose values are numbered from 0.
    pub(super) fn new(source: &'s mut Source<'a>, config: &'s Config) -> Generator<'s, 'a> {
        Generator {
            source,
            config,
            tape: Tape::default(),
            live: Vec::new(),
            scopes: Vec::new(),
            next: 0,
        }
    }

    /// Whether nothing but zeros will be drawn.
    pub(super) fn is_exhausted(&self) -> bool {
        self.source.is_empty()
    }

    /// Adds an instruction when its type rule and the limits allow it.
    pub(super) fn emit(&mut self, op: Op, inputs: &[Operand]) -> Option<ValueId> {
        let types: SmallVec<[OperandType; 4]> =
            inputs.iter().map(|input| self.operand_type(*input)).collect();
        let ty = infer(&op, &types).ok().filter(|ty| ty.shape.numel() <= self.config.max_numel)?;
        let known = inputs.iter().all(|input| self.is_exact(*input));
        if jumps(&op, &types) && !known && !self.config.jumps {
            return None;
        }
        let exact = !ty.dtype.is_float() || (known && keeps_exact(&op));
        let id = self.fresh();
        let loc = match self.below(4) {
            0 => Loc::NONE,
            line => Loc::new(
                ["model.rs", "a \"quoted\" path.rs"][self.below(2)],
                line as u32,
                1 + self.below(80) as u32,
            ),
        };
        self.tape.entries.push(Entry::Instr(Instr { out: id, op, inputs: inputs.into(), loc }));
        self.live.push(Known { id, ty, exact });
        Some(id)
    }

    /// Adds an input.
    pub(super) fn input(&mut self, ty: Type) -> ValueId {
        let id = self.fresh();
        let name = self.chance(1, 2).then(|| format!("input {}", id.0).into());
        self.tape.entries.push(Entry::Input { out: id, ty, name });
        self.live.push(Known { id, ty, exact: true });
        id
    }

    /// A random type within the limits.
    pub(super) fn ty(&mut self, dtype: Option<DType>) -> Type {
        let dtype = dtype.unwrap_or_else(|| self.dtype());
        let rank = self.below(self.config.max_rank + 1);
        let dims: Vec<Dim> = (0..rank).map(|_| self.dim()).collect();
        Type::new(dtype, self.fit(&dims))
    }

    /// The shape of as many of the leading dims as stay within the limits.
    pub(super) fn fit(&self, dims: &[Dim]) -> Shape {
        let fits = |n: &usize| {
            dims[..*n].iter().map(|d| d.size.max(1)).product::<usize>() <= self.config.max_numel
        };
        let n = (0..=dims.len().min(crate::shape::MAX_RANK)).rev().find(fits).unwrap_or(0);
        Shape::from_dims(&dims[..n]).unwrap_or(Shape::SCALAR)
    }

    /// A random dimension: static, named or known only at run time.
    pub(super) fn dim(&mut self) -> Dim {
        match self.below(8) {
            0 | 1 => {
                let (name, size) = NAMED[self.below(NAMED.len())];
                if size <= self.config.max_size {
                    Dim { size, name: name_of(name) }
                } else {
                    Dim::new(1)
                }
            }
            2 => Dim { size: 1 + self.below(self.config.max_size), name: DimName::DYN },
            3 if self.config.empty && self.chance(1, 4) => Dim::new(0),
            4 => Dim::new(1),
            _ => Dim::new(1 + self.below(self.config.max_size)),
        }
    }

    /// A dtype of the configuration; `f32` if the configuration lists none.
    pub(super) fn dtype(&mut self) -> DType {
        self.config.dtypes.get(self.below(self.config.dtypes.len())).copied().unwrap_or(DType::F32)
    }

    /// A float dtype of the configuration, if it has one.
    pub(super) fn float(&mut self) -> Option<DType> {
        let floats: Vec<DType> =
            self.config.dtypes.iter().copied().filter(|dtype| dtype.is_float()).collect();
        self.source.pick(&floats).copied()
    }

    /// A live value that satisfies the predicate.
    pub(super) fn find(&mut self, wanted: impl Fn(&Known) -> bool) -> Option<Known> {
        let fitting: Vec<Known> = self.live.iter().copied().filter(|known| wanted(known)).collect();
        self.source.pick(&fitting).copied()
    }

    /// A literal that fits beside any dtype.
    pub(super) fn scalar(&mut self) -> Scalar {
        let floats = self.config.dtypes.iter().any(|dtype| dtype.is_float());
        match self.below(8) {
            0 if floats => Scalar::F64([0.0, -0.0, 0.5, -1.25, 3.0, 1e-3, 100.0][self.below(7)]),
            1 if floats => Scalar::F64(self.below(64) as f64 / 8.0 - 4.0),
            2 => Scalar::Bool(self.chance(1, 2)),
            _ => Scalar::I64(self.below(9) as i64 - 3),
        }
    }

    /// A number from 0 to n - 1, and 0 for n = 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.source.below(n)
    }

    /// True in `times` of `of` cases.
    pub(super) fn chance(&mut self, times: usize, of: usize) -> bool {
        self.source.chance(times, of)
    }

    /// A seed of random numbers.
    pub(super) fn seed(&mut self) -> Operand {
        let seed = self.below(1000) as i64 - 10;
        self.number(seed)
    }

    /// This number, as a literal or as a tensor without axes.
    pub(super) fn number(&mut self, n: i64) -> Operand {
        let literal = Operand::Scalar(Scalar::I64(n));
        if !self.chance(1, 4) {
            return literal;
        }
        let dtype = if self.chance(1, 2) { DType::I64 } else { DType::I32 };
        self.emit(Op::Full(Type::scalar(dtype)), &[literal]).map_or(literal, Operand::Value)
    }

    /// The next number of a value.
    fn fresh(&mut self) -> ValueId {
        self.next += 1;
        ValueId(self.next - 1)
    }

    /// An operand as a type rule sees it. A value that is freed counts as a scalar `f32`; proposals
    /// name live values only.
    pub(super) fn operand_type(&self, operand: Operand) -> OperandType {
        match operand {
            Operand::Scalar(scalar) => OperandType::Scalar(scalar),
            Operand::Value(id) => {
                let known = self.live.iter().find(|known| known.id == id);
                OperandType::Tensor(known.map_or(Type::scalar(DType::F32), |known| known.ty))
            }
        }
    }

    /// Whether engines agree on an operand to the bit: a literal, or an exact live value.
    fn is_exact(&self, operand: Operand) -> bool {
        match operand {
            Operand::Scalar(_) => true,
            Operand::Value(id) => self.live.iter().any(|known| known.id == id && known.exact),
        }
    }

    /// Frees and scopes between instructions.
    ///
    /// At least two values stay alive, so that the next instruction finds operands. Scopes have
    /// names with quotes and line feeds, which the text form must escape.
    pub(super) fn between(&mut self) {
        match self.below(12) {
            0 | 1 if self.live.len() > 2 => {
                let known = self.live.remove(self.source.below(self.live.len()));
                self.tape.entries.push(Entry::Free(known.id));
            }
            2 => {
                let name: Arc<str> = ["layer1", "loss", "a \"b\"\n"][self.below(3)].into();
                self.scopes.push(Arc::clone(&name));
                self.tape.entries.push(Entry::Enter(name));
            }
            3 => self.tape.entries.extend(self.scopes.pop().map(Entry::Exit)),
            _ => {}
        }
    }

    /// The tape, with every live value as an output and all open scopes closed.
    pub(super) fn finish(mut self) -> Tape {
        let outputs = self.live.iter().map(|known| Entry::Output { value: known.id, name: None });
        self.tape.entries.extend(outputs);
        self.tape.entries.extend(self.scopes.into_iter().rev().map(Entry::Exit));
        self.tape
    }
}

/// A named dimension; the names of this file are valid.
fn name_of(name: &str) -> DimName {
    DimName::new(name).unwrap_or(DimName::NONE)
}

/// Whether a small change of a float operand can change the result a lot.
///
/// The list is an over-estimate: an op belongs to it if there is any operand at which it is not
/// continuous, or so steep that a rounding shows.
fn jumps(op: &Op, types: &[OperandType]) -> bool {
    let float = types.iter().any(|ty| matches!(ty, OperandType::Tensor(t) if t.dtype.is_float()));
    // A rounding decides whether a matrix is singular, and which vectors of a space are taken.
    op.spec().class == Class::Matrix
        || float
            && match op.kind() {
            OpKind::Eq
            | OpKind::Lt
            | OpKind::Ne
            | OpKind::Gt
            | OpKind::Ge
            | OpKind::Le
            | OpKind::Argmax
            | OpKind::Argmin
            | OpKind::Any
            | OpKind::All
            | OpKind::Sign
            | OpKind::ArgSort
            | OpKind::Floor
            | OpKind::Ceil
            | OpKind::Trunc
            | OpKind::Round
            | OpKind::Remainder
            | OpKind::Fmod
            | OpKind::Atan2
            | OpKind::Log1p
            // A variance about zero decides.
            | OpKind::BatchNorm => true,
            OpKind::LogicalAnd | OpKind::LogicalOr | OpKind::LogicalXor | OpKind::LogicalNot => {
                true
            }
            // A zero or a sign decides.
            OpKind::Pow
            | OpKind::Div
            | OpKind::Log
            | OpKind::Sqrt
            | OpKind::Rsqrt
            | OpKind::Log2
            | OpKind::Log10 => true,
            OpKind::Cast => matches!(op, Op::Cast(to) if !to.is_float()),
            _ => false,
        }
}

/// Whether the result of exact operands is exact: nothing is rounded that engines could round
/// differently.
fn keeps_exact(op: &Op) -> bool {
    match op.spec().class {
        Class::Move => true,
        Class::Gather => matches!(op, Op::Gather(_) | Op::IndexSelect(_)),
        Class::Pointwise => {
            matches!(op, Op::Neg | Op::Abs | Op::Maximum | Op::Minimum | Op::Where | Op::Relu)
        }
        Class::Reduce => matches!(op, Op::Max(_) | Op::Min(_)),
        Class::Contract | Class::Matrix => false,
        Class::Source => matches!(op, Op::Full(_)),
    }
}
