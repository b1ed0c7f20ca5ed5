//! Encodes what is moved in pieces: the first lanes of a vector, as many as are known when the code
//! is written, and lanes far apart. Processors take longer for one masked store, or for one gather,
//! than for all the pieces.

use super::{
    asm::{Address, Modifiers, Operand},
    encode::{Encoder, VECTOR},
    ir::{Inst, Width},
    isa::{self, Vex},
};

/// Works with what is left of a vector.
const LEFT: u8 = VECTOR[2];

impl Encoder<'_> {
    /// The first lanes of a vector to neighboring elements.
    pub(super) fn store_first(&mut self, inst: &Inst, width: Width, n: usize) {
        let value = self.vector(inst, 0);
        let at = self.address(inst.mem);
        let (value, size) = match width {
            Width::Double => (self.low(value), 8),
            Width::Word => (self.low(value), 4),
            Width::Half | Width::Float16 => (self.narrowed(value, width), 2),
            Width::Byte => (self.narrowed(value, width), 1),
        };
        self.store_bytes(value, at, n as i32 * size);
    }

    /// A vector in a register that instructions of 128 and 256 bits reach.
    fn low(&mut self, value: u8) -> u8 {
        if value < 16 {
            return value;
        }
        let from = Operand::Register(value);
        self.asm.packed(isa::VMOVAPS, LEFT, 0, from, Modifiers::default());
        LEFT
    }

    /// Lanes as narrow elements side by side.
    pub(super) fn narrowed(&mut self, value: u8, width: Width) -> u8 {
        let (left, half) = (Operand::Register(LEFT), width == Width::Half);
        if width == Width::Float16 {
            self.narrow_to_float16(LEFT, value);
            return LEFT;
        }
        if !self.is_ymm() {
            let op = if half { isa::VPMOVDW } else { isa::VPMOVDB };
            self.asm.packed(op, value, 0, left, Modifiers::default());
            return LEFT;
        }
        self.asm.vex_with(isa::VEXTRACTF128, value, 0, left, &[1]);
        self.asm.vex(isa::VPACKUSDW, LEFT, value, left);
        if !half {
            self.asm.vex(isa::VPACKUSWB, LEFT, LEFT, left);
        }
        LEFT
    }

    /// The first bytes of a vector, the largest pieces first.
    fn store_bytes(&mut self, value: u8, at: Address, n: i32) {
        let (mut value, mut at) = (value, at);
        for piece in [32, 16, 8, 4, 2, 1] {
            if n & piece == 0 {
                continue;
            }
            let to = Operand::Memory(at);
            match piece {
                32 => self.asm.vex(isa::VMOVUPS_STORE_YMM, value, 0, to),
                16 => self.asm.vex(isa::VMOVUPS_STORE, value, 0, to),
                8 => self.asm.vex(isa::VMOVQ_STORE, value, 0, to),
                4 => self.asm.vex(isa::VMOVSS_STORE, value, 0, to),
                2 => self.asm.vex_with(isa::VPEXTRW, value, 0, to, &[0]),
                _ => self.asm.vex_with(isa::VPEXTRB, value, 0, to, &[0]),
            }
            at = at.moved(piece);
            if n & (piece - 1) != 0 {
                self.drop_bytes(value, piece as u8);
                value = LEFT;
            }
        }
    }

    /// What is left of a vector without its first bytes.
    fn drop_bytes(&mut self, value: u8, n: u8) {
        let left = Operand::Register(LEFT);
        match n {
            32 => {
                let with = Modifiers { imm: Some(1), ..Modifiers::default() };
                self.asm.packed(isa::VEXTRACTF64X4, value, 0, left, with);
            }
            16 => self.asm.vex_with(isa::VEXTRACTF128, value, 0, left, &[1]),
            _ => {
                let from = Operand::Register(value);
                self.asm.vex_with(isa::VPSRLDQ, isa::VPSRLDQ_DIGIT, LEFT, from, &[n]);
            }
        }
    }

    /// Narrow elements, and zeros behind them, in lanes.
    pub(super) fn load_first(&mut self, inst: &Inst, width: Width, n: usize) {
        let at = self.address(inst.mem);
        let (size, widens) = match width {
            Width::Byte => (1, isa::VPMOVZXBD),
            Width::Float16 => (2, isa::VCVTPH2PS),
            Width::Half | Width::Word | Width::Double => (2, isa::VPMOVZXWD),
        };
        self.load_bytes(at, n as i32 * size);
        let bytes = Operand::Register(LEFT);
        self.to(inst, |e, d| e.asm.packed(widens, d, 0, bytes, Modifiers::default()));
    }

    /// Up to 15 bytes, and zeros behind them.
    fn load_bytes(&mut self, at: Address, n: i32) {
        let mut done = 0;
        self.asm.vex(isa::VPXOR, LEFT, LEFT, Operand::Register(LEFT));
        let pieces: [(i32, Vex); 3] = [(4, isa::VPINSRD), (2, isa::VPINSRW), (1, isa::VPINSRB)];
        if n & 8 != 0 {
            self.asm.vex(isa::VMOVQ_LOAD, LEFT, 0, Operand::Memory(at));
            done = 8;
        }
        for (piece, op) in pieces.into_iter().filter(|(piece, _)| n & piece != 0) {
            let from = Operand::Memory(at.moved(done));
            self.asm.vex_with(op, LEFT, LEFT, from, &[(done / piece) as u8]);
            done += piece;
        }
    }

    /// Lanes so many bytes apart, and zeros behind them.
    pub(super) fn load_apart(&mut self, inst: &Inst, n: usize, stride: i32, width: Width) {
        let wide = match width {
            Width::Byte | Width::Half | Width::Float16 => {
                return self.load_narrow_apart(inst, n, stride, width);
            }
            Width::Word => false,
            Width::Double => true,
        };
        let (at, n_ymm) = (self.address(inst.mem), 2 * half(wide));
        self.to(inst, |e, d| {
            let lower = if e.is_ymm() { d } else { LEFT };
            e.load_ymm(lower, at, n.min(n_ymm), (stride, wide));
            if n > n_ymm {
                let at = at.moved(stride * n_ymm as i32);
                e.load_ymm(VECTOR[0], at, n - n_ymm, (stride, wide));
                e.join_halves(d, lower, VECTOR[0]);
            } else if d != lower {
                let from = Operand::Register(lower);
                e.asm.packed(isa::VMOVAPS, d, 0, from, Modifiers::default());
            }
        });
    }

    fn load_ymm(&mut self, d: u8, at: Address, n: usize, (stride, wide): (i32, bool)) {
        let (upper, n_half) = (VECTOR[1], half(wide));
        self.load_half(d, at, n.min(n_half), (stride, wide));
        if n > n_half {
            let at = at.moved(stride * n_half as i32);
            self.load_half(upper, at, n - n_half, (stride, wide));
            self.asm.vex_with(isa::VINSERTF128, d, d, Operand::Register(upper), &[1]);
        }
    }

    fn load_half(&mut self, d: u8, at: Address, n: usize, (stride, wide): (i32, bool)) {
        let first = if wide { isa::VMOVSD } else { isa::VMOVSS };
        self.asm.vex(first, d, 0, Operand::Memory(at));
        for i in 1..n {
            let lane = Operand::Memory(at.moved(stride * i as i32));
            match wide {
                true => self.asm.vex(isa::VMOVHPS, d, d, lane),
                false => self.asm.vex_with(isa::VINSERTPS, d, d, lane, &[(i as u8) << 4]),
            }
        }
    }

    /// Narrow elements so many bytes apart, in lanes.
    fn load_narrow_apart(&mut self, inst: &Inst, n: usize, stride: i32, width: Width) {
        let (insert, widens) = match width {
            Width::Byte => (isa::VPINSRB, isa::VPMOVZXBD),
            Width::Float16 => (isa::VPINSRW, isa::VCVTPH2PS),
            Width::Half | Width::Word | Width::Double => (isa::VPINSRW, isa::VPMOVZXWD),
        };
        let (at, upper, n_half) = (self.address(inst.mem), VECTOR[0], in_half(width));
        for (first, xmm) in [(0, LEFT), (n_half, upper)].into_iter().filter(|(first, _)| *first < n)
        {
            self.asm.vex(isa::VPXOR, xmm, xmm, Operand::Register(xmm));
            for i in first..n.min(first + n_half) {
                let lane = Operand::Memory(at.moved(stride * i as i32));
                self.asm.vex_with(insert, xmm, xmm, lane, &[(i - first) as u8]);
            }
        }
        if n > n_half {
            self.asm.vex_with(isa::VINSERTF128, LEFT, LEFT, Operand::Register(upper), &[1]);
        }
        let narrow = Operand::Register(LEFT);
        self.to(inst, |e, d| e.asm.packed(widens, d, 0, narrow, Modifiers::default()));
    }

    /// Lanes as narrow elements so many bytes apart.
    fn store_narrow_apart(&mut self, inst: &Inst, n: usize, stride: i32, width: Width) {
        let extract = if width == Width::Byte { isa::VPEXTRB } else { isa::VPEXTRW };
        let (value, at, n_half) = (self.vector(inst, 0), self.address(inst.mem), in_half(width));
        let narrow = self.narrowed(value, width);
        for i in 0..n {
            if i == n_half {
                self.drop_bytes(narrow, 16);
            }
            let lane = Operand::Memory(at.moved(stride * i as i32));
            self.asm.vex_with(extract, LEFT, 0, lane, &[(i % n_half) as u8]);
        }
    }

    /// The first lanes to elements so many bytes apart.
    pub(super) fn store_apart(&mut self, inst: &Inst, n: usize, stride: i32, width: Width) {
        let wide = match width {
            Width::Byte | Width::Half | Width::Float16 => {
                return self.store_narrow_apart(inst, n, stride, width);
            }
            Width::Word => false,
            Width::Double => true,
        };
        let (value, n_ymm) = (self.vector(inst, 0), 2 * half(wide));
        let at = self.address(inst.mem);
        let lower = self.low(value);
        self.store_ymm(lower, at, n.min(n_ymm), (stride, wide));
        if n > n_ymm {
            self.drop_bytes(value, 32);
            self.store_ymm(LEFT, at.moved(stride * n_ymm as i32), n - n_ymm, (stride, wide));
        }
    }

    fn store_ymm(&mut self, value: u8, at: Address, n: usize, (stride, wide): (i32, bool)) {
        let n_half = half(wide);
        self.store_half(value, at, n.min(n_half), (stride, wide));
        if n > n_half {
            self.drop_bytes(value, 16);
            self.store_half(LEFT, at.moved(stride * n_half as i32), n - n_half, (stride, wide));
        }
    }

    fn store_half(&mut self, value: u8, at: Address, n: usize, (stride, wide): (i32, bool)) {
        let first = if wide { isa::VMOVSD_STORE } else { isa::VMOVSS_STORE };
        self.asm.vex(first, value, 0, Operand::Memory(at));
        for i in 1..n {
            let lane = Operand::Memory(at.moved(stride * i as i32));
            match wide {
                true => self.asm.vex(isa::VMOVHPS_STORE, value, 0, lane),
                false => self.asm.vex_with(isa::VEXTRACTPS, value, 0, lane, &[i as u8]),
            }
        }
    }
}

/// Narrow elements in 128 bits.
fn in_half(width: Width) -> usize {
    if width == Width::Byte { 16 } else { 8 }
}

/// Lanes of half a vector of 256 bits.
fn half(wide: bool) -> usize {
    if wide { 2 } else { 4 }
}
