//! Values in the layouts they are needed in. A value that depends on literals alone is made by each
//! member where it is needed; any other is moved from the version that is nearest.

use std::sync::Arc;

use gt_ir::layout::{Layout, Spread};
use gt_ir::{Class, Op, OpError, Operand, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::{LITERALS, Sharder, Value};
use crate::shard::Literal;
use crate::shard::lanes::{Arg, Name, Piece, everything};
use crate::shard::reshard::{Version, is_zero};
use crate::shard::sharder::Sums;

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
        for (rank, &member) in layout.mesh.members().iter().enumerate() {
            names.push(if is_zero(&whole, layout, rank) {
                self.lanes.zeros(member, layout.local(rank, &ty))?
            } else {
                self.make_part(
                    id,
                    member,
                    layout.local(rank, &ty),
                    &layout.region(rank, &ty.shape),
                )?
            });
        }
        Ok(Version { layout: layout.clone(), names })
    }

    pub(super) fn make_part(
        &mut self,
        id: ValueId,
        member: u32,
        local: Type,
        region: &[(usize, usize)],
    ) -> Result<Name, OpError> {
        if let Some((Op::Full(_), inputs)) = &self.at(id).made {
            let args = self.literals(&inputs.clone());
            return self.lanes.instr(member, Op::Full(local), &args);
        }
        let name = self.make_whole(id, member)?;
        let whole = everything(&self.at(id).ty);
        self.lanes.slice(&Piece { member, name, region: whole }, region)
    }

    /// All of a value at one member.
    pub(super) fn make_whole(&mut self, id: ValueId, member: u32) -> Result<Name, OpError> {
        if let Some(name) = self.made.get(&(id, member)) {
            return Ok(*name);
        }
        let Some((op, inputs)) = self.at(id).made.clone() else {
            return Err(OpError::new("internal: a value that no member can make by itself"));
        };
        let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
        for operand in &inputs {
            args.push(match *operand {
                Operand::Value(value) if value.0 < LITERALS => {
                    Arg::Value(self.make_whole(value, member)?)
                }
                Operand::Value(_) | Operand::Scalar(_) => self.literals(&[*operand])[0],
            });
        }
        let name = self.lanes.instr(member, op.unnamed(), &args)?;
        self.made.insert((id, member), name);
        Ok(name)
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

    /// Whether each member can make a result by itself, cheaply.
    pub(super) fn is_made(&self, op: &Op, inputs: &[Operand]) -> bool {
        let cheap = match op.spec().class {
            Class::Pointwise | Class::Source | Class::Move => true,
            Class::Reduce | Class::Contract | Class::Gather => false,
        };
        cheap
            && inputs.iter().all(|operand| match operand {
                Operand::Value(value) if value.0 < LITERALS => self.at(*value).made.is_some(),
                Operand::Value(_) | Operand::Scalar(_) => true,
            })
    }
}
