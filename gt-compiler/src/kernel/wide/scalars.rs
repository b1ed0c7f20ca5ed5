//! Encodes the instructions on masks and general registers.

use super::{
    asm::Operand,
    encode::{Encoder, R11, RAX},
    ir::{Inst, Op},
    isa,
};

impl Encoder<'_> {
    pub(super) fn mask_inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::MaskBinary(op) => {
                let (a, b) = (self.mask_source(inst, 0), self.mask_source(inst, 1));
                self.to(inst, |e, d| e.asm.vex(op, d, a, Operand::Register(b)));
            }
            Op::MaskNot | Op::MaskMove => {
                let not = matches!(inst.op, Op::MaskNot);
                let op = if not { isa::KNOTW } else { isa::KMOVW_LOAD };
                let a = Operand::Register(self.mask_source(inst, 0));
                self.to(inst, |e, d| e.asm.vex(op, d, 0, a));
            }
            Op::MaskUpper => {
                let a = Operand::Register(self.mask_source(inst, 0));
                self.to(inst, |e, d| e.asm.vex_with(isa::KSHIFTRW, d, 0, a, &[8]));
            }
            Op::MaskJoin => {
                let (a, b) = (self.mask_source(inst, 0), self.mask_source(inst, 1));
                self.to(inst, |e, d| e.asm.vex(isa::KUNPCKBW, d, b, Operand::Register(a)));
            }
            Op::MaskOnes => {
                self.to(inst, |e, d| e.asm.vex(isa::KXNORW, d, d, Operand::Register(d)))
            }
            _ => {
                if matches!(inst.op, Op::MaskFirst) {
                    self.asm.constant(RAX, 1);
                } else {
                    let count = self.general_source(inst, 0, R11);
                    self.asm.constant(RAX, 0xffff);
                    // As many low bits as lanes are left.
                    self.asm.vex(isa::BZHI, RAX, count, Operand::Register(RAX));
                }
                self.to(inst, |e, d| e.asm.vex(isa::KMOVW_FROM, d, 0, Operand::Register(RAX)));
            }
        }
    }

    pub(super) fn general_inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Constant(value) => self.to(inst, |e, d| e.asm.constant(d, value)),
            Op::LoadPointer => {
                let at = Operand::Memory(self.address(inst.mem));
                self.to(inst, |e, d| e.asm.general(isa::MOV_LOAD, d, at, &[]));
            }
            Op::Address => {
                let at = self.address(inst.mem);
                self.to(inst, |e, d| e.asm.load_address(d, at));
            }
            Op::Multiply(by) => {
                let a = Operand::Register(self.general_source(inst, 0, RAX));
                self.to(inst, |e, d| e.asm.general(isa::IMUL, d, a, &by.to_le_bytes()));
            }
            Op::And(mask) => {
                let a = self.general_source(inst, 0, RAX);
                self.asm.move_general(RAX, a);
                self.asm.general(isa::AND_CONST, 0, Operand::Register(RAX), &mask.to_le_bytes());
                self.to(inst, |e, d| e.asm.move_general(d, RAX));
            }
            Op::Subtract => {
                let (a, b) = (self.general_source(inst, 0, RAX), self.general_source(inst, 1, R11));
                self.asm.move_general(RAX, a);
                self.asm.general(isa::SUB, RAX, Operand::Register(b), &[]);
                self.to(inst, |e, d| e.asm.move_general(d, RAX));
            }
            Op::JumpIfLess { holds, label } => {
                let (a, b) = (self.general_source(inst, 0, RAX), self.general_source(inst, 1, R11));
                self.asm.general(isa::CMP, a, Operand::Register(b), &[]);
                self.asm.jump(Some(if holds { 0xc } else { 0xd }), label);
            }
            Op::Label(label) => self.asm.label(label),
            _ => (),
        }
    }
}
