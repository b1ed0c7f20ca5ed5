//! Bytes of instructions: EVEX for 512-bit vectors, VEX for those of 256 bits and for masks, the
//! ordinary ones for addresses and jumps.
//!
//! It knows encodings only: which registers and operands an instruction gets is said by the caller.
//! Constants are gathered in a pool behind the code and reached relative to the instruction, so
//! that the bytes run anywhere.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::isa::{self, General, Packed, Vectors, Vex};

/// The last operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(u8),
    Memory(Address),
    /// An element of the pool.
    Pool(u32),
}

/// `base + index * scale + disp`; the index of a gather is a vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: u8,
    pub(super) index: Option<(u8, u8)>,
    pub(super) disp: i32,
}

pub(super) const RSP: u8 = 4;
pub(super) const RBP: u8 = 5;

impl Address {
    pub(super) fn frame(disp: i32) -> Address {
        Address { base: RSP, index: None, disp }
    }

    pub(super) fn moved(self, by: i32) -> Address {
        Address { disp: self.disp + by, ..self }
    }
}

/// How an EVEX instruction is masked, and whether its memory operand is one element for all lanes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Modifiers {
    pub(super) mask: u8,
    pub(super) zeroing: bool,
    pub(super) broadcast: bool,
    pub(super) imm: Option<u8>,
}

/// A jump whose target is not known yet, or a reference to the pool.
enum Fixup {
    Jump { at: usize, label: u32 },
    Pool { at: usize, end: usize, offset: u32 },
}

pub(super) struct Asm {
    vectors: Vectors,
    code: Vec<u8>,
    pool: Vec<u8>,
    words: BTreeMap<u32, u32>,
    doubles: BTreeMap<u64, u32>,
    ramps: BTreeMap<i32, u32>,
    wide_ramps: BTreeMap<i64, u32>,
    fixups: Vec<Fixup>,
    labels: BTreeMap<u32, usize>,
}

impl Asm {
    pub(super) fn new(vectors: Vectors) -> Asm {
        Asm {
            vectors,
            code: Vec::new(),
            pool: Vec::new(),
            words: BTreeMap::new(),
            doubles: BTreeMap::new(),
            ramps: BTreeMap::new(),
            wide_ramps: BTreeMap::new(),
            fixups: Vec::new(),
            labels: BTreeMap::new(),
        }
    }

    /// How often the pool has a constant of so many bytes: in each lane of a vector of 256 bits,
    /// whose instructions read whole vectors only.
    fn copies(&self, bytes: usize) -> usize {
        match self.vectors {
            Vectors::Ymm => self.vectors.bytes() as usize / bytes,
            Vectors::Zmm => 1,
        }
    }

    /// The place of a 32-bit constant in the pool.
    pub(super) fn word(&mut self, bits: u32) -> Operand {
        let (n, pool) = (self.copies(4), &mut self.pool);
        let at = *self.words.entry(bits).or_insert_with(|| {
            (0..n).for_each(|_| pool.extend(bits.to_le_bytes()));
            (pool.len() - 4 * n) as u32
        });
        Operand::Pool(at)
    }

    /// The place of the vector `0, step, 2 * step, ..` in the pool.
    pub(super) fn ramp(&mut self, step: i32) -> Operand {
        let (n, pool) = (self.vectors.lanes(), &mut self.pool);
        let at = *self.ramps.entry(step).or_insert_with(|| {
            (0..n as i32).for_each(|i| pool.extend(step.wrapping_mul(i).to_le_bytes()));
            (pool.len() - 4 * n) as u32
        });
        Operand::Pool(at)
    }

    /// The place of a 64-bit constant in the pool.
    pub(super) fn double(&mut self, bits: u64) -> Operand {
        let (n, pool) = (self.copies(8), &mut self.pool);
        let at = *self.doubles.entry(bits).or_insert_with(|| {
            (0..n).for_each(|_| pool.extend(bits.to_le_bytes()));
            (pool.len() - 8 * n) as u32
        });
        Operand::Pool(at)
    }

    /// The place of a ramp in lanes of 64 bits in the pool.
    pub(super) fn wide_ramp(&mut self, step: i64) -> Operand {
        let (n, pool) = (self.vectors.lanes() / 2, &mut self.pool);
        let at = *self.wide_ramps.entry(step).or_insert_with(|| {
            (0..n as i64).for_each(|i| pool.extend(step.wrapping_mul(i).to_le_bytes()));
            (pool.len() - 8 * n) as u32
        });
        Operand::Pool(at)
    }

    /// `op reg, second, operand`. Vectors of 256 bits know no masks here, and their operand in
    /// memory is a whole vector.
    pub(super) fn packed(
        &mut self,
        op: Packed,
        reg: u8,
        second: u8,
        operand: Operand,
        with: Modifiers,
    ) {
        match self.vectors {
            Vectors::Zmm => self.evex(op, reg, second, operand, with),
            Vectors::Ymm => {
                debug_assert_eq!(with.mask, 0, "{}", op.name);
                let imm: SmallVec<[u8; 1]> = with.imm.into_iter().collect();
                self.vex_with(op.on_ymm(), reg, second, operand, &imm);
            }
        }
    }

    fn evex(&mut self, op: Packed, reg: u8, second: u8, operand: Operand, with: Modifiers) {
        let mut second = second;
        let (b, x) = match operand {
            Operand::Register(r) => (r >> 3 & 1, r >> 4 & 1),
            Operand::Memory(a) => {
                let index = a.index.map_or(0, |(i, _)| i);
                // The highest bit of a gather's vector lies with that of the second operand.
                second |= index & 16;
                (a.base >> 3 & 1, index >> 3 & 1)
            }
            Operand::Pool(_) => (0, 0),
        };
        let inverted = (reg >> 3 & 1) << 7 | x << 6 | b << 5 | (reg >> 4 & 1) << 4;
        self.code.push(0x62);
        self.code.push(inverted ^ 0xf0 | op.map);
        self.code.push(u8::from(op.wide) << 7 | (!second & 15) << 3 | 1 << 2 | op.prefix);
        let (z, broadcast) = (u8::from(with.zeroing) << 7, u8::from(with.broadcast) << 4);
        self.code.push(z | 0b10 << 5 | broadcast | (!second >> 4 & 1) << 3 | with.mask);
        self.code.push(op.opcode);
        self.operand(reg, operand, usize::from(with.imm.is_some()));
        self.code.extend(with.imm);
    }

    /// ModRM and what follows it; `after` bytes of the instruction come behind.
    fn operand(&mut self, reg: u8, operand: Operand, after: usize) {
        let reg = (reg & 7) << 3;
        match operand {
            Operand::Register(r) => self.code.push(0xc0 | reg | r & 7),
            Operand::Pool(offset) => {
                self.code.push(reg | 5);
                let at = self.code.len();
                self.fixups.push(Fixup::Pool { at, end: at + 4 + after, offset });
                self.code.extend([0; 4]);
            }
            Operand::Memory(a) => {
                let long = a.disp != 0 || a.base & 7 == RBP;
                let mode = if long { 0x80 } else { 0 };
                match a.index {
                    None if a.base & 7 != RSP => self.code.push(mode | reg | a.base & 7),
                    index => {
                        let (index, scale) = index.unwrap_or((RSP, 1));
                        self.code.push(mode | reg | 4);
                        self.code.push(
                            (scale.trailing_zeros() as u8) << 6 | (index & 7) << 3 | a.base & 7,
                        );
                    }
                }
                if long {
                    self.code.extend(a.disp.to_le_bytes());
                }
            }
        }
    }

    /// A VEX instruction.
    pub(super) fn vex(&mut self, op: Vex, reg: u8, second: u8, operand: Operand) {
        self.vex_with(op, reg, second, operand, &[]);
    }

    /// The same with a number behind it.
    pub(super) fn vex_with(&mut self, op: Vex, reg: u8, second: u8, operand: Operand, imm: &[u8]) {
        let (b, x) = high_bits(operand);
        let inverted = reg >> 3 << 7 | x << 6 | b << 5;
        self.code.extend([
            0xc4,
            inverted ^ 0xe0 | op.map,
            u8::from(op.wide) << 7 | (!second & 15) << 3 | u8::from(op.long) << 2 | op.prefix,
            op.opcode,
        ]);
        self.operand(reg, operand, imm.len());
        self.code.extend(imm);
    }

    /// An instruction on 64-bit general registers; `reg` counts where the opcode is not shared.
    pub(super) fn general(&mut self, op: General, reg: u8, operand: Operand, imm: &[u8]) {
        let (b, x) = high_bits(operand);
        let reg = op.digit.unwrap_or(reg);
        self.code.extend(op.prefix);
        self.code.push(0x48 | (reg >> 3) << 2 | x << 1 | b);
        self.code.extend(op.opcode);
        self.operand(reg, operand, imm.len());
        self.code.extend(imm);
    }

    pub(super) fn load_address(&mut self, to: u8, address: Address) {
        self.general(isa::LEA, to, Operand::Memory(address), &[]);
    }

    pub(super) fn move_general(&mut self, to: u8, from: u8) {
        if to != from {
            self.general(isa::MOV_LOAD, to, Operand::Register(from), &[]);
        }
    }

    /// A constant; the upper half of the register becomes its sign.
    pub(super) fn constant(&mut self, to: u8, value: i64) {
        match i32::try_from(value) {
            Ok(short) => {
                self.general(isa::MOV_CONST, 0, Operand::Register(to), &short.to_le_bytes())
            }
            Err(_) => {
                self.code.extend([0x48 | to >> 3, 0xb8 | to & 7]);
                self.code.extend(value.to_le_bytes());
            }
        }
    }

    pub(super) fn push(&mut self, register: u8) {
        self.code.extend([0x40 | register >> 3, 0x50 | register & 7]);
    }

    pub(super) fn pop(&mut self, register: u8) {
        self.code.extend([0x40 | register >> 3, 0x58 | register & 7]);
    }

    /// Clears what lies above 128 bits, as code without wide vectors wants it.
    pub(super) fn zero_upper(&mut self) {
        self.code.extend([0xc5, 0xf8, 0x77]);
    }

    /// Waits for stores past the caches.
    pub(super) fn fence(&mut self) {
        self.code.extend([0x0f, 0xae, 0xf8]);
    }

    pub(super) fn ret(&mut self) {
        self.code.push(0xc3);
    }

    pub(super) fn label(&mut self, label: u32) {
        self.labels.insert(label, self.code.len());
    }

    /// A jump if `condition` (the low bits of the opcode) holds; always without.
    pub(super) fn jump(&mut self, condition: Option<u8>, label: u32) {
        match condition {
            Some(c) => self.code.extend([0x0f, 0x80 | c]),
            None => self.code.push(0xe9),
        }
        self.fixups.push(Fixup::Jump { at: self.code.len(), label });
        self.code.extend([0; 4]);
    }

    /// The code with the pool behind it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.code.resize(self.code.len().next_multiple_of(64), 0xcc);
        let start = self.code.len();
        for fixup in &self.fixups {
            let (at, distance) = match *fixup {
                Fixup::Jump { at, label } => {
                    let target = self.labels.get(&label).copied().unwrap_or(at + 4);
                    (at, target as i64 - (at as i64 + 4))
                }
                Fixup::Pool { at, end, offset } => {
                    (at, (start + offset as usize) as i64 - end as i64)
                }
            };
            self.code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        self.code.extend(self.pool);
        self.code
    }
}

/// The fourth bits of the base or register of an operand, and of its index.
fn high_bits(operand: Operand) -> (u8, u8) {
    match operand {
        Operand::Register(r) => (r >> 3, 0),
        Operand::Memory(a) => (a.base >> 3, a.index.map_or(0, |(i, _)| i >> 3)),
        Operand::Pool(_) => (0, 0),
    }
}

#[cfg(test)]
mod tests;
