//! Encodes calls of the host's functions: every register is kept aside, and the function called for
//! one lane after the other.

use super::{
    alloc::Registers,
    asm::{Address, Modifiers, Operand, RSP},
    encode::{Encoder, MASK, RAX},
    ir::Inst,
    isa::{self, Vex},
};
use crate::kernel::host;

/// The place where the prologue puts the address of the host's functions.
const HOST: i32 = 40;
const RBX: u8 = 3;
const R12: u8 = 12;
/// Conditions of jumps.
const EQUAL: u8 = 4;
const NO_CARRY: u8 = 3;
const LESS: u8 = 0xc;

impl Encoder<'_> {
    fn frame(&self, line: usize) -> Operand {
        Operand::Memory(Address::frame(self.allocation.calls + 64 * line as i32))
    }

    /// Keeps operands, a result and vectors; in further lines masks and general registers.
    fn keep(&mut self, restore: bool) {
        let (vector, mask, general) = match restore {
            true => (isa::LOAD_PS, isa::KMOVW_LOAD, isa::MOV_LOAD),
            false => (isa::STORE_PS, isa::KMOVW_STORE, isa::MOV_STORE),
        };
        let registers = Registers::of(self.vectors());
        for (i, &n) in registers.vectors.iter().enumerate() {
            let at = self.frame(3 + i);
            self.asm.packed(vector, n, 0, at, Modifiers::default());
        }
        let line = self.allocation.calls + 64 * (3 + registers.vectors.len() as i32);
        for (i, &n) in registers.masks.iter().enumerate() {
            let at = Operand::Memory(Address::frame(line + 8 * i as i32));
            self.asm.vex(mask, n, 0, at);
        }
        for (i, &n) in registers.generals.iter().enumerate() {
            let at = Operand::Memory(Address::frame(line + 64 + 8 * i as i32));
            self.asm.general(general, n, at, &[]);
        }
    }

    pub(super) fn call(&mut self, inst: &Inst, function: host::Function, wide: bool) {
        let operands: Vec<u8> = (0..inst.sources.len()).map(|i| self.vector(inst, i)).collect();
        for (i, &n) in operands.iter().enumerate() {
            let at = self.frame(i);
            self.asm.packed(isa::STORE_PS, n, 0, at, Modifiers::default());
        }
        let mask = inst.mask.map(|k| self.mask_reg(k, MASK[0]));
        self.to(inst, |e, d| {
            let done = e.labels.next().unwrap_or(0);
            if let Some(k) = mask {
                e.test(k);
                e.asm.jump(Some(EQUAL), done);
            }
            let result = e.frame(2);
            e.asm.packed(isa::STORE_PS, d, 0, result, Modifiers::default());
            e.keep(false);
            match mask {
                Some(k) => e.asm.vex(e.mask_bits(), R12, 0, Operand::Register(k)),
                None => e.asm.constant(R12, 0xffff),
            }
            e.lanes(operands.len(), function, wide);
            e.keep(true);
            e.asm.packed(isa::LOAD_PS, d, 0, result, Modifiers::default());
            e.asm.label(done);
        });
    }

    /// Compares a mask with nothing.
    fn test(&mut self, mask: u8) {
        if self.is_ymm() {
            self.asm.vex(isa::VMOVMSKPS, RAX, 0, Operand::Register(mask));
            self.asm.general(isa::CMP_BYTE, 0, Operand::Register(RAX), &[0]);
        } else {
            self.asm.vex(isa::KORTESTW, mask, 0, Operand::Register(mask));
        }
    }

    /// The instruction that moves the bits of a mask to a general register.
    fn mask_bits(&self) -> Vex {
        if self.is_ymm() { isa::VMOVMSKPS } else { isa::KMOVW_TO }
    }

    fn lanes(&mut self, n_operands: usize, function: host::Function, wide: bool) {
        let (body, next) = (self.labels.next().unwrap_or(0), self.labels.next().unwrap_or(0));
        let size = if wide { 8 } else { 4 };
        let lanes = self.vectors().bytes() as u8 / size;
        let (load, store) = match wide {
            true => (isa::MOVSD, isa::MOVSD_STORE),
            false => (isa::MOVSS, isa::MOVSS_STORE),
        };
        let calls = self.allocation.calls;
        let lane = |line: i32| {
            Operand::Memory(Address {
                base: RSP,
                index: Some((RBX, size)),
                disp: calls + 64 * line,
            })
        };
        self.asm.zero_upper();
        self.asm.constant(RBX, 0);
        self.asm.label(body);
        self.asm.general(isa::BT, RBX, Operand::Register(R12), &[]);
        self.asm.jump(Some(NO_CARRY), next);
        for i in 0..n_operands {
            self.asm.general(load, i as u8, lane(i as i32), &[]);
        }
        self.asm.general(isa::MOV_LOAD, RAX, Operand::Memory(Address::frame(HOST)), &[]);
        let entry = Address { base: RAX, index: None, disp: function.offset() };
        self.asm.general(isa::CALL, 0, Operand::Memory(entry), &[]);
        self.asm.general(store, 0, lane(2), &[]);
        self.asm.label(next);
        self.asm.load_address(RBX, Address { base: RBX, index: None, disp: 1 });
        self.asm.general(isa::CMP_BYTE, 0, Operand::Register(RBX), &[lanes]);
        self.asm.jump(Some(LESS), body);
    }
}
