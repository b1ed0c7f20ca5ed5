//! Linear code of one kernel on virtual registers.
//!
//! An instruction names at most one result, up to three sources, a mask and an address. A register
//! is defined before it is used; accumulators, loop counters and what is changed in some lanes only
//! are defined more than once, all but the first time in terms of themselves.

use smallvec::SmallVec;

use super::isa::{Packed, Vectors, Vex};
use crate::kernel::host;

/// Bytes at the beginning of the frame that hold the kernel's arguments.
pub(super) const ARGUMENTS: i32 = 64;

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Lanes of 32 bits, or half as many of 64.
    Vector,
    /// A bit for each lane.
    Mask,
    /// An address or a count.
    General,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reg(pub(super) u32);

/// A source: a register, or (last only) the same constant in all lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    Reg(Reg),
    Const(u32),
    /// A constant in lanes of 64 bits.
    Wide(u64),
}

/// The beginning of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Base {
    Reg(Reg),
    /// The kernel's own memory.
    Frame,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mem {
    pub(super) base: Base,
    pub(super) index: Option<(Reg, u8)>,
    pub(super) disp: i32,
}

/// The size elements have in memory; narrow ones are widened with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Byte,
    Half,
    /// An `f16`, which is an `f32` in a lane.
    Float16,
    Word,
    Double,
}

/// Instructions, by how their operands are arranged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// `dst = a op b`; the last number is an immediate operand.
    Binary(Packed, Option<u8>),
    /// `dst = op a`.
    Unary(Packed),
    /// `dst = a * b + c`, rounded once, of lanes of 64 bits or of 32.
    MulAdd {
        wide: bool,
    },
    /// `dst = a` shifted by a count.
    Shift(Packed, u8),
    /// Each bit looked up in a table by those of the three sources.
    Lookup(u8),
    /// Floats rounded to integers as the number says, in lanes of 64 bits or of 32.
    Round {
        wide: bool,
        how: u8,
    },
    /// To half precision and back.
    RoundHalf,
    /// A mask: `a op b`.
    Compare(Packed, Option<u8>),
    /// `b` where the mask holds, else `a`; of lanes of 64 bits or of 32.
    Blend {
        wide: bool,
    },
    /// The constant where the mask holds, else 0.
    MaskedConst,
    Move {
        wide: bool,
    },
    /// The same word of memory, or constant, in all lanes.
    Splat {
        wide: bool,
    },
    /// A general register in all lanes of 64 bits, or its low half in all lanes.
    SplatGeneral {
        wide: bool,
    },
    /// The same narrow element of memory in all lanes.
    SplatNarrow(Width),
    Load(Width),
    Store(Width),
    /// A whole vector past the caches.
    Stream,
    /// Stores past the caches are seen by others from here on.
    Fence,
    /// So many narrow elements, and zeros; with vectors of 256 bits.
    LoadFirst(Width, usize),
    /// So many lanes.
    StoreFirst(Width, usize),
    /// Lanes at an address plus a vector of distances; uses the mask up.
    Gather {
        wide: bool,
    },
    /// So many lanes, so many bytes apart, one by one.
    LoadApart {
        n: usize,
        stride: i32,
        width: Width,
    },
    StoreApart {
        n: usize,
        stride: i32,
        width: Width,
    },
    Scatter {
        wide: bool,
    },
    /// `0, step, 2 * step, ..`
    Ramp(i32),
    /// The same in lanes of 64 bits.
    WideRamp(i64),
    /// Lanes of 64 bits to the lower half of those of 32; the encoding has the result last.
    Narrow(Packed),
    /// The lower half of `a`, then that of `b`.
    Join,
    /// The `f16` of `a`, then those of `b`.
    JoinFloat16,
    /// The lower lanes of 32 bits as integers of 64.
    Extend,
    /// Each lane of 32 bits exchanged with the one so many lanes away: a power of two.
    Exchange(usize),
    /// A function of the host, of floats of four or eight bytes, lane by lane: where the mask
    /// holds, if there is one.
    Call {
        function: host::Function,
        wide: bool,
    },
    MaskBinary(Vex),
    MaskNot,
    MaskMove,
    MaskOnes,
    /// The upper half of the lanes as the lower one.
    MaskUpper,
    /// The lower half of the lanes of `a`, above it that of `b`.
    MaskJoin,
    /// As many lanes as the source says, at most all.
    MaskCount,
    /// So many lanes.
    MaskOf(usize),
    /// From here on general registers.
    Constant(i64),
    LoadPointer,
    Address,
    Multiply(i32),
    And(i32),
    Subtract,
    /// Jumps to the label if `a < b` holds (or does not).
    JumpIfLess {
        holds: bool,
        label: u32,
    },
    Label(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Inst {
    pub(super) op: Op,
    pub(super) dst: Option<Reg>,
    pub(super) sources: SmallVec<[Source; 3]>,
    pub(super) mask: Option<Reg>,
    /// Whether lanes without a mask bit keep what the result held before, instead of becoming 0.
    pub(super) merge: bool,
    pub(super) mem: Option<Mem>,
}

impl Inst {
    pub(super) fn new(op: Op, dst: Option<Reg>, sources: &[Source]) -> Inst {
        Inst {
            op,
            dst,
            sources: SmallVec::from_slice(sources),
            mask: None,
            merge: false,
            mem: None,
        }
    }

    /// The registers read, those of addresses and masks included.
    pub(super) fn uses(&self) -> impl Iterator<Item = Reg> + '_ {
        let sources = self.sources.iter().filter_map(|s| match s {
            Source::Reg(r) => Some(*r),
            Source::Const(_) | Source::Wide(_) => None,
        });
        let base = self.mem.and_then(|m| match m.base {
            Base::Reg(r) => Some(r),
            Base::Frame => None,
        });
        let index = self.mem.and_then(|m| m.index).map(|(r, _)| r);
        let old = self.dst.filter(|_| self.merge);
        sources.chain(self.mask).chain(base).chain(index).chain(old)
    }

    fn has_effect(&self) -> bool {
        matches!(
            self.op,
            Op::Store(_)
                | Op::Stream
                | Op::Fence
                | Op::StoreFirst(..)
                | Op::Scatter { .. }
                | Op::StoreApart { .. }
                | Op::JumpIfLess { .. }
                | Op::Label(_)
        )
    }
}

/// Code, and what is known of its registers.
pub(super) struct Function {
    pub(super) vectors: Vectors,
    pub(super) insts: Vec<Inst>,
    pub(super) classes: Vec<Class>,
    /// Ranges of instructions that repeat, inner ones first.
    pub(super) loops: Vec<(usize, usize)>,
    /// In order: registers of `bf16` and `f16`, and the floats that were rounded to them.
    pub(super) unrounded: Vec<(Reg, Source)>,
    /// Instructions that make constants, to stand before the others.
    constants: Vec<Inst>,
    n_labels: u32,
    /// Bytes of the frame the code uses itself.
    pub(super) reserved: i32,
}

impl Function {
    pub(super) fn new(vectors: Vectors) -> Function {
        Function {
            vectors,
            insts: Vec::new(),
            classes: Vec::new(),
            loops: Vec::new(),
            unrounded: Vec::new(),
            constants: Vec::new(),
            n_labels: 0,
            reserved: 0,
        }
    }

    pub(super) fn reg(&mut self, class: Class) -> Reg {
        self.classes.push(class);
        Reg(self.classes.len() as u32 - 1)
    }

    pub(super) fn label(&mut self) -> u32 {
        self.n_labels += 1;
        self.n_labels - 1
    }

    /// Memory in the frame; gives its offset.
    pub(super) fn reserve(&mut self, bytes: i32) -> i32 {
        self.reserved += bytes;
        ARGUMENTS + self.reserved - bytes
    }

    pub(super) fn push(&mut self, inst: Inst) {
        self.insts.push(inst);
    }

    /// A register that holds a constant throughout the function; `op` makes it.
    pub(super) fn constant(&mut self, op: Op, sources: &[Source]) -> Reg {
        let same = |i: &&Inst| match (i.op, op) {
            (Op::Ramp(a), Op::Ramp(b)) => a == b,
            (Op::WideRamp(a), Op::WideRamp(b)) => a == b,
            (Op::Splat { .. }, Op::Splat { .. }) => i.sources.as_slice() == sources,
            (Op::MaskOf(a), Op::MaskOf(b)) => a == b,
            _ => false,
        };
        if let Some(dst) = self.constants.iter().find(same).and_then(|i| i.dst) {
            return dst;
        }
        let is_mask = matches!(op, Op::MaskOf(_));
        let dst = self.reg(if is_mask { Class::Mask } else { Class::Vector });
        self.constants.push(Inst::new(op, Some(dst), sources));
        dst
    }

    /// Puts the constants in front and drops what nothing uses.
    pub(super) fn finish(&mut self) {
        let n = self.constants.len();
        self.insts.splice(0..0, std::mem::take(&mut self.constants));
        let mut users = vec![0u32; self.classes.len()];
        for inst in &self.insts {
            inst.uses().for_each(|r| users[r.0 as usize] += 1);
        }
        let mut keep = vec![true; self.insts.len()];
        for (i, inst) in self.insts.iter().enumerate().rev() {
            let dead = inst.dst.is_some_and(|d| users[d.0 as usize] == 0);
            if dead && !inst.has_effect() {
                keep[i] = false;
                inst.uses().for_each(|r| users[r.0 as usize] -= 1);
            }
        }
        let mut kept_before = Vec::with_capacity(keep.len() + 1);
        let mut count = 0;
        for k in &keep {
            kept_before.push(count);
            count += usize::from(*k);
        }
        kept_before.push(count);
        for (start, end) in &mut self.loops {
            (*start, *end) = (kept_before[*start + n], kept_before[*end + n]);
        }
        let mut keep = keep.into_iter();
        self.insts.retain(|_| keep.next() != Some(false));
    }
}
