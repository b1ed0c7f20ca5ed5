//! Encodes what moves vectors from memory and to it, and what changes the width or the places of
//! lanes.

use super::{
    asm::{Modifiers, Operand},
    encode::{Encoder, RAX, VECTOR},
    ir::{Inst, Width},
    isa::{self, Packed},
    ymm::element,
};

/// How floats are rounded to `f16`: to the nearest, halves to even.
const TO_NEAREST: u8 = 0;

impl Encoder<'_> {
    /// To half precision and back.
    pub(super) fn round_half(&mut self, inst: &Inst) {
        let (a, half) = (self.vector(inst, 0), VECTOR[2]);
        self.narrow_to_float16(half, a);
        let half = Operand::Register(half);
        self.to(inst, |e, d| e.asm.packed(isa::VCVTPH2PS, d, 0, half, Modifiers::default()));
    }

    /// Floats as `f16`, side by side in the lower half.
    pub(super) fn narrow_to_float16(&mut self, d: u8, a: u8) {
        let with = Modifiers { imm: Some(TO_NEAREST), ..Modifiers::default() };
        self.asm.packed(isa::VCVTPS2PH, a, 0, Operand::Register(d), with);
    }

    /// Lanes of 64 bits to the lower half.
    pub(super) fn narrow(&mut self, inst: &Inst, op: Packed) {
        let (a, lower) = (self.vector(inst, 0), VECTOR[2]);
        self.asm.packed(op, a, 0, Operand::Register(lower), Modifiers::default());
        self.to(inst, |e, d| {
            e.asm.packed(isa::VMOVAPS, d, 0, Operand::Register(lower), Modifiers::default());
        });
    }

    /// The lower lanes as integers of 64 bits.
    pub(super) fn extend(&mut self, inst: &Inst) {
        let a = Operand::Register(self.vector(inst, 0));
        self.to(inst, |e, d| e.asm.packed(isa::VPMOVSXDQ, d, 0, a, Modifiers::default()));
    }

    /// The lower halves of two vectors.
    pub(super) fn join(&mut self, inst: &Inst) {
        let (a, b) = (self.vector(inst, 0), self.vector(inst, 1));
        self.to(inst, |e, d| e.join_halves(d, a, b));
    }

    /// The lower half of `a`, then that of `b`.
    pub(super) fn join_halves(&mut self, d: u8, a: u8, b: u8) {
        let b = Operand::Register(b);
        if self.is_ymm() {
            return self.asm.vex_with(isa::VINSERTF128, d, a, b, &[1]);
        }
        let with = Modifiers { imm: Some(1), ..Modifiers::default() };
        self.asm.packed(isa::VINSERTF64X4, d, a, b, with);
    }

    /// Two vectors as one of half as wide elements.
    pub(super) fn join_float16(&mut self, inst: &Inst) {
        let (a, b) = (self.vector(inst, 0), self.vector(inst, 1));
        let [lower, upper] = [VECTOR[2], VECTOR[1]];
        self.narrow_to_float16(lower, a);
        self.narrow_to_float16(upper, b);
        self.to(inst, |e, d| e.join_halves(d, lower, upper));
    }

    /// Each lane exchanged with the one so many lanes away.
    pub(super) fn exchange(&mut self, inst: &Inst, distance: usize) {
        let a = self.vector(inst, 0);
        let (op, second, order) = match distance {
            8 => (isa::VSHUFF32X4, a, 0b01_00_11_10),
            4 => (isa::VSHUFF32X4, a, 0b10_11_00_01),
            2 => (isa::VPSHUFD, 0, 0b01_00_11_10),
            _ => (isa::VPSHUFD, 0, 0b10_11_00_01),
        };
        let with = Modifiers { imm: Some(order), ..Modifiers::default() };
        self.to(inst, |e, d| e.asm.packed(op, d, second, Operand::Register(a), with));
    }

    /// A word of memory, or a constant, in all lanes.
    pub(super) fn splat(&mut self, inst: &Inst, wide: bool) {
        let op = if wide { isa::VBROADCASTSD } else { isa::VBROADCASTSS };
        let from = match inst.mem {
            Some(_) => Operand::Memory(self.address(inst.mem)),
            None => self.last(inst, 0).0,
        };
        self.to(inst, |e, d| e.asm.packed(op, d, 0, from, Modifiers::default()));
    }

    /// A general register in all lanes.
    pub(super) fn splat_general(&mut self, inst: &Inst, wide: bool) {
        let from = self.general_source(inst, 0, RAX);
        self.to(inst, |e, d| e.splat_from(d, from, wide));
    }

    /// A general register in all lanes.
    pub(super) fn splat_from(&mut self, d: u8, from: u8, wide: bool) {
        if self.is_ymm() {
            return self.splat_from_ymm(d, from, wide);
        }
        let broadcast = if wide { isa::VPBROADCASTQ } else { isa::VPBROADCASTD };
        self.asm.packed(broadcast, d, 0, Operand::Register(from), Modifiers::default());
    }

    /// 0, step, 2 * step, ..
    pub(super) fn ramp(&mut self, inst: &Inst, step: i32) {
        let ramp = self.asm.ramp(step);
        self.to(inst, |e, d| e.asm.packed(isa::LOAD_PS, d, 0, ramp, Modifiers::default()));
    }

    /// A ramp in lanes of 64 bits.
    pub(super) fn wide_ramp(&mut self, inst: &Inst, step: i64) {
        let ramp = self.asm.wide_ramp(step);
        self.to(inst, |e, d| e.asm.packed(isa::LOAD_PS, d, 0, ramp, Modifiers::default()));
    }

    /// A narrow element of memory in all lanes.
    pub(super) fn splat_narrow(&mut self, inst: &Inst, width: Width) {
        let at = Operand::Memory(self.address(inst.mem));
        self.asm.general(element(width), RAX, at, &[]);
        self.to(inst, |e, d| {
            e.splat_from(d, RAX, false);
            if width == Width::Float16 {
                e.widen_first(d);
            }
        });
    }

    /// The first `f16` of a vector as a float in all lanes.
    fn widen_first(&mut self, d: u8) {
        let lanes = Operand::Register(d);
        for op in [isa::VCVTPH2PS, isa::VBROADCASTSS] {
            self.asm.packed(op, d, 0, lanes, Modifiers::default());
        }
    }

    /// Neighboring elements.
    pub(super) fn load(&mut self, inst: &Inst, width: Width) {
        let op = match width {
            Width::Double => isa::LOAD_PD,
            Width::Word => isa::LOAD_PS,
            Width::Byte => isa::VPMOVZXBD,
            Width::Half => isa::VPMOVZXWD,
            Width::Float16 => isa::VCVTPH2PS,
        };
        let (at, with) = (Operand::Memory(self.address(inst.mem)), self.modifiers(inst));
        self.to(inst, |e, d| e.asm.packed(op, d, 0, at, with));
    }

    /// Lanes to neighboring elements.
    pub(super) fn store(&mut self, inst: &Inst, width: Width) {
        let op = match width {
            Width::Double => isa::STORE_PD,
            Width::Word => isa::STORE_PS,
            Width::Byte => isa::VPMOVDB,
            Width::Half => isa::VPMOVDW,
            Width::Float16 => isa::VCVTPS2PH,
        };
        let value = self.vector(inst, 0);
        let at = Operand::Memory(self.address(inst.mem));
        let imm = (width == Width::Float16).then_some(TO_NEAREST);
        let with = Modifiers { imm, ..self.modifiers(inst) };
        self.asm.packed(op, value, 0, at, with);
    }

    /// Lanes from an address plus a vector of distances.
    pub(super) fn gather(&mut self, inst: &Inst, wide: bool) {
        let (at, mut with) = (Operand::Memory(self.address(inst.mem)), self.modifiers(inst));
        with.zeroing = false; // lanes left out keep the zeros written first
        self.to(inst, |e, d| {
            e.asm.packed(isa::VPXORD, d, d, Operand::Register(d), Modifiers::default());
            let op = if wide { isa::VGATHERDPD } else { isa::VGATHERDPS };
            e.asm.packed(op, d, 0, at, with);
        });
    }

    /// Lanes to an address plus a vector of distances.
    pub(super) fn scatter(&mut self, inst: &Inst, wide: bool) {
        let value = self.vector(inst, 0);
        let (at, with) = (Operand::Memory(self.address(inst.mem)), self.modifiers(inst));
        let op = if wide { isa::VSCATTERDPD } else { isa::VSCATTERDPS };
        self.asm.packed(op, value, 0, at, with);
    }
}
