//! Encodes calls of the host's functions: every register is kept aside, and the function called for
//! one lane after the other.

use super::{
    alloc::{GENERALS, MASKS, VECTORS},
    asm::{Address, Modifiers, Operand, RSP},
    encode::{Encoder, LOAD, MASK, RAX, STORE},
    ir::Inst,
};
use crate::kernel::host;

/// Where the prologue puts the address of the host's functions.
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

    /// What is kept: operands, a result, vectors; in further lines masks and general registers.
    fn keep(&mut self, restore: bool) {
        let (vector, mask, general) = match restore {
            true => (LOAD, 0x90, 0x8b),
            false => (STORE, 0x91, 0x89),
        };
        for (i, &n) in VECTORS.iter().enumerate() {
            let at = self.frame(3 + i);
            self.asm.evex(vector, n, 0, at, Modifiers::default());
        }
        let line = self.allocation.calls + 64 * (3 + VECTORS.len() as i32);
        for (i, &n) in MASKS.iter().enumerate() {
            let at = Operand::Memory(Address::frame(line + 8 * i as i32));
            self.asm.vex((1, 0, mask), false, n, 0, at);
        }
        for (i, &n) in GENERALS.iter().enumerate() {
            let at = Operand::Memory(Address::frame(line + 64 + 8 * i as i32));
            self.asm.general(&[general], n, at, &[]);
        }
    }

    pub(super) fn call(&mut self, inst: &Inst, function: host::Function, wide: bool) {
        let operands: Vec<u8> = (0..inst.sources.len()).map(|i| self.vector(inst, i)).collect();
        for (i, &n) in operands.iter().enumerate() {
            let at = self.frame(i);
            self.asm.evex(STORE, n, 0, at, Modifiers::default());
        }
        let mask = inst.mask.map(|k| self.mask_reg(k, MASK[0]));
        self.to(inst, |e, d| {
            let done = e.labels.next().unwrap_or(0);
            if let Some(k) = mask {
                e.asm.vex((1, 0, 0x98), false, k, 0, Operand::Register(k)); // kortestw
                e.asm.jump(Some(EQUAL), done);
            }
            let result = e.frame(2);
            e.asm.evex(STORE, d, 0, result, Modifiers::default());
            e.keep(false);
            match mask {
                Some(k) => e.asm.vex((1, 0, 0x93), false, R12, 0, Operand::Register(k)),
                None => e.asm.constant(R12, 0xffff),
            }
            e.lanes(operands.len(), function, wide);
            e.keep(true);
            e.asm.evex(LOAD, d, 0, result, Modifiers::default());
            e.asm.label(done);
        });
    }

    fn lanes(&mut self, n_operands: usize, function: host::Function, wide: bool) {
        let (body, next) = (self.labels.next().unwrap_or(0), self.labels.next().unwrap_or(0));
        let (size, prefix, lanes) = if wide { (8, 0xf2, 8) } else { (4, 0xf3, 16) };
        let calls = self.allocation.calls;
        let lane = |line: i32| {
            Operand::Memory(Address {
                base: RSP,
                index: Some((RBX, size)),
                disp: calls + 64 * line,
            })
        };
        self.asm.raw(&[0xc5, 0xf8, 0x77]); // vzeroupper
        self.asm.constant(RBX, 0);
        self.asm.label(body);
        self.asm.general(&[0x0f, 0xa3], RBX, Operand::Register(R12), &[]); // bt
        self.asm.jump(Some(NO_CARRY), next);
        for i in 0..n_operands {
            self.asm.raw(&[prefix]);
            self.asm.general(&[0x0f, 0x10], i as u8, lane(i as i32), &[]);
        }
        self.asm.general(&[0x8b], RAX, Operand::Memory(Address::frame(HOST)), &[]);
        let entry = Address { base: RAX, index: None, disp: function.offset() };
        self.asm.general(&[0xff], 2, Operand::Memory(entry), &[]);
        self.asm.raw(&[prefix]);
        self.asm.general(&[0x0f, 0x11], 0, lane(2), &[]);
        self.asm.label(next);
        self.asm.load_address(RBX, Address { base: RBX, index: None, disp: 1 });
        self.asm.general(&[0x83], 7, Operand::Register(RBX), &[lanes]); // cmp
        self.asm.jump(Some(LESS), body);
    }
}
