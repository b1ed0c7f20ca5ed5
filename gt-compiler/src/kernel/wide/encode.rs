//! Linear code with places to bytes.
//!
//! What does not lie in a register comes through the few registers the allocation leaves free:
//! sources through one by position, results through the last. Prologue and epilogue follow the
//! System V convention; the six arguments are kept at the beginning of the frame.

use super::{
    alloc::{Allocation, Place},
    asm::{Address, Asm, Modifiers, Operand, RBP, RSP},
    ir::{Base, Class, Function, Inst, Mem, Op, Reg, Source, Width},
    isa::{self, Evex},
};

/// Free for the encoder.
const VECTOR: [u8; 3] = [29, 30, 31];
pub(super) const MASK: [u8; 2] = [6, 7];
pub(super) const RAX: u8 = 0;
pub(super) const R11: u8 = 11;
const SAVED: [u8; 5] = [3, 12, 13, 14, 15];

pub(super) struct Encoder<'f> {
    f: &'f Function,
    pub(super) allocation: &'f Allocation,
    pub(super) asm: Asm,
    /// Labels within calls.
    pub(super) labels: std::ops::RangeFrom<u32>,
}

/// The bytes of a function.
pub(super) fn encode(f: &Function, allocation: &Allocation) -> Vec<u8> {
    let mut e = Encoder { f, allocation, asm: Asm::default(), labels: 1 << 24.. };
    e.prologue();
    f.insts.iter().for_each(|inst| e.inst(inst));
    e.epilogue();
    e.asm.finish()
}

impl Encoder<'_> {
    fn prologue(&mut self) {
        let a = &mut self.asm;
        a.push(RBP);
        a.move_general(RBP, RSP);
        SAVED.iter().for_each(|&r| a.push(r));
        a.general(isa::SUB_CONST, 0, Operand::Register(RSP), &self.allocation.frame.to_le_bytes());
        a.general(isa::AND_BYTE, 0, Operand::Register(RSP), &[0xc0]); // the last 64th
        for (i, argument) in [7, 6, 2, 1, 8, 9].into_iter().enumerate() {
            a.general(isa::MOV_STORE, argument, Operand::Memory(Address::frame(8 * i as i32)), &[]);
        }
    }

    fn epilogue(&mut self) {
        let a = &mut self.asm;
        a.load_address(RSP, Address { base: RBP, index: None, disp: -8 * SAVED.len() as i32 });
        SAVED.iter().rev().for_each(|&r| a.pop(r));
        a.pop(RBP);
        a.zero_upper();
        a.ret();
    }

    fn place(&self, r: Reg) -> Place {
        self.allocation.places[r.0 as usize]
    }

    /// A constant of the pool, and the instruction that puts it in a register.
    fn pooled(&mut self, inst: usize) -> (Operand, Evex) {
        match (self.f.insts[inst].op, self.f.insts[inst].sources.first()) {
            (Op::Ramp(step), _) => (self.asm.ramp(step), isa::LOAD_PS),
            (Op::WideRamp(step), _) => (self.asm.wide_ramp(step), isa::LOAD_PS),
            (_, Some(&Source::Wide(bits))) => (self.asm.double(bits), isa::VBROADCASTSD),
            (_, Some(&Source::Const(bits))) => (self.asm.word(bits), isa::VBROADCASTSS),
            _ => (self.asm.word(0), isa::VBROADCASTSS),
        }
    }

    fn load_constant(&mut self, to: u8, inst: usize) {
        let (operand, op) = self.pooled(inst);
        self.asm.evex(op, to, 0, operand, Modifiers::default());
    }

    /// A source in a vector register.
    pub(super) fn vector(&mut self, inst: &Inst, i: usize) -> u8 {
        match inst.sources[i] {
            Source::Reg(r) => self.vector_reg(r, VECTOR[i]),
            Source::Const(bits) => {
                let word = self.asm.word(bits);
                self.asm.evex(isa::VBROADCASTSS, VECTOR[i], 0, word, Modifiers::default());
                VECTOR[i]
            }
            Source::Wide(bits) => {
                let double = self.asm.double(bits);
                self.asm.evex(isa::VBROADCASTSD, VECTOR[i], 0, double, Modifiers::default());
                VECTOR[i]
            }
        }
    }

    fn vector_reg(&mut self, r: Reg, scratch: u8) -> u8 {
        match self.place(r) {
            Place::Register(n) => return n,
            Place::Frame(at) => {
                let from = Operand::Memory(Address::frame(at));
                self.asm.evex(isa::LOAD_PS, scratch, 0, from, Modifiers::default());
            }
            Place::Constant(inst) => self.load_constant(scratch, inst),
        }
        scratch
    }

    /// A last source, which may lie in memory; `true` if it is one word for all lanes.
    fn last(&mut self, inst: &Inst, i: usize) -> (Operand, bool) {
        match inst.sources[i] {
            Source::Const(bits) => (self.asm.word(bits), true),
            Source::Wide(bits) => (self.asm.double(bits), true),
            Source::Reg(r) => match self.place(r) {
                Place::Register(n) => (Operand::Register(n), false),
                Place::Frame(at) => (Operand::Memory(Address::frame(at)), false),
                Place::Constant(inst) => {
                    let (operand, op) = self.pooled(inst);
                    (operand, op != isa::LOAD_PS)
                }
            },
        }
    }

    pub(super) fn mask_reg(&mut self, r: Reg, scratch: u8) -> u8 {
        match self.place(r) {
            Place::Register(n) => n,
            Place::Frame(at) => {
                self.asm.vex(isa::KMOVW_LOAD, scratch, 0, Operand::Memory(Address::frame(at)));
                scratch
            }
            Place::Constant(_) => scratch,
        }
    }

    pub(super) fn mask_source(&mut self, inst: &Inst, i: usize) -> u8 {
        match inst.sources[i] {
            Source::Reg(r) => self.mask_reg(r, MASK[i]),
            Source::Const(_) | Source::Wide(_) => MASK[i],
        }
    }

    fn general_reg(&mut self, r: Reg, scratch: u8) -> u8 {
        match self.place(r) {
            Place::Register(n) => n,
            Place::Frame(at) => {
                self.asm.general(isa::MOV_LOAD, scratch, Operand::Memory(Address::frame(at)), &[]);
                scratch
            }
            Place::Constant(_) => scratch,
        }
    }

    pub(super) fn general_source(&mut self, inst: &Inst, i: usize, scratch: u8) -> u8 {
        match inst.sources[i] {
            Source::Reg(r) => self.general_reg(r, scratch),
            Source::Const(_) | Source::Wide(_) => scratch,
        }
    }

    /// Calls `write` with the register of the result, which goes to the frame afterwards if it lies
    /// there.
    pub(super) fn to(&mut self, inst: &Inst, write: impl FnOnce(&mut Self, u8)) {
        let Some(dst) = inst.dst else { return };
        let place = self.place(dst);
        let class = self.f.classes[dst.0 as usize];
        let scratch = match class {
            Class::Vector => VECTOR[2],
            Class::Mask => MASK[1],
            Class::General => RAX,
        };
        let register = match place {
            Place::Register(n) => n,
            Place::Frame(_) if inst.merge => self.vector_reg(dst, scratch),
            Place::Frame(_) => scratch,
            Place::Constant(_) => return, // made where it is used
        };
        write(self, register);
        let Place::Frame(at) = place else { return };
        let at = Operand::Memory(Address::frame(at));
        match class {
            Class::Vector => self.asm.evex(isa::STORE_PS, register, 0, at, Modifiers::default()),
            Class::Mask => self.asm.vex(isa::KMOVW_STORE, register, 0, at),
            Class::General => self.asm.general(isa::MOV_STORE, register, at, &[]),
        }
    }

    pub(super) fn address(&mut self, mem: Option<Mem>) -> Address {
        let Some(mem) = mem else { return Address::frame(0) };
        let base = match mem.base {
            Base::Frame => RSP,
            Base::Reg(r) => self.general_reg(r, RAX),
        };
        let index = mem.index.map(|(r, scale)| match self.f.classes[r.0 as usize] {
            Class::Vector => (self.vector_reg(r, VECTOR[1]), scale),
            _ => (self.general_reg(r, R11), scale),
        });
        Address { base, index, disp: mem.disp }
    }

    fn modifiers(&mut self, inst: &Inst) -> Modifiers {
        let mask = inst.mask.map_or(0, |k| self.mask_reg(k, MASK[0]));
        Modifiers {
            mask,
            zeroing: mask != 0 && !inst.merge && inst.dst.is_some(),
            ..Modifiers::default()
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Binary(op, imm) | Op::Compare(op, imm) => {
                let (a, (b, broadcast)) = (self.vector(inst, 0), self.last(inst, 1));
                self.to(inst, |e, d| {
                    e.asm.evex(op, d, a, b, Modifiers { broadcast, imm, ..Modifiers::default() })
                });
            }
            Op::Unary(op) => {
                let (a, broadcast) = self.last(inst, 0);
                self.to(inst, |e, d| {
                    e.asm.evex(op, d, 0, a, Modifiers { broadcast, ..Modifiers::default() })
                });
            }
            Op::MulAdd => self.mul_add(inst),
            Op::Shift(op, count) => {
                let a = Operand::Register(self.vector(inst, 0));
                let with = Modifiers { imm: Some(count), ..Modifiers::default() };
                self.to(inst, |e, d| e.asm.evex(op, op.digit, d, a, with));
            }
            Op::Lookup(table) => self.lookup(inst, table),
            Op::Blend { wide } => {
                let (a, (b, broadcast)) = (self.vector(inst, 0), self.last(inst, 1));
                let mask = inst.mask.map_or(0, |k| self.mask_reg(k, MASK[0]));
                let with = Modifiers { mask, broadcast, ..Modifiers::default() };
                let op = if wide { isa::VPBLENDMQ } else { isa::VPBLENDMD };
                self.to(inst, |e, d| e.asm.evex(op, d, a, b, with));
            }
            Op::MaskedConst => {
                let (word, _) = self.last(inst, 0);
                let with = self.modifiers(inst);
                let op = if matches!(inst.sources[0], Source::Wide(_)) {
                    isa::VBROADCASTSD
                } else {
                    isa::VBROADCASTSS
                };
                self.to(inst, |e, d| e.asm.evex(op, d, 0, word, with));
            }
            Op::Move { wide } => {
                let a = self.vector(inst, 0);
                let with = self.modifiers(inst);
                self.to(inst, |e, d| {
                    if d != a || with.mask != 0 {
                        let op = if wide { isa::VMOVAPD } else { isa::VMOVAPS };
                        e.asm.evex(op, d, 0, Operand::Register(a), with);
                    }
                });
            }
            Op::Call { function, wide } => self.call(inst, function, wide),
            Op::RoundHalf | Op::Narrow(_) | Op::Extend | Op::Join | Op::Exchange { .. } => {
                self.lane_inst(inst)
            }
            Op::Splat { .. }
            | Op::SplatGeneral
            | Op::SplatNarrow(_)
            | Op::Ramp(_)
            | Op::WideRamp(_)
            | Op::Load(_)
            | Op::Store(_)
            | Op::Gather { .. }
            | Op::Scatter { .. } => self.memory_inst(inst),
            Op::MaskBinary(..)
            | Op::MaskNot
            | Op::MaskMove
            | Op::MaskOnes
            | Op::MaskUpper
            | Op::MaskJoin
            | Op::MaskFirst
            | Op::MaskCount => self.mask_inst(inst),
            Op::Constant(_)
            | Op::LoadPointer
            | Op::Address
            | Op::Multiply(_)
            | Op::And(_)
            | Op::Subtract
            | Op::JumpIfLess { .. }
            | Op::Label(_) => self.general_inst(inst),
        }
    }

    /// What changes the width of lanes, or their places.
    fn lane_inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::RoundHalf => {
                let a = self.vector(inst, 0);
                let with = Modifiers { imm: Some(0), ..Modifiers::default() };
                let half = Operand::Register(VECTOR[2]);
                self.asm.evex(isa::VCVTPS2PH, a, 0, half, with);
                self.to(inst, |e, d| e.asm.evex(isa::VCVTPH2PS, d, 0, half, Modifiers::default()));
            }
            Op::Narrow(op) => {
                let (a, lower) = (self.vector(inst, 0), VECTOR[2]);
                self.asm.evex(op, a, 0, Operand::Register(lower), Modifiers::default());
                self.to(inst, |e, d| {
                    e.asm.evex(isa::VMOVAPS, d, 0, Operand::Register(lower), Modifiers::default());
                });
            }
            Op::Extend => {
                let a = Operand::Register(self.vector(inst, 0));
                self.to(inst, |e, d| e.asm.evex(isa::VPMOVSXDQ, d, 0, a, Modifiers::default()));
            }
            Op::Join => {
                let (a, b) = (self.vector(inst, 0), Operand::Register(self.vector(inst, 1)));
                let with = Modifiers { imm: Some(1), ..Modifiers::default() };
                self.to(inst, |e, d| e.asm.evex(isa::VINSERTF64X4, d, a, b, with));
            }
            Op::Exchange { groups, order } => {
                let a = self.vector(inst, 0);
                let with = Modifiers { imm: Some(order), ..Modifiers::default() };
                let (op, second) = if groups { (isa::VSHUFF32X4, a) } else { (isa::VPSHUFD, 0) };
                self.to(inst, |e, d| e.asm.evex(op, d, second, Operand::Register(a), with));
            }
            _ => (),
        }
    }

    /// What moves vectors from memory and to it.
    fn memory_inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Splat { wide } => {
                let op = if wide { isa::VBROADCASTSD } else { isa::VBROADCASTSS };
                let from = match inst.mem {
                    Some(_) => Operand::Memory(self.address(inst.mem)),
                    None => self.last(inst, 0).0,
                };
                self.to(inst, |e, d| e.asm.evex(op, d, 0, from, Modifiers::default()));
            }
            Op::SplatGeneral => {
                let from = Operand::Register(self.general_source(inst, 0, RAX));
                self.to(inst, |e, d| {
                    e.asm.evex(isa::VPBROADCASTQ, d, 0, from, Modifiers::default());
                });
            }
            Op::Ramp(step) => {
                let ramp = self.asm.ramp(step);
                self.to(inst, |e, d| e.asm.evex(isa::LOAD_PS, d, 0, ramp, Modifiers::default()));
            }
            Op::WideRamp(step) => {
                let ramp = self.asm.wide_ramp(step);
                self.to(inst, |e, d| e.asm.evex(isa::LOAD_PS, d, 0, ramp, Modifiers::default()));
            }
            Op::SplatNarrow(width) => {
                let at = Operand::Memory(self.address(inst.mem));
                let op = if width == Width::Byte { isa::MOVZX8 } else { isa::MOVZX16 };
                self.asm.general(op, RAX, at, &[]);
                self.to(inst, |e, d| {
                    e.asm.evex(
                        isa::VPBROADCASTD,
                        d,
                        0,
                        Operand::Register(RAX),
                        Modifiers::default(),
                    )
                });
            }
            Op::Load(width) => {
                let op = match width {
                    Width::Double => isa::LOAD_PD,
                    Width::Word => isa::LOAD_PS,
                    Width::Byte => isa::VPMOVZXBD,
                    Width::Half => isa::VPMOVZXWD,
                };
                let (at, with) = (Operand::Memory(self.address(inst.mem)), self.modifiers(inst));
                self.to(inst, |e, d| e.asm.evex(op, d, 0, at, with));
            }
            Op::Store(width) => {
                let op = match width {
                    Width::Double => isa::STORE_PD,
                    Width::Word => isa::STORE_PS,
                    Width::Byte => isa::VPMOVDB,
                    Width::Half => isa::VPMOVDW,
                };
                let value = self.vector(inst, 0);
                let (at, with) = (Operand::Memory(self.address(inst.mem)), self.modifiers(inst));
                self.asm.evex(op, value, 0, at, with);
            }
            Op::Gather { wide } => {
                let (at, mut with) =
                    (Operand::Memory(self.address(inst.mem)), self.modifiers(inst));
                with.zeroing = false; // lanes left out keep the zeros written first
                self.to(inst, |e, d| {
                    e.asm.evex(isa::VPXORD, d, d, Operand::Register(d), Modifiers::default());
                    let op = if wide { isa::VGATHERDPD } else { isa::VGATHERDPS };
                    e.asm.evex(op, d, 0, at, with);
                });
            }
            Op::Scatter { wide } => {
                let value = self.vector(inst, 0);
                let (at, with) = (Operand::Memory(self.address(inst.mem)), self.modifiers(inst));
                let op = if wide { isa::VSCATTERDPD } else { isa::VSCATTERDPS };
                self.asm.evex(op, value, 0, at, with);
            }
            _ => (),
        }
    }

    /// The form of the instruction that overwrites the source the result lies in.
    fn mul_add(&mut self, inst: &Inst) {
        let (a, (c, broadcast)) = (self.vector(inst, 0), self.last(inst, 2));
        let b = self.vector(inst, 1);
        self.to(inst, |e, d| {
            let with = Modifiers { broadcast, ..Modifiers::default() };
            let plain = Modifiers::default();
            match c {
                Operand::Register(c) if c == d && a != d && b != d => {
                    e.asm.evex(isa::VFMADD231PS, d, a, Operand::Register(b), plain);
                }
                Operand::Register(c) if c == d => {
                    // The result is the summand and a factor.
                    e.asm.evex(isa::VMOVAPS, VECTOR[0], 0, Operand::Register(a), plain);
                    e.asm.evex(isa::VFMADD213PS, VECTOR[0], b, Operand::Register(c), plain);
                    e.asm.evex(isa::VMOVAPS, d, 0, Operand::Register(VECTOR[0]), plain);
                }
                c if b == d => e.asm.evex(isa::VFMADD213PS, d, a, c, with),
                c => {
                    if a != d {
                        e.asm.evex(isa::VMOVAPS, d, 0, Operand::Register(a), plain);
                    }
                    e.asm.evex(isa::VFMADD213PS, d, b, c, with);
                }
            }
        });
    }

    fn lookup(&mut self, inst: &Inst, table: u8) {
        let (a, b) = (self.vector(inst, 0), self.vector(inst, 1));
        let (c, broadcast) = self.last(inst, 2);
        let with = Modifiers { broadcast, imm: Some(table), ..Modifiers::default() };
        self.to(inst, |e, d| {
            let plain = Modifiers::default();
            let work = if d == a { d } else { VECTOR[0] };
            if work != a {
                e.asm.evex(isa::VMOVAPS, work, 0, Operand::Register(a), plain);
            }
            e.asm.evex(isa::VPTERNLOGD, work, b, c, with);
            if work != d {
                e.asm.evex(isa::VMOVAPS, d, 0, Operand::Register(work), plain);
            }
        });
    }
}
