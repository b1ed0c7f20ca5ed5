//! What is known about each value of a segment before any walk. It has to be the same where a value
//! stands for another.

use gt_ir::op::infer;
use gt_ir::{Entry, Operand, Type};

use crate::shard::Request;
use crate::shard::future::operand_types;
use crate::shard::sharder::made_depth;

/// A value's type, and whether each member can make it by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    ty: Type,
    is_made: bool,
}

/// The facts about the values of a segment, by their numbers; none if its types do not fit.
pub(super) fn facts(request: &Request<'_>) -> Option<Vec<Fact>> {
    let mut types: Vec<Type> = request.inputs.iter().map(|(ty, _)| *ty).collect();
    let mut depths: Vec<Option<u8>> = vec![None; types.len()];
    for entry in &request.template.tape.entries {
        match entry {
            Entry::Input { ty, .. } => {
                types.push(*ty);
                depths.push(None);
            }
            Entry::Instr(instr) => {
                let ty = infer(&instr.op, &operand_types(instr, &types)).ok()?;
                let operands = instr.inputs.iter().filter_map(|operand| match operand {
                    Operand::Value(value) => Some(depths[value.0 as usize]),
                    Operand::Scalar(_) => None,
                });
                let depth = made_depth(&instr.op, operands);
                types.push(ty);
                depths.push(depth);
            }
            Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
        }
    }
    let fact = |(ty, depth): (Type, Option<u8>)| Fact { ty, is_made: depth.is_some() };
    Some(types.into_iter().zip(depths).map(fact).collect())
}
