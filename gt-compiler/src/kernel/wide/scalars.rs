//! Encodes the instructions on masks and general registers.

use super::{
    asm::Operand,
    encode::{Encoder, R11, RAX},
    ir::Inst,
    isa::{self, Vex},
};

impl Encoder<'_> {
    pub(super) fn mask_binary(&mut self, inst: &Inst, op: Vex) {
        let (a, b) = (self.mask_source(inst, 0), self.mask_source(inst, 1));
        self.to(inst, |e, d| e.asm.vex(op, d, a, Operand::Register(b)));
    }

    pub(super) fn mask_unary(&mut self, inst: &Inst, op: Vex) {
        let a = Operand::Register(self.mask_source(inst, 0));
        self.to(inst, |e, d| e.asm.vex(op, d, 0, a));
    }

    pub(super) fn mask_ones(&mut self, inst: &Inst) {
        self.to(inst, |e, d| e.asm.vex(isa::KXNORW, d, d, Operand::Register(d)));
    }

    /// The upper half of the lanes as the lower one.
    pub(super) fn mask_upper(&mut self, inst: &Inst) {
        let a = Operand::Register(self.mask_source(inst, 0));
        self.to(inst, |e, d| e.asm.vex_with(isa::KSHIFTRW, d, 0, a, &[8]));
    }

    /// Half of the lanes of each source.
    pub(super) fn mask_join(&mut self, inst: &Inst) {
        let (a, b) = (self.mask_source(inst, 0), self.mask_source(inst, 1));
        self.to(inst, |e, d| e.asm.vex(isa::KUNPCKBW, d, b, Operand::Register(a)));
    }

    /// As many lanes as are left.
    pub(super) fn mask_count(&mut self, inst: &Inst) {
        let count = self.general_source(inst, 0, R11);
        self.asm.constant(RAX, 0xffff);
        // Keeps as many low bits as lanes are left.
        self.asm.vex(isa::BZHI, RAX, count, Operand::Register(RAX));
        self.mask_of_bits(inst);
    }

    pub(super) fn mask_of(&mut self, inst: &Inst, n: usize) {
        self.asm.constant(RAX, (1 << n) - 1);
        self.mask_of_bits(inst);
    }

    /// The bits of the scratch register as a mask.
    fn mask_of_bits(&mut self, inst: &Inst) {
        self.to(inst, |e, d| e.asm.vex(isa::KMOVW_FROM, d, 0, Operand::Register(RAX)));
    }

    pub(super) fn load_pointer(&mut self, inst: &Inst) {
        let at = Operand::Memory(self.address(inst.mem));
        self.to(inst, |e, d| e.asm.general(isa::MOV_LOAD, d, at, &[]));
    }

    pub(super) fn load_address(&mut self, inst: &Inst) {
        let at = self.address(inst.mem);
        self.to(inst, |e, d| e.asm.load_address(d, at));
    }

    pub(super) fn multiply(&mut self, inst: &Inst, by: i32) {
        let a = Operand::Register(self.general_source(inst, 0, RAX));
        self.to(inst, |e, d| e.asm.general(isa::IMUL, d, a, &by.to_le_bytes()));
    }

    pub(super) fn and(&mut self, inst: &Inst, mask: i32) {
        let a = self.general_source(inst, 0, RAX);
        self.asm.move_general(RAX, a);
        self.asm.general(isa::AND_CONST, 0, Operand::Register(RAX), &mask.to_le_bytes());
        self.to(inst, |e, d| e.asm.move_general(d, RAX));
    }

    pub(super) fn subtract(&mut self, inst: &Inst) {
        let (a, b) = (self.general_source(inst, 0, RAX), self.general_source(inst, 1, R11));
        self.asm.move_general(RAX, a);
        self.asm.general(isa::SUB, RAX, Operand::Register(b), &[]);
        self.to(inst, |e, d| e.asm.move_general(d, RAX));
    }

    /// A jump to the label if the first source is less than the second (or is not).
    pub(super) fn jump_if_less(&mut self, inst: &Inst, holds: bool, label: u32) {
        let (a, b) = (self.general_source(inst, 0, RAX), self.general_source(inst, 1, R11));
        self.asm.general(isa::CMP, a, Operand::Register(b), &[]);
        self.asm.jump(Some(if holds { 0xc } else { 0xd }), label);
    }
}
