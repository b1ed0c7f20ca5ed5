//! The memory that a segment needs if it runs instruction by instruction.
//!
//! Every result takes memory of its own from its instruction to its `free`. Types are inferred, and
//! nothing is run.

use std::collections::BTreeMap;

use gt_ir::{Entry, Operand, OperandType, Tape, Type, ValueId, infer};
use smallvec::SmallVec;

/// A round number of bytes, at most so many and at most a 32nd fewer. Programs for memory that
/// differs a little are the same then, and are found on disk.
pub(super) fn coarse(bytes: usize) -> usize {
    let unit = 1 << (usize::BITS - bytes.leading_zeros()).saturating_sub(6);
    bytes / unit * unit
}

/// The most bytes by which a segment raises what is in memory, before its end. `held` knows the
/// types of the values from before it. None if a type is wrong or a value is missing.
pub(super) fn most(tape: &Tape, held: impl Fn(ValueId) -> Option<Type>) -> Option<usize> {
    let mut made: BTreeMap<ValueId, Type> = BTreeMap::new();
    let (mut now, mut most) = (0i128, 0i128);
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, ty, .. } => {
                made.insert(*out, *ty);
                now += ty.bytes() as i128;
            }
            Entry::Instr(instr) => {
                let operand = |operand: &Operand| match operand {
                    Operand::Scalar(scalar) => Some(OperandType::Scalar(*scalar)),
                    Operand::Value(value) => {
                        let ty = made.get(value).copied().or_else(|| held(*value));
                        ty.map(OperandType::Tensor)
                    }
                };
                let types: Option<SmallVec<[OperandType; 4]>> =
                    instr.inputs.iter().map(operand).collect();
                let ty = infer(&instr.op, &types?).ok()?;
                made.insert(instr.out, ty);
                now += ty.bytes() as i128;
            }
            Entry::Free(value) => {
                let ty = made.remove(value).or_else(|| held(*value));
                now -= ty.map_or(0, |ty| ty.bytes() as i128);
            }
            Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
        }
        most = most.max(now);
    }
    usize::try_from(most).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_a_little_less() {
        for bytes in (0..5000).chain([usize::MAX, 3 << 40]) {
            let coarse = coarse(bytes);
            assert!(coarse <= bytes && bytes - coarse <= bytes / 32, "{bytes}: {coarse}");
            assert!(coarse.count_ones() <= 6, "{coarse}");
        }
    }

    #[test]
    fn values_count_from_their_instruction_to_their_end() {
        let text = "gt tape 1\n%0 = input : f32[4]\n%1 = add %9, %0\n%2 = mul %1, %1\nfree %1\n\
                    free %9\n%3 = neg %2\n%4 = neg %3\n";
        let (tape, _) = gt_ir::text::parse(text).unwrap();
        let ty = |text: &str| -> Option<Type> { text.parse().ok() };
        let held = |value: ValueId| (value == ValueId(9)).then(|| ty("f32[100,4]")).flatten();
        // %0, %1 and %2; then %0, %2 and %3, without %1 and %9.
        assert_eq!(most(&tape, held), Some(16 + 2 * 1600));
        assert_eq!(most(&tape, |_| None), None);
    }
}
