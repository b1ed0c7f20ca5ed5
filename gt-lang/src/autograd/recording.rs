//! How a walk records what gradient rules emit.
//!
//! Guarantees: what is recorded is tracked only where gradients of gradients are asked for, and
//! stands at the line of the instruction that it differentiates. Does not: decide what comes when.

use std::sync::Arc;

use gt_ir::grad::{self, Vjp, vjp};
use gt_ir::{Emit, Loc, Op, OpError, Operand, OperandType, Type, ValueId};
use smallvec::SmallVec;

use super::gathered::Part;
use crate::core::capture::{self, Noted};
use crate::core::record::{Stands, record_plain, try_record};
use crate::core::tensor::{Edge, NO_TYPE, Node, Order, Saved, TapeValue, tensor};
use crate::core::{Arg, DynTensor};
use crate::error::{Error, Result};
use crate::session::{Place, Session};

/// The gradients of the operands of one node; `None` where an operand has none.
pub(super) type Gradients = SmallVec<[Option<DynTensor>; 3]>;

/// The name of a gradient's value.
fn id_of(tensor: &DynTensor) -> Result<ValueId> {
    tensor.with_value(|value| value.place().map(|(_, id)| id).map_err(Error::clone))
}

/// Records what a gradient rule emits; its values live until the rule is done unless they are
/// results.
pub(super) struct Recording<'a> {
    session: &'a Session,
    pub(super) order: Order,
    /// Where the walk was asked for.
    walk: Loc,
    /// Where the instruction being differentiated was written.
    loc: Loc,
    known: Vec<(ValueId, Known)>,
}

/// What is known of a value. Types are large: one is copied only where no value has it.
enum Known {
    /// It may be used.
    Value(DynTensor),
    /// It was not kept: only its type may be asked for.
    Type(Type),
}

impl Known {
    fn of(value: Option<DynTensor>, ty: &Type) -> Known {
        value.map_or_else(|| Known::Type(*ty), Known::Value)
    }
}

impl<'a> Recording<'a> {
    /// For a walk that was asked for at `walk`.
    pub(super) fn new(session: &'a Session, order: Order, walk: Loc) -> Recording<'a> {
        Recording { session, order, walk, loc: walk, known: Vec::new() }
    }

    /// The gradients of a node's operands, but for those of which parts wait.
    pub(super) fn gradients(
        &mut self,
        node: &Arc<Node>,
        saved: &Saved,
        grad: DynTensor,
        waiting: &[Option<Box<Part>>],
    ) -> Result<Gradients> {
        let grad_id = id_of(&grad)?;
        self.loc = node.loc;
        for input in &saved.inputs {
            if let Operand::Value(id) = input.operand {
                let value = input.value.as_ref();
                let value = value.map(|value| self.tensor(value, input.edge.as_ref()));
                self.known.push((id, Known::of(value, &input.ty)));
            }
        }
        let output = saved.output.as_ref().map(|value| self.result(value, node));
        // The gradient has the type of the result.
        let output = output.map_or_else(|| Known::Type(grad.ty()), Known::Value);
        self.known.push((node.output, output));
        self.known.push((grad_id, Known::Value(grad)));
        let inputs: SmallVec<[Operand; 3]> =
            saved.inputs.iter().map(|input| input.operand).collect();
        let inputs_and_parts = saved.inputs.iter().zip(waiting);
        let wanted: SmallVec<[bool; 3]> =
            inputs_and_parts.map(|(input, part)| input.edge.is_some() && part.is_none()).collect();
        let (op, output) = (&node.op, node.output);
        let rule = Vjp { e: self, op, inputs: &inputs, output, grad: grad_id, wanted: &wanted };
        let gradients = vjp(rule).and_then(|grads| {
            grads
                .into_iter()
                .map(|g| g.map(|id| self.alive(id).cloned()).transpose())
                .collect::<Result<Gradients, _>>()
        });
        self.known.clear();
        gradients.map_err(|e| Error::from_op(e, node.loc))
    }

    /// A value the node kept, with its own history if gradients have gradients.
    fn tensor(&self, value: &Arc<TapeValue>, edge: Option<&Edge>) -> DynTensor {
        tensor(value, edge.filter(|_| self.order == Order::Higher))
    }

    /// The result of a node, likewise.
    fn result(&self, value: &Arc<TapeValue>, node: &Arc<Node>) -> DynTensor {
        match self.order {
            Order::First => DynTensor::plain(value.clone()),
            Order::Higher => tensor(value, Some(&Edge::Node(node.clone()))),
        }
    }

    /// The gradient of the value that these parts, at least one, are of.
    pub(super) fn joined(&mut self, parts: &[Part]) -> Result<DynTensor> {
        let [first, ..] = parts else {
            return Err(Error::from_op(OpError::new("a gradient of no parts"), self.walk));
        };
        (self.loc, self.known) = (first.node.loc, Vec::new());
        let mut named = Vec::with_capacity(parts.len());
        for part in parts {
            let with = part.with.as_ref().map(id_of).transpose()?;
            let part_of = grad::Part { op: part.op, with, grad: id_of(&part.grad)? };
            let values = part.with.iter().zip(with).chain([(&part.grad, part_of.grad)]);
            self.known.extend(values.map(|(value, id)| (id, Known::Value(value.clone()))));
            named.push(part_of);
        }
        let sum = grad::joined(self, first.ty, &named);
        let sum = sum.and_then(|id| self.alive(id).cloned());
        self.known.clear();
        sum.map_err(|e| Error::from_op(e, self.loc))
    }

    /// The sum of two gradients that reach one place.
    pub(super) fn add(&self, a: &DynTensor, b: &DynTensor, loc: Loc) -> Result<DynTensor> {
        if self.order == Order::Higher {
            return try_record(&Op::Add, &[a.into(), b.into()], Place::Known(loc));
        }
        let types = [OperandType::Tensor(a.ty()), OperandType::Tensor(b.ty())];
        let operands = [Operand::Value(id_of(a)?), Operand::Value(id_of(b)?)];
        let stands = Stands { at: loc, walk: self.walk };
        let sum = record_plain(self.session, &Op::Add, &operands, &types, stands)
            .map(DynTensor::plain)
            .map_err(|e| Error::from_op(e, loc))?;
        let operands = || [a, b].iter().map(|&x| Noted::Tensor(x.clone())).collect();
        capture::note(&Op::Add, operands, &sum, loc);
        Ok(sum)
    }

    /// Records an instruction that is tracked, as one of the user's is.
    fn tracked(&self, op: &Op, inputs: &[Operand]) -> Result<DynTensor, OpError> {
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::new();
        for input in inputs {
            args.push(match input {
                Operand::Value(id) => Arg::Tensor(self.alive(*id)?),
                Operand::Scalar(scalar) => Arg::Scalar(*scalar),
            });
        }
        try_record(op, &args, Place::Known(self.loc)).map_err(|e| OpError::new(e.message()))
    }

    /// An operand as it is noted.
    fn noted(&self, input: Operand) -> Result<Noted, OpError> {
        Ok(match input {
            Operand::Value(id) => Noted::Tensor(self.alive(id)?.clone()),
            Operand::Scalar(scalar) => Noted::Scalar(scalar),
        })
    }

    /// A value that may be used: one the node saved or the rule made.
    ///
    /// An error here is a defect of a row of the op table: `core/saved.rs` runs each rule on types
    /// to find the operands it reads, and this one has read another.
    fn alive(&self, id: ValueId) -> Result<&DynTensor, OpError> {
        // The same value may stand twice among the operands, saved only once.
        let found = self.known.iter().rev().find_map(|(known, what)| match what {
            Known::Value(value) if *known == id => Some(value),
            Known::Value(_) | Known::Type(_) => None,
        });
        found.ok_or_else(|| {
            OpError::new(format!(
                "the gradient rule reads {id}, which was not kept; this is a defect of GT"
            ))
        })
    }
}

impl Emit for Recording<'_> {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let result = match self.order {
            Order::Higher => self.tracked(&op, inputs)?,
            Order::First => {
                let mut types: SmallVec<[OperandType; 4]> = SmallVec::new();
                for input in inputs {
                    types.push(match input {
                        Operand::Value(id) => OperandType::Tensor(self.alive(*id)?.ty()),
                        Operand::Scalar(scalar) => OperandType::Scalar(*scalar),
                    });
                }
                let stands = Stands { at: self.loc, walk: self.walk };
                let value = record_plain(self.session, &op, inputs, &types, stands)?;
                let result = DynTensor::plain(value);
                if capture::is_open() {
                    let operands = inputs.iter().map(|input| self.noted(*input));
                    let operands: capture::Operands = operands.collect::<Result<_, _>>()?;
                    capture::note(&op, || operands, &result, self.loc);
                }
                result
            }
        };
        let id = result.value_id().unwrap_or(ValueId(u64::MAX));
        self.known.push((id, Known::Value(result)));
        Ok(id)
    }

    fn ty(&self, value: ValueId) -> Type {
        let found = self.known.iter().rev().find(|(known, _)| *known == value);
        found.map_or(NO_TYPE, |(_, what)| match what {
            Known::Value(value) => value.ty(),
            Known::Type(ty) => *ty,
        })
    }
}
