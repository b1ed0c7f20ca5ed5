//! Values in the layouts they are needed in. A value that depends on literals alone is made by each
//! member where it is needed; any other is moved from the version that is nearest.

use std::sync::Arc;

use gt_ir::factors::{Factors, Link, Links};
use gt_ir::layout::{Layout, Region, Spread, boxed};
use gt_ir::op::factors;
use gt_ir::{Class, Emit as _, Op, OpError, Operand, OperandType, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::{LITERALS, Made, Operands, Sharder, Value};
use crate::shard::Literal;
use crate::shard::lanes::{Arg, Name, Piece, everything};
use crate::shard::reshard::{Version, is_zero};
use crate::shard::sharder::Sums;

/// The longest chain of operations that each member repeats: their walk is a recursion.
const MAX_DEPTH: u8 = 32;

impl Sharder<'_> {
    pub(super) fn value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u64 - 1)
    }

    pub(super) fn at(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// Combines partial results, where members share large sums in parts.
    pub(super) fn settle(&mut self, id: ValueId) -> Result<(), OpError> {
        let Value { versions, ty, .. } = self.at(id);
        let Some(first) = versions.first().filter(|v| v.layout.is_partial()) else {
            return Ok(());
        };
        let mut layout = first.layout.combined();
        for (axis, spread) in first.layout.spreads.iter().enumerate() {
            if let (Spread::Partial(_), Sums::Shared | Sums::Kept) = (spread, self.sums)
                && let Some(part) = self.request.rates.shared(&layout, axis, ty)
            {
                layout = layout.with(axis, part);
            }
        }
        self.version(id, &layout)?;
        self.values[id.0 as usize].versions.retain(|version| !version.layout.is_partial());
        Ok(())
    }

    /// A value in a layout.
    pub(super) fn version(&mut self, id: ValueId, layout: &Layout) -> Result<Version, OpError> {
        let value = self.at(id);
        if let Some(version) = value.versions.iter().find(|v| v.layout == *layout) {
            return Ok(version.clone());
        }
        let version = if value.made.is_some() {
            self.make(id, layout)?
        } else {
            let ty = value.ty;
            let nearest = self.request.rates.nearest(&value.versions, layout, &ty);
            let (_, from) =
                nearest.ok_or_else(|| OpError::new("internal: a value that is nowhere"))?;
            self.change(id, &from.clone(), layout, &ty)?
        };
        self.values[id.0 as usize].versions.push(version.clone());
        Ok(version)
    }

    /// A value that depends on nothing from outside, made by each member.
    pub(super) fn make(&mut self, id: ValueId, layout: &Layout) -> Result<Version, OpError> {
        let ty = self.at(id).ty;
        let whole = Layout::whole(Arc::clone(&layout.mesh));
        let mut names = SmallVec::new();
        self.lanes.begin();
        for rank in self.lanes.ranks(&layout.mesh) {
            let member = layout.mesh.members()[rank];
            self.lanes.at_rank(&layout.mesh, rank);
            names.push(if is_zero(&whole, layout, rank) {
                self.lanes.zeros(member, layout.local(rank, &ty))?
            } else {
                self.make_part(id, member, layout.region(rank, &ty.shape))?
            });
        }
        self.lanes.floor.turn = 0;
        Ok(Version { layout: layout.clone(), names: self.lanes.at_all(&layout.mesh, names) })
    }

    /// A box of a value that depends on nothing from outside, made by a member. Of pointwise
    /// operations no more than the box is computed.
    fn make_part(&mut self, id: ValueId, member: u32, region: Region) -> Result<Name, OpError> {
        let key = (id, member, region);
        if let Some(name) = self.made.get(&key) {
            return Ok(*name);
        }
        let (_, _, region) = &key;
        let Value { ty, made: Some(made), .. } = self.at(id) else {
            return Err(OpError::new("internal: a value that no member can make by itself"));
        };
        let (ty, made) = (*ty, made.clone());
        let (whole, local) = (everything(&ty), boxed(&ty, region));
        let name = if let Op::Full(_) = made.op {
            let args = self.literals(&made.inputs);
            self.lanes.instr(member, Op::Full(local), &args)?
        } else if let Some(parts) = self.parts(&made, &ty, region) {
            let args = self.made_operands(&made.inputs, member, &parts)?;
            self.lanes.instr(member, made.op.resized(&local), &args)?
        } else {
            let name = self.make_part(id, member, whole.clone())?;
            self.lanes.slice(&Piece { member, name, region: whole }, region)?
        };
        self.made.insert(key, name);
        Ok(name)
    }

    /// The boxes of the operands from which a member makes a box of a result; none if it makes the
    /// whole first.
    fn parts(&self, made: &Made, ty: &Type, region: &Region) -> Option<SmallVec<[Region; 3]>> {
        let (op, inputs) = (&made.op, &made.inputs);
        let types: SmallVec<[OperandType; 3]> =
            inputs.iter().map(|operand| self.operand_type(*operand)).collect();
        let all = types.iter().map(|ty| match ty {
            OperandType::Tensor(ty) => everything(ty),
            OperandType::Scalar(_) => Region::new(),
        });
        let whole = everything(ty);
        if *region == whole {
            return Some(all.collect());
        }
        let factors = factors(op, &types, ty).filter(|_| op.spec().class == Class::Pointwise)?;
        let mut dims = whole.iter().zip(region).zip(&factors.result);
        dims.all(|((whole, region), link)| whole == region || link.is_some()).then_some(())?;
        let part = |(all, links): (Region, &Links)| {
            let dim = |(all, link): (&(usize, usize), &Option<Link>)| {
                let dim = link.and_then(|link| Factors::find(&factors.result, link.factor));
                dim.map_or(*all, |(dim, _)| region[dim])
            };
            all.iter().zip(links).map(dim).collect()
        };
        Some(all.zip(&factors.operands).map(part).collect())
    }

    /// The operands of a value that a member makes, by their boxes.
    fn made_operands(
        &mut self,
        inputs: &Operands,
        member: u32,
        parts: &[Region],
    ) -> Result<SmallVec<[Arg; 3]>, OpError> {
        let mut args = SmallVec::new();
        for (operand, part) in inputs.iter().zip(parts) {
            args.push(match *operand {
                Operand::Value(value) if value.0 < LITERALS => {
                    Arg::Value(self.make_part(value, member, part.clone())?)
                }
                Operand::Value(_) | Operand::Scalar(_) => self.literals(&[*operand])[0],
            });
        }
        Ok(args)
    }

    /// Operands that are literals, as a member's instruction has them.
    pub(super) fn literals(&self, operands: &[Operand]) -> SmallVec<[Arg; 3]> {
        let literal = |operand: &Operand| match *operand {
            Operand::Scalar(scalar) => Arg::Literal(Literal::Number(scalar), scalar),
            Operand::Value(slot) => {
                let slot = slot.0.wrapping_sub(LITERALS);
                let scalar = self.slots.get(slot as usize).copied();
                Arg::Literal(Literal::Slot(slot as u32), scalar.unwrap_or(Scalar::Bool(false)))
            }
        };
        operands.iter().map(literal).collect()
    }

    /// How each member can make a result by itself, if it can do so cheaply.
    pub(super) fn made(&self, op: &Op, inputs: &[Operand]) -> Option<Made> {
        let values = inputs.iter().filter_map(|operand| match operand {
            Operand::Value(value) if value.0 < LITERALS => Some(self.at(*value)),
            Operand::Value(_) | Operand::Scalar(_) => None,
        });
        let depth = made_depth(op, values.map(|value| Some(value.made.as_ref()?.depth)))?;
        Some(Made { op: *op, inputs: inputs.into(), depth })
    }
}

/// The length of the longest chain of operations that ends in the result of an op, if each member
/// can make it by itself, from the lengths at its operands; none at those that no member can make.
pub(in crate::shard) fn made_depth(
    op: &Op,
    operands: impl Iterator<Item = Option<u8>>,
) -> Option<u8> {
    let is_cheap = match op.spec().class {
        Class::Pointwise | Class::Source | Class::Move => true,
        Class::Reduce | Class::Contract | Class::Matrix | Class::Gather => false,
    };
    let mut longest = 0;
    for depth in operands {
        longest = longest.max(depth?);
    }
    (is_cheap && longest < MAX_DEPTH).then_some(longest + 1)
}
