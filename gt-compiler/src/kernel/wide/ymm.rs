//! Encodes what vectors of 256 bits have other instructions for: masks, which are vectors, elements
//! of one or two bytes, and lanes that change places.
//!
//! A mask has a lane of 32 bits for each lane. That of lanes of 64 bits stands in its lower half,
//! and is widened where it is used. There is no scatter, and no masked access to narrow elements:
//! their lanes go through the frame one by one.

use super::{
    asm::{Address, Modifiers, Operand, RSP},
    encode::{Encoder, R11, RAX, VECTOR, YMM_MASK},
    ir::{Inst, Op, Reg, Source, Width},
    isa::{self, General, Packed, Vex},
};

const EQUAL: u8 = 4;
const ALL: u32 = u32::MAX;

/// The lines of the frame where lanes are handled one by one: the mask, the values, the distances.
#[derive(Clone, Copy)]
enum Line {
    Mask,
    Values,
    Distances,
}

impl Encoder<'_> {
    /// Encodes an instruction if it is another one than that of wider vectors.
    pub(super) fn on_ymm(&mut self, inst: &Inst) -> bool {
        match inst.op {
            Op::Compare(isa::VCMPPS, _) => return false,
            Op::Compare(op, imm) => self.compare_ymm(inst, op, imm.unwrap_or(0)),
            Op::Blend { wide } => self.blend_ymm(inst, wide),
            Op::Move { wide } if inst.mask.is_some() => self.merge_ymm(inst, wide),
            Op::MaskedConst => self.masked_const_ymm(inst),
            Op::Narrow(_) => self.narrow_ymm(inst),
            Op::Join | Op::MaskJoin => self.join_ymm(inst),
            Op::Exchange(4) => self.swap_halves(inst),
            Op::Load(width) if inst.mask.is_some() => self.load_masked(inst, width),
            Op::Store(width) if inst.mask.is_some() => self.store_masked(inst, width),
            Op::Store(width @ (Width::Byte | Width::Half)) => self.store_first(inst, width, 8),
            Op::Gather { wide } => self.gather_ymm(inst, wide),
            Op::Scatter { wide } => self.scatter_ymm(inst, wide),
            Op::MaskBinary(op) => self.mask_binary_ymm(inst, op),
            Op::MaskNot => self.mask_not(inst),
            Op::MaskMove => self.mask_move(inst),
            Op::MaskOnes => self.to(inst, |e, d| e.same(isa::VPCMPEQD, d, d)),
            Op::MaskUpper => self.mask_upper_ymm(inst),
            Op::MaskCount => self.mask_count_ymm(inst),
            Op::MaskOf(n) => self.mask_of_ymm(inst, n),
            Op::LoadFirst(width, n) => self.load_first(inst, width, n),
            Op::Binary(..)
            | Op::Unary(_)
            | Op::MulAdd { .. }
            | Op::Shift(..)
            | Op::Lookup(_)
            | Op::Round { .. }
            | Op::RoundHalf
            | Op::JoinFloat16
            | Op::Move { .. }
            | Op::Splat { .. }
            | Op::SplatGeneral { .. }
            | Op::SplatNarrow(_)
            | Op::Load(_)
            | Op::Store(_)
            | Op::StoreFirst(..)
            | Op::Stream
            | Op::Fence
            | Op::LoadApart { .. }
            | Op::StoreApart { .. }
            | Op::Ramp(_)
            | Op::WideRamp(_)
            | Op::Extend
            | Op::Exchange(_)
            | Op::Call { .. }
            | Op::Constant(_)
            | Op::LoadPointer
            | Op::Address
            | Op::Multiply(_)
            | Op::And(_)
            | Op::Subtract
            | Op::JumpIfLess { .. }
            | Op::Label(_) => return false,
        }
        true
    }

    /// `op d, a, a`.
    fn same(&mut self, op: Vex, d: u8, a: u8) {
        self.asm.vex(op, d, a, Operand::Register(a));
    }

    fn registers(&mut self, op: Vex, d: u8, a: u8, b: u8, imm: &[u8]) {
        self.asm.vex_with(op, d, a, Operand::Register(b), imm);
    }

    /// Every bit of a mask turned.
    fn invert(&mut self, d: u8) {
        let ones = self.asm.word(ALL);
        self.asm.vex(isa::VPXOR, d, d, ones);
    }

    /// A mask of four lanes of 64 bits, in the lower half of a mask of eight lanes.
    fn lower(&mut self, d: u8, wide: u8) {
        let upper = VECTOR[1];
        self.asm.vex_with(isa::VEXTRACTF128, wide, 0, Operand::Register(upper), &[1]);
        self.registers(isa::VSHUFPS, d, wide, upper, &[0b10_00_10_00]);
    }

    /// The mask of an instruction, for lanes of 64 bits if they are `wide`.
    fn mask_for(&mut self, mask: Option<Reg>, wide: bool) -> u8 {
        let Some(mask) = mask else { return YMM_MASK };
        let narrow = self.mask_reg(mask, YMM_MASK);
        if !wide {
            return narrow;
        }
        let narrow = Operand::Register(narrow);
        self.asm.packed(isa::VPMOVSXDQ, YMM_MASK, 0, narrow, Modifiers::default());
        YMM_MASK
    }

    fn compare_ymm(&mut self, inst: &Inst, op: Packed, imm: u8) {
        if op == isa::VCMPPD {
            let (a, (b, _)) = (self.vector(inst, 0), self.last(inst, 1));
            let wide = VECTOR[2];
            self.asm.vex_with(op.on_ymm(), wide, a, b, &[imm]);
            return self.to(inst, |e, d| e.lower(d, wide));
        }
        let is_wide = matches!(op, isa::VPCMPQ | isa::VPTESTMQ);
        let (equal, greater) = match is_wide {
            true => (isa::VPCMPEQQ, isa::VPCMPGTQ),
            false => (isa::VPCMPEQD, isa::VPCMPGTD),
        };
        let d = VECTOR[2];
        let inverted = match (op, imm) {
            (isa::VPTESTMD | isa::VPTESTMQ, _) => {
                let (a, zero) = (self.vector(inst, 0), self.asm.word(0));
                self.asm.vex(equal, d, a, zero);
                true
            }
            // Equal, and not equal.
            (_, 0 | 4) => {
                let (a, (b, _)) = (self.vector(inst, 0), self.last(inst, 1));
                self.asm.vex(equal, d, a, b);
                imm == 4
            }
            // Greater.
            (_, 6) => {
                let (a, (b, _)) = (self.vector(inst, 0), self.last(inst, 1));
                self.asm.vex(greater, d, a, b);
                false
            }
            // Less, and not less.
            _ => {
                let (b, (a, _)) = (self.vector(inst, 1), self.last(inst, 0));
                self.asm.vex(greater, d, b, a);
                imm == 5
            }
        };
        if inverted {
            self.invert(d);
        }
        self.to(inst, |e, to| match is_wide {
            true => e.lower(to, d),
            false => e.moved(to, d),
        });
    }

    fn moved(&mut self, d: u8, a: u8) {
        if d != a {
            let a = Operand::Register(a);
            self.asm.packed(isa::VMOVAPS, d, 0, a, Modifiers::default());
        }
    }

    fn blend_ymm(&mut self, inst: &Inst, wide: bool) {
        let (a, (b, _)) = (self.vector(inst, 0), self.last(inst, 1));
        let mask = self.mask_for(inst.mask, wide);
        self.to(inst, |e, d| e.asm.vex_with(isa::VBLENDVPS, d, a, b, &[mask << 4]));
    }

    /// Lanes without a mask bit keep what they were.
    fn merge_ymm(&mut self, inst: &Inst, wide: bool) {
        let a = self.vector(inst, 0);
        let mask = self.mask_for(inst.mask, wide);
        self.to(inst, |e, d| match inst.merge {
            true => e.registers(isa::VBLENDVPS, d, d, a, &[mask << 4]),
            false => e.registers(isa::VPAND, d, mask, a, &[]),
        });
    }

    fn masked_const_ymm(&mut self, inst: &Inst) {
        let wide = matches!(inst.sources[0], Source::Wide(_));
        let ((constant, _), mask) = (self.last(inst, 0), self.mask_for(inst.mask, wide));
        self.to(inst, |e, d| e.asm.vex(isa::VPAND, d, mask, constant));
    }

    /// Lanes of 64 bits cut to the lower half.
    fn narrow_ymm(&mut self, inst: &Inst) {
        let a = self.vector(inst, 0);
        self.to(inst, |e, d| e.lower(d, a));
    }

    /// The lower halves of two vectors.
    fn join_ymm(&mut self, inst: &Inst) {
        let (a, b) = (self.half(inst, 0), self.half(inst, 1));
        self.to(inst, |e, d| e.join_halves(d, a, b));
    }

    /// A source that is a vector or a mask.
    fn half(&mut self, inst: &Inst, i: usize) -> u8 {
        match inst.sources[i] {
            Source::Reg(r) => self.vector_reg(r, VECTOR[i]),
            Source::Const(_) | Source::Wide(_) => self.vector(inst, i),
        }
    }

    fn swap_halves(&mut self, inst: &Inst) {
        let a = self.vector(inst, 0);
        self.to(inst, |e, d| e.registers(isa::VPERM2F128, d, a, a, &[1]));
    }

    /// A general register in all lanes.
    pub(super) fn splat_from_ymm(&mut self, d: u8, from: u8, wide: bool) {
        let (moves, splats) = match wide {
            true => (isa::VMOVQ, isa::VPBROADCASTQ_YMM),
            false => (isa::VMOVD, isa::VPBROADCASTD_YMM),
        };
        self.asm.vex(moves, d, 0, Operand::Register(from));
        self.asm.vex(splats, d, 0, Operand::Register(d));
    }

    fn load_masked(&mut self, inst: &Inst, width: Width) {
        let (at, mask) = (self.address(inst.mem), self.mask_for(inst.mask, width == Width::Double));
        let op = match width {
            Width::Double => isa::VMASKMOVPD,
            Width::Word => isa::VMASKMOVPS,
            Width::Byte | Width::Half | Width::Float16 => {
                return self.load_lanes(inst, width, at, mask);
            }
        };
        self.to(inst, |e, d| e.asm.vex(op, d, mask, Operand::Memory(at)));
    }

    /// Narrow elements, where the mask holds; 0 elsewhere.
    fn load_lanes(&mut self, inst: &Inst, width: Width, at: Address, mask: u8) {
        self.put_aside(Line::Mask, mask);
        self.asm.load_address(RAX, at);
        let zero = VECTOR[2];
        self.same(isa::VPXOR, zero, zero);
        self.put_aside(Line::Values, zero);
        let size = if width == Width::Byte { 1 } else { 2 };
        self.each_lane(8, |e, lane| {
            let element_at = Address { base: RAX, index: None, disp: size * lane };
            e.asm.general(element(width), R11, Operand::Memory(element_at), &[]);
            // Writes the next lane, too, before it has its value.
            let to = e.lane(Line::Values, 4 * lane);
            e.asm.general(isa::MOV_STORE, R11, to, &[]);
        });
        let values = self.lane(Line::Values, 0);
        let (op, from) = match width {
            Width::Float16 => {
                self.asm.packed(isa::LOAD_PS, VECTOR[0], 0, values, Modifiers::default());
                let halves = self.narrowed(VECTOR[0], Width::Half);
                (isa::VCVTPH2PS, Operand::Register(halves))
            }
            Width::Byte | Width::Half | Width::Word | Width::Double => (isa::LOAD_PS, values),
        };
        self.to(inst, |e, d| e.asm.packed(op, d, 0, from, Modifiers::default()));
    }

    fn store_masked(&mut self, inst: &Inst, width: Width) {
        let value = self.vector(inst, 0);
        let (at, mask) = (self.address(inst.mem), self.mask_for(inst.mask, width == Width::Double));
        let op = match width {
            Width::Double => isa::VMASKMOVPD_STORE,
            Width::Word => isa::VMASKMOVPS_STORE,
            Width::Byte | Width::Half => return self.store_lanes(width, value, at, mask),
            Width::Float16 => {
                let halves = Operand::Register(self.narrowed(value, width));
                let words = VECTOR[2];
                self.asm.packed(isa::VPMOVZXWD, words, 0, halves, Modifiers::default());
                return self.store_lanes(Width::Half, words, at, mask);
            }
        };
        self.asm.vex(op, value, mask, Operand::Memory(at));
    }

    /// Narrow elements, where the mask holds.
    fn store_lanes(&mut self, width: Width, value: u8, at: Address, mask: u8) {
        self.put_aside(Line::Mask, mask);
        self.put_aside(Line::Values, value);
        self.asm.load_address(RAX, at);
        let size = if width == Width::Byte { 1 } else { 2 };
        self.each_lane(8, |e, lane| {
            for byte in 0..size {
                e.store_byte(e.lane(Line::Values, 4 * lane + byte), size * lane + byte);
            }
        });
    }

    /// A byte of the frame to memory.
    fn store_byte(&mut self, from: Operand, at: i32) {
        self.asm.general(isa::MOVZX8, R11, from, &[]);
        let to = Address { base: RAX, index: None, disp: at };
        self.asm.general(isa::MOV_BYTE, R11, Operand::Memory(to), &[]);
    }

    fn gather_ymm(&mut self, inst: &Inst, wide: bool) {
        let at = Operand::Memory(self.address(inst.mem));
        let mask = self.mask_for(inst.mask, wide);
        let op = if wide { isa::VPGATHERDQ } else { isa::VPGATHERDD };
        self.to(inst, |e, d| {
            e.same(isa::VPXOR, d, d); // lanes left out are zeros
            e.asm.vex(op, d, mask, at);
        });
    }

    fn scatter_ymm(&mut self, inst: &Inst, wide: bool) {
        let value = self.vector(inst, 0);
        let at = self.address(inst.mem);
        let (mask, element) = (self.mask_for(inst.mask, false), VECTOR[0]);
        let (distances, scale) = at.index.unwrap_or((RSP, 1));
        self.put_aside(Line::Mask, mask);
        self.put_aside(Line::Values, value);
        self.put_aside(Line::Distances, distances);
        self.asm.load_address(RAX, Address { index: None, ..at });
        let (size, load, store) = match wide {
            true => (8, isa::VMOVSD, isa::VMOVSD_STORE),
            false => (4, isa::VMOVSS, isa::VMOVSS_STORE),
        };
        self.each_lane(32 / size, |e, lane| {
            e.asm.general(isa::MOVSX32, R11, e.lane(Line::Distances, 4 * lane), &[]);
            e.asm.vex(load, element, 0, e.lane(Line::Values, size * lane));
            let to = Address { base: RAX, index: Some((R11, scale)), disp: 0 };
            e.asm.vex(store, element, 0, Operand::Memory(to));
        });
    }

    /// A place in the frame for lanes.
    fn lane(&self, line: Line, at: i32) -> Operand {
        Operand::Memory(Address::frame(self.allocation.lanes + 32 * line as i32 + at))
    }

    /// Puts a vector where its lanes are handled one by one.
    fn put_aside(&mut self, line: Line, vector: u8) {
        let at = self.lane(line, 0);
        self.asm.packed(isa::STORE_PS, vector, 0, at, Modifiers::default());
    }

    /// Code for each lane for which the mask in the frame holds.
    fn each_lane(&mut self, n: i32, mut code: impl FnMut(&mut Self, i32)) {
        for lane in 0..n {
            let next = self.labels.next().unwrap_or(0);
            self.asm.general(isa::MOVSX32, R11, self.lane(Line::Mask, 4 * lane), &[]);
            self.asm.general(isa::CMP_BYTE, 0, Operand::Register(R11), &[0]);
            self.asm.jump(Some(EQUAL), next);
            code(self, lane);
            self.asm.label(next);
        }
    }

    fn mask_binary_ymm(&mut self, inst: &Inst, op: Vex) {
        let (a, b) = (self.half(inst, 0), self.half(inst, 1));
        let op = match op {
            isa::KANDW => isa::VPAND,
            isa::KANDNW => isa::VPANDN,
            isa::KORW => isa::VPOR,
            isa::KXORW => isa::VPXOR,
            // What remains is `KXNORW`, as equal lanes are.
            _ => isa::VPCMPEQD,
        };
        self.to(inst, |e, d| e.registers(op, d, a, b, &[]));
    }

    fn mask_not(&mut self, inst: &Inst) {
        let (a, ones) = (self.half(inst, 0), self.asm.word(ALL));
        self.to(inst, |e, d| e.asm.vex(isa::VPXOR, d, a, ones));
    }

    fn mask_move(&mut self, inst: &Inst) {
        let a = self.half(inst, 0);
        self.to(inst, |e, d| e.moved(d, a));
    }

    fn mask_upper_ymm(&mut self, inst: &Inst) {
        let a = self.half(inst, 0);
        self.to(inst, |e, d| {
            e.asm.vex_with(isa::VEXTRACTF128, a, 0, Operand::Register(d), &[1]);
        });
    }

    /// As many lanes as are left.
    fn mask_count_ymm(&mut self, inst: &Inst) {
        let count = self.general_source(inst, 0, R11);
        let (all, positions) = (VECTOR[2], self.asm.ramp(1));
        self.splat_from_ymm(all, count, false);
        self.to(inst, |e, d| e.asm.vex(isa::VPCMPGTD, d, all, positions));
    }

    fn mask_of_ymm(&mut self, inst: &Inst, n: usize) {
        let (all, count) = (VECTOR[2], self.asm.word(n as u32));
        self.asm.packed(isa::LOAD_PS, all, 0, count, Modifiers::default());
        let positions = self.asm.ramp(1);
        self.to(inst, |e, d| e.asm.vex(isa::VPCMPGTD, d, all, positions));
    }
}

/// The instruction that widens a narrow element.
pub(super) fn element(width: Width) -> General {
    if width == Width::Byte { isa::MOVZX8 } else { isa::MOVZX16 }
}
