//! Registers for virtual registers, by linear scan.
//!
//! A value lives from its first definition to its last use, or to the end of a loop it enters from
//! outside. Where registers run out, what is used least for the time that it would keep one (inner
//! loops counting more) lies in the frame instead, and constants in the pool. Three vectors, two
//! masks and two general registers are left to the encoder for what does not lie in a register.
//! With vectors of 256 bits a mask is a vector.

use std::fmt::Write;

use super::{
    ir::{ARGUMENTS, Base, Class, Function, Inst, Op, Reg, Source},
    isa::Vectors,
};

/// The place of a virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Register(u8),
    /// At an offset into the frame.
    Frame(i32),
    /// Nowhere: each use takes the constant this instruction makes.
    Constant(usize),
}

pub(super) struct Allocation {
    pub(super) places: Vec<Place>,
    pub(super) frame: i32,
    /// The place where calls of the host, if there are any, keep registers and lanes.
    pub(super) calls: i32,
    /// The place for vectors whose lanes are handled one by one.
    pub(super) lanes: i32,
}

/// The registers that hold values.
pub(super) struct Registers {
    pub(super) vectors: &'static [u8],
    pub(super) masks: &'static [u8],
    pub(super) generals: &'static [u8],
}

const ZMM: Registers = Registers {
    vectors: &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
        28, 29, 30, 31,
    ],
    masks: &[1, 2, 3, 4, 5],
    generals: &[1, 2, 6, 7, 8, 9, 10, 3, 12, 13, 14, 15],
};
const YMM: Registers =
    Registers { vectors: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], masks: &[], ..ZMM };

impl Registers {
    pub(super) fn of(vectors: Vectors) -> Registers {
        match vectors {
            Vectors::Ymm => YMM,
            Vectors::Zmm => ZMM,
        }
    }

    /// Bytes for calls: every vector, three more for lanes, masks and general registers.
    fn kept(&self) -> i32 {
        64 * (self.vectors.len() as i32 + 3 + 1 + 2)
    }
}

/// Positions from definition to last use: even ones read, odd ones write.
#[derive(Clone, Copy)]
struct Interval {
    reg: Reg,
    start: usize,
    end: usize,
    /// Uses for each position.
    weight: f32,
    /// The instruction that makes it, if it is a constant.
    constant: Option<usize>,
}

fn intervals(f: &Function) -> Vec<Interval> {
    let mut depth = vec![0i32; f.insts.len() + 1];
    for &(start, end) in &f.loops {
        depth[start..end].iter_mut().for_each(|d| *d += 1);
    }
    let mut found: Vec<Option<Interval>> = vec![None; f.classes.len()];
    for (i, inst) in f.insts.iter().enumerate() {
        let weight = 8f32.powi(depth[i].min(8));
        // A gather writes before it has read all.
        let read = if matches!(inst.op, Op::Gather { .. }) { 2 * i + 2 } else { 2 * i };
        let touched = inst.uses().map(|r| (r, read)).chain(inst.dst.map(|d| (d, 2 * i + 1)));
        for (reg, at) in touched {
            let constant = matches!(inst.op, Op::Splat { .. } | Op::Ramp(_) | Op::WideRamp(_))
                && inst.mem.is_none();
            let new =
                Interval { reg, start: at, end: at, weight: 0.0, constant: constant.then_some(i) };
            let interval = found[reg.0 as usize].get_or_insert(new);
            interval.end = interval.end.max(at);
            interval.weight += weight;
        }
    }
    let mut found: Vec<Interval> = found.into_iter().flatten().collect();
    for interval in &mut found {
        for &(start, end) in &f.loops {
            if interval.start < 2 * start && (2 * start..=2 * end).contains(&interval.end) {
                interval.end = 2 * end;
            }
        }
        if interval.constant.is_some() {
            interval.weight *= 0.5;
        }
        interval.weight /= (interval.end - interval.start + 1) as f32;
    }
    found.sort_by_key(|i| i.start);
    found
}

/// The registers of one class.
struct File {
    free: Vec<u8>,
    active: Vec<(Interval, u8)>,
    /// Bytes of a slot in the frame.
    slot: i32,
}

impl File {
    fn new(registers: &[u8], slot: i32) -> File {
        File { free: registers.iter().rev().copied().collect(), active: Vec::new(), slot }
    }

    fn expire(&mut self, start: usize) {
        let free = &mut self.free;
        self.active.retain(|(interval, register)| {
            let alive = interval.end >= start;
            if !alive {
                free.push(*register);
            }
            alive
        });
    }
}

pub(super) fn allocate(f: &Function) -> Allocation {
    let registers = Registers::of(f.vectors);
    let mut files = [
        File::new(registers.vectors, f.vectors.bytes()),
        File::new(registers.masks, 8),
        File::new(registers.generals, 8),
    ];
    let mut out = Allocation {
        places: vec![Place::Register(0); f.classes.len()],
        frame: ARGUMENTS + f.reserved,
        calls: 0,
        lanes: 0,
    };
    for current in intervals(f) {
        let file = &mut files[match (f.classes[current.reg.0 as usize], f.vectors) {
            (Class::Vector, _) | (Class::Mask, Vectors::Ymm) => 0,
            (Class::Mask, Vectors::Zmm) => 1,
            (Class::General, _) => 2,
        }];
        file.expire(current.start);
        if let Some(register) = file.free.pop() {
            out.places[current.reg.0 as usize] = Place::Register(register);
            file.active.push((current, register));
            continue;
        }
        let cheapest = (0..file.active.len())
            .min_by(|&a, &b| file.active[a].0.weight.total_cmp(&file.active[b].0.weight));
        let evicted = match cheapest {
            Some(i) if file.active[i].0.weight < current.weight => {
                let (evicted, register) = file.active[i];
                file.active[i] = (current, register);
                out.places[current.reg.0 as usize] = Place::Register(register);
                evicted
            }
            _ => current,
        };
        out.places[evicted.reg.0 as usize] = match evicted.constant {
            Some(inst) => Place::Constant(inst),
            None => {
                out.frame = (out.frame + file.slot - 1) / file.slot * file.slot;
                out.frame += file.slot;
                Place::Frame(out.frame - file.slot)
            }
        };
    }
    out.frame = (out.frame + 63) / 64 * 64;
    if f.insts.iter().any(|i| matches!(i.op, Op::Call { .. })) {
        out.calls = out.frame;
        out.frame += registers.kept();
    }
    if f.vectors == Vectors::Ymm {
        out.lanes = out.frame;
        out.frame += 128;
    }
    out
}

/// The instructions with the places of their operands.
pub(super) fn listing(f: &Function, allocation: &Allocation) -> String {
    let mut out = String::new();
    let name = |r: Reg| match allocation.places[r.0 as usize] {
        Place::Register(n) => match f.classes[r.0 as usize] {
            Class::General => format!("r{n}"),
            Class::Vector | Class::Mask if f.vectors == Vectors::Ymm => format!("ymm{n}"),
            Class::Vector => format!("zmm{n}"),
            Class::Mask => format!("k{n}"),
        },
        Place::Frame(at) => format!("[frame+{at}]"),
        Place::Constant(i) => match (f.insts[i].op, f.insts[i].sources.first()) {
            (_, Some(Source::Const(bits))) => format!("{bits:#010x}"),
            (_, Some(Source::Wide(bits))) => format!("{bits:#018x}"),
            (_, Some(Source::Reg(_)) | None) => "[ramp]".to_owned(),
        },
    };
    for inst in &f.insts {
        line(&mut out, inst, &name);
    }
    out
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "ops without a name of their own and without an immediate operand print alike"
)]
fn line(out: &mut String, inst: &Inst, name: &impl Fn(Reg) -> String) {
    let what = match inst.op {
        Op::Binary(op, _) | Op::Unary(op) | Op::Shift(op, _) | Op::Compare(op, _) => {
            op.name.to_owned()
        }
        Op::MaskBinary(op) => op.name.to_owned(),
        other => format!("{other:?}").to_lowercase(),
    };
    let mut operands: Vec<String> = Vec::new();
    let mask = inst.mask.map_or(String::new(), |k| {
        format!(" {{{}}}{}", name(k), if inst.merge || inst.dst.is_none() { "" } else { "{z}" })
    });
    operands.extend(inst.dst.map(|d| name(d) + &mask));
    operands.extend(inst.sources.iter().map(|s| match *s {
        Source::Reg(r) => name(r),
        Source::Const(bits) => format!("{bits:#010x}"),
        Source::Wide(bits) => format!("{bits:#018x}"),
    }));
    let immediate = match inst.op {
        Op::Binary(_, number) | Op::Compare(_, number) => number,
        Op::Shift(_, count) => Some(count),
        _ => None,
    };
    operands.extend(immediate.map(|number| number.to_string()));
    if let Some(mem) = inst.mem {
        let base = match mem.base {
            Base::Reg(r) => name(r),
            Base::Frame => "frame".to_owned(),
        };
        let index = mem.index.map_or(String::new(), |(r, scale)| format!("+{}*{scale}", name(r)));
        operands.push(format!(
            "[{base}{index}{:+}]{}",
            mem.disp,
            if inst.dst.is_none() { &mask } else { "" }
        ));
    }
    let _ = writeln!(out, "    {what} {}", operands.join(", ")); // a string takes everything
}
