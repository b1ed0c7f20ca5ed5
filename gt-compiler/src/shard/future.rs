//! What becomes of the values of a segment, known before the walk: how often each is used, whether
//! its only use may take partial sums, and whether it is alive at the end.

use gt_ir::factors::Linear;
use gt_ir::op::{factors, infer};
use gt_ir::{Class, Entry, Instr, OpError, Operand, OperandType, Type};
use smallvec::SmallVec;

use super::Request;

/// What becomes of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Future {
    pub(super) n_uses: u32,
    /// Whether its last use may take partial sums.
    pub(super) carried: bool,
    /// Whether it is alive at the end.
    pub(super) kept: bool,
    /// Whether it is there before the segment's instructions: from outside, or an upload.
    pub(super) given: bool,
    /// The value from before that it replaces, as a parameter's update does.
    pub(super) heir_of: Option<u32>,
    /// Whether a result of the segment replaces it.
    pub(super) replaced: bool,
}

/// The futures of the values from outside and of those the segment defines, by their numbers.
pub(super) fn foresee(request: &Request<'_>) -> Result<Vec<Future>, OpError> {
    let mut types: Vec<Type> = request.inputs.iter().map(|(ty, _)| *ty).collect();
    let given = Future { kept: true, given: true, ..Future::default() };
    let mut futures = vec![given; types.len()];
    for entry in &request.template.tape.entries {
        match entry {
            Entry::Input { ty, .. } => {
                types.push(*ty);
                futures.push(given);
            }
            Entry::Instr(instr) => {
                let ty = instruction(instr, &types, &mut futures)?;
                let heir_of = heir(instr, &ty, &types, &futures);
                types.push(ty);
                futures.push(Future { kept: true, heir_of, ..Future::default() });
            }
            Entry::Free(value) => futures[value.0 as usize].kept = false,
            Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
        }
    }
    let kept: Vec<bool> = futures.iter().map(|future| future.kept).collect();
    for number in 0..futures.len() {
        let heir_of = futures[number].heir_of.filter(|before| !kept[*before as usize]);
        futures[number].heir_of = heir_of;
        heir_of.iter().for_each(|before| futures[*before as usize].replaced = true);
    }
    Ok(futures)
}

/// The value from before that a result is computed from element by element: the first operand's of
/// the same shape.
fn heir(instr: &Instr, ty: &Type, types: &[Type], futures: &[Future]) -> Option<u32> {
    let before = |operand: &Operand| match operand {
        Operand::Value(value) => {
            let (number, own) = (value.0 as usize, &types[value.0 as usize]);
            let fits = own.dtype == ty.dtype && own.shape.same_sizes(&ty.shape);
            let Future { given, heir_of, .. } = futures[number];
            if given { Some(number as u32) } else { heir_of }.filter(|_| fits)
        }
        Operand::Scalar(_) => None,
    };
    let is_pointwise = instr.op.spec().class == Class::Pointwise;
    instr.inputs.iter().filter(|_| is_pointwise).find_map(before)
}

/// The type of an instruction's result; its operands are used.
fn instruction(instr: &Instr, types: &[Type], futures: &mut [Future]) -> Result<Type, OpError> {
    let operands = operand_types(instr, types);
    let ty = infer(&instr.op, &operands)?;
    let linear = factors(&instr.op, &operands, &ty).map_or(Linear::No, |factors| factors.linear);
    for (i, operand) in instr.inputs.iter().enumerate() {
        let Operand::Value(value) = operand else { continue };
        let future = &mut futures[value.0 as usize];
        future.n_uses += 1;
        future.carried = match linear {
            Linear::No => false,
            Linear::First => i == 0,
            Linear::Together | Linear::Each => true,
        };
    }
    Ok(ty)
}

/// What a type rule sees of an instruction's operands, from the types of the values so far.
pub(super) fn operand_types(instr: &Instr, types: &[Type]) -> SmallVec<[OperandType; 3]> {
    let operand = |operand: &Operand| match operand {
        Operand::Value(value) => OperandType::Tensor(types[value.0 as usize]),
        Operand::Scalar(scalar) => OperandType::Scalar(*scalar),
    };
    instr.inputs.iter().map(operand).collect()
}
