//! Encodes calls of the host's functions: every register is kept aside, and the function called for
//! one lane after the other.

use super::{
    alloc::{GENERALS, MASKS, VECTORS},
    asm::{Address, Modifiers, Operand, RSP},
    encode::{Encoder, MASK, RAX},
    ir::Inst,
    isa,
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
        for (i, &n) in VECTORS.iter().enumerate() {
            let at = self.frame(3 + i);
            self.asm.evex(vector, n, 0, at, Modifiers::default());
        }
        let line = self.allocation.calls + 64 * (3 + VECTORS.len() as i32);
        for (i, &n) in MASKS.iter().enumerate() {
            let at = Operand::Memory(Address::frame(line + 8 * i as i32));
            self.asm.vex(mask, n, 0, at);
        }
        for (i, &n) in GENERALS.iter().enumerate() {
            let at = Operand::Memory(Address::frame(line + 64 + 8 * i as i32));
            self.asm.general(general, n, at, &[]);
        }
    }

    pub(super) fn call(&mut self, inst: &Inst, function: host::Function, wide: bool) {
        let operands: Vec<u8> = (0..inst.sources.len()).map(|i| self.vector(inst, i)).collect();
        for (i, &n) in operands.iter().enumerate() {
            let at = self.frame(i);
            self.asm.evex(isa::STORE_PS, n, 0, at, Modifiers::default());
        }
        let mask = inst.mask.map(|k| self.mask_reg(k, MASK[0]));
        self.to(inst, |e, d| {
            let done = e.labels.next().unwrap_or(0);
            if let Some(k) = mask {
                e.asm.vex(isa::KORTESTW, k, 0, Operand::Register(k));
                e.asm.jump(Some(EQUAL), done);
            }
            let result = e.frame(2);
            e.asm.evex(isa::STORE_PS, d, 0, result, Modifiers::default());
            e.keep(false);
            match mask {
                Some(k) => e.asm.vex(isa::KMOVW_TO, R12, 0, Operand::Register(k)),
                None => e.asm.constant(R12, 0xffff),
            }
            e.lanes(operands.len(), function, wide);
            e.keep(true);
            e.asm.evex(isa::LOAD_PS, d, 0, result, Modifiers::default());
            e.asm.label(done);
        });
    }

    fn lanes(&mut self, n_operands: usize, function: host::Function, wide: bool) {
        let (body, next) = (self.labels.next().unwrap_or(0), self.labels.next().unwrap_or(0));
        let (size, lanes) = if wide { (8, 8) } else { (4, 16) };
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
