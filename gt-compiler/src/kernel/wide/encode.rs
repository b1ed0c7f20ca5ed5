//! Linear code with places to bytes.
//!
//! An operand outside of registers comes through the few registers the allocation leaves free:
//! sources through one by position, results through the last. Prologue and epilogue follow the
//! System V convention; the six arguments are kept at the beginning of the frame.

use super::{
    alloc::{Allocation, Place},
    asm::{Address, Asm, Modifiers, Operand, RBP, RSP},
    ir::{Base, Class, Function, Inst, Mem, Op, Reg, Source},
    isa::{self, Packed, Vectors},
};

/// Free for the encoder. Instructions of 128 and 256 bits reach these vectors, too.
pub(super) const VECTOR: [u8; 3] = [13, 14, 15];
pub(super) const MASK: [u8; 2] = [6, 7];
/// As `MASK`, of masks that are vectors.
pub(super) const YMM_MASK: u8 = 12;
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
    let asm = Asm::new(f.vectors);
    let mut e = Encoder { f, allocation, asm, labels: 1 << 24.. };
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
    fn pooled(&mut self, inst: usize) -> (Operand, Packed) {
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
        self.asm.packed(op, to, 0, operand, Modifiers::default());
    }

    pub(super) fn vectors(&self) -> Vectors {
        self.f.vectors
    }

    pub(super) fn is_ymm(&self) -> bool {
        self.f.vectors == Vectors::Ymm
    }

    /// A source in a vector register.
    pub(super) fn vector(&mut self, inst: &Inst, i: usize) -> u8 {
        match inst.sources[i] {
            Source::Reg(r) => self.vector_reg(r, VECTOR[i]),
            Source::Const(bits) => {
                let word = self.asm.word(bits);
                self.asm.packed(isa::VBROADCASTSS, VECTOR[i], 0, word, Modifiers::default());
                VECTOR[i]
            }
            Source::Wide(bits) => {
                let double = self.asm.double(bits);
                self.asm.packed(isa::VBROADCASTSD, VECTOR[i], 0, double, Modifiers::default());
                VECTOR[i]
            }
        }
    }

    pub(super) fn vector_reg(&mut self, r: Reg, scratch: u8) -> u8 {
        match self.place(r) {
            Place::Register(n) => return n,
            Place::Frame(at) => {
                let from = Operand::Memory(Address::frame(at));
                self.asm.packed(isa::LOAD_PS, scratch, 0, from, Modifiers::default());
            }
            Place::Constant(inst) => self.load_constant(scratch, inst),
        }
        scratch
    }

    /// A last source, which may lie in memory; `true` if it is one word for all lanes.
    pub(super) fn last(&mut self, inst: &Inst, i: usize) -> (Operand, bool) {
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
            Place::Frame(_) if self.is_ymm() => self.vector_reg(r, YMM_MASK),
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
        let class = match self.f.classes[dst.0 as usize] {
            Class::Mask if self.is_ymm() => Class::Vector,
            class @ (Class::Vector | Class::Mask | Class::General) => class,
        };
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
            Class::Vector => self.asm.packed(isa::STORE_PS, register, 0, at, Modifiers::default()),
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
            Class::Mask | Class::General => (self.general_reg(r, R11), scale),
        });
        Address { base, index, disp: mem.disp }
    }

    pub(super) fn modifiers(&mut self, inst: &Inst) -> Modifiers {
        let mask = inst.mask.map_or(0, |k| self.mask_reg(k, MASK[0]));
        Modifiers {
            mask,
            zeroing: mask != 0 && !inst.merge && inst.dst.is_some(),
            ..Modifiers::default()
        }
    }

    /// Each op has its arm here, so that the compiler names the one without an encoding.
    fn inst(&mut self, inst: &Inst) {
        if self.is_ymm() && self.on_ymm(inst) {
            return;
        }
        match inst.op {
            Op::Binary(op, imm) | Op::Compare(op, imm) => {
                let (a, (b, broadcast)) = (self.vector(inst, 0), self.last(inst, 1));
                let with = Modifiers { broadcast, imm, ..self.modifiers(inst) };
                self.to(inst, |e, d| e.asm.packed(op, d, a, b, with));
            }
            Op::Unary(op) => self.unary(inst, op, None),
            Op::Round { wide, how } => {
                let op = if wide { isa::VRNDSCALEPD } else { isa::VRNDSCALEPS };
                self.unary(inst, op, Some(how));
            }
            Op::MulAdd { wide } => self.mul_add(inst, wide),
            Op::Shift(op, count) => {
                let a = Operand::Register(self.vector(inst, 0));
                let with = Modifiers { imm: Some(count), ..Modifiers::default() };
                self.to(inst, |e, d| e.asm.packed(op, op.digit, d, a, with));
            }
            Op::Lookup(table) => self.lookup(inst, table),
            Op::Blend { wide } => self.blend(inst, wide),
            Op::MaskedConst => self.masked_const(inst),
            Op::Move { wide } => {
                let a = self.vector(inst, 0);
                let with = self.modifiers(inst);
                self.to(inst, |e, d| {
                    if d != a || with.mask != 0 {
                        let op = if wide { isa::VMOVAPD } else { isa::VMOVAPS };
                        e.asm.packed(op, d, 0, Operand::Register(a), with);
                    }
                });
            }
            Op::Call { function, wide } => self.call(inst, function, wide),
            Op::RoundHalf => self.round_half(inst),
            Op::Narrow(op) => self.narrow(inst, op),
            Op::Extend => self.extend(inst),
            Op::Join => self.join(inst),
            Op::JoinFloat16 => self.join_float16(inst),
            Op::Exchange(distance) => self.exchange(inst, distance),
            Op::Splat { wide } => self.splat(inst, wide),
            Op::SplatGeneral { wide } => self.splat_general(inst, wide),
            Op::Ramp(step) => self.ramp(inst, step),
            Op::WideRamp(step) => self.wide_ramp(inst, step),
            Op::SplatNarrow(width) => self.splat_narrow(inst, width),
            Op::Load(width) => self.load(inst, width),
            Op::Store(width) => self.store(inst, width),
            Op::Stream => {
                let (value, at) = (self.vector(inst, 0), self.address(inst.mem));
                let at = Operand::Memory(at);
                self.asm.packed(isa::VMOVNTPS, value, 0, at, Modifiers::default());
            }
            Op::Fence => self.asm.fence(),
            Op::StoreFirst(width, n) => self.store_first(inst, width, n),
            Op::Gather { wide } => self.gather(inst, wide),
            Op::Scatter { wide } => self.scatter(inst, wide),
            Op::MaskBinary(op) => self.mask_binary(inst, op),
            Op::MaskNot => self.mask_unary(inst, isa::KNOTW),
            Op::MaskMove => self.mask_unary(inst, isa::KMOVW_LOAD),
            Op::MaskOnes => self.mask_ones(inst),
            Op::MaskUpper => self.mask_upper(inst),
            Op::MaskJoin => self.mask_join(inst),
            Op::MaskCount => self.mask_count(inst),
            Op::MaskOf(n) => self.mask_of(inst, n),
            Op::LoadApart { n, stride, width } => self.load_apart(inst, n, stride, width),
            Op::StoreApart { n, stride, width } => self.store_apart(inst, n, stride, width),
            Op::LoadFirst(..) => {} // only `ymm` has it
            Op::Constant(value) => self.to(inst, |e, d| e.asm.constant(d, value)),
            Op::LoadPointer => self.load_pointer(inst),
            Op::Address => self.load_address(inst),
            Op::Multiply(by) => self.multiply(inst, by),
            Op::And(mask) => self.and(inst, mask),
            Op::Subtract => self.subtract(inst),
            Op::JumpIfLess { holds, label } => self.jump_if_less(inst, holds, label),
            Op::Label(label) => self.asm.label(label),
        }
    }

    /// The lanes of the second source where the mask holds, those of the first elsewhere.
    fn blend(&mut self, inst: &Inst, wide: bool) {
        let (a, (b, broadcast)) = (self.vector(inst, 0), self.last(inst, 1));
        let mask = inst.mask.map_or(0, |k| self.mask_reg(k, MASK[0]));
        let with = Modifiers { mask, broadcast, ..Modifiers::default() };
        let op = if wide { isa::VPBLENDMQ } else { isa::VPBLENDMD };
        self.to(inst, |e, d| e.asm.packed(op, d, a, b, with));
    }

    /// The constant where the mask holds.
    fn masked_const(&mut self, inst: &Inst) {
        let (word, _) = self.last(inst, 0);
        let with = self.modifiers(inst);
        let wide = matches!(inst.sources[0], Source::Wide(_));
        let op = if wide { isa::VBROADCASTSD } else { isa::VBROADCASTSS };
        self.to(inst, |e, d| e.asm.packed(op, d, 0, word, with));
    }

    fn unary(&mut self, inst: &Inst, op: Packed, imm: Option<u8>) {
        let (a, broadcast) = self.last(inst, 0);
        let with = Modifiers { broadcast, imm, ..Modifiers::default() };
        self.to(inst, |e, d| e.asm.packed(op, d, 0, a, with));
    }

    /// The form of the instruction that overwrites the source the result lies in.
    fn mul_add(&mut self, inst: &Inst, wide: bool) {
        let (to_summand, to_factor) = match wide {
            true => (isa::VFMADD231PD, isa::VFMADD213PD),
            false => (isa::VFMADD231PS, isa::VFMADD213PS),
        };
        let (a, (c, broadcast)) = (self.vector(inst, 0), self.last(inst, 2));
        let b = self.vector(inst, 1);
        self.to(inst, |e, d| {
            let with = Modifiers { broadcast, ..Modifiers::default() };
            let plain = Modifiers::default();
            match c {
                Operand::Register(c) if c == d && a != d && b != d => {
                    e.asm.packed(to_summand, d, a, Operand::Register(b), plain);
                }
                Operand::Register(c) if c == d => {
                    // The result is the summand and a factor.
                    e.asm.packed(isa::VMOVAPS, VECTOR[0], 0, Operand::Register(a), plain);
                    e.asm.packed(to_factor, VECTOR[0], b, Operand::Register(c), plain);
                    e.asm.packed(isa::VMOVAPS, d, 0, Operand::Register(VECTOR[0]), plain);
                }
                c if b == d => e.asm.packed(to_factor, d, a, c, with),
                Operand::Register(_) | Operand::Memory(_) | Operand::Pool(_) => {
                    if a != d {
                        e.asm.packed(isa::VMOVAPS, d, 0, Operand::Register(a), plain);
                    }
                    e.asm.packed(to_factor, d, b, c, with);
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
                e.asm.packed(isa::VMOVAPS, work, 0, Operand::Register(a), plain);
            }
            e.asm.packed(isa::VPTERNLOGD, work, b, c, with);
            if work != d {
                e.asm.packed(isa::VMOVAPS, d, 0, Operand::Register(work), plain);
            }
        });
    }
}
