//! Programs of single instructions, found by op and operand types; scalars count by kind only.
//!
//! Bounded: at capacity the least recently used half goes, and its machine code with it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher},
};

use gt_ir::{Graph, Op, OperandType, Scalar, Type};
use smallvec::SmallVec;

use crate::{
    engine::{Arg, EngineStats, Value},
    error::EngineError,
    program::Program,
};

/// What the key keeps of an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Tensor(Type),
    Float,
    Int,
    Bool,
}

impl Key {
    fn of(arg: &Arg<'_>) -> Key {
        match arg {
            Arg::Value(v) => Key::Tensor(v.ty),
            Arg::Scalar(Scalar::F64(_)) => Key::Float,
            Arg::Scalar(Scalar::I64(_)) => Key::Int,
            Arg::Scalar(Scalar::Bool(_)) => Key::Bool,
        }
    }
}

struct Entry {
    op: Op,
    keys: SmallVec<[Key; 2]>,
    program: Program,
    used: u64,
}

/// Bounded map from instructions to programs.
pub(crate) struct Cache {
    entries: HashMap<u64, Vec<Entry>, Prehashed>,
    len: usize,
    capacity: usize,
    clock: u64,
}

/// Keys are hashes already.
#[derive(Clone, Copy, Default)]
struct Prehashed;

impl BuildHasher for Prehashed {
    type Hasher = Mixer;
    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

/// A multiplicative hash: fast, and good enough since equality decides.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }
    fn write_u8(&mut self, v: u8) {
        self.write_u64(v.into());
    }
    fn write_u16(&mut self, v: u16) {
        self.write_u64(v.into());
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(v.into());
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(5) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
    fn write_isize(&mut self, v: isize) {
        self.write_u64(v as u64);
    }
}

fn operand_type(arg: &Arg<'_>) -> OperandType {
    match arg {
        Arg::Value(v) => OperandType::Tensor(v.ty),
        Arg::Scalar(s) => OperandType::Scalar(*s),
    }
}

/// The values and the literals among operands, as programs take them.
pub(crate) fn split<'v>(args: &[Arg<'v>]) -> (SmallVec<[&'v Value; 4]>, SmallVec<[Scalar; 4]>) {
    let (mut values, mut scalars) = (SmallVec::new(), SmallVec::new());
    for arg in args {
        match *arg {
            Arg::Value(v) => values.push(v),
            Arg::Scalar(s) => scalars.push(s),
        }
    }
    (values, scalars)
}

/// The hash of an instruction.
fn hash(op: &Op, args: &[Arg<'_>]) -> u64 {
    let mut h = Mixer::default();
    op.hash(&mut h);
    for arg in args {
        match Key::of(arg) {
            Key::Tensor(ty) => {
                ty.dtype.hash(&mut h);
                ty.shape.sizes().iter().for_each(|s| h.write_usize(*s));
            }
            Key::Float => h.write_u64(101),
            Key::Int => h.write_u64(102),
            Key::Bool => h.write_u64(103),
        }
    }
    h.finish()
}

impl Cache {
    pub(crate) fn new(capacity: usize) -> Cache {
        Cache {
            entries: HashMap::with_hasher(Prehashed),
            len: 0,
            capacity: capacity.max(1),
            clock: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The program of an instruction, compiled by `compile` where it is not there yet; counted in
    /// `stats`.
    pub(crate) fn program(
        &mut self,
        op: &Op,
        args: &[Arg<'_>],
        stats: &mut EngineStats,
        compile: impl FnOnce(&Graph) -> Result<Program, EngineError>,
    ) -> Result<Program, EngineError> {
        stats.instructions += 1;
        let hash = hash(op, args);
        if let Some(program) = self.find(hash, op, args) {
            stats.cache_hits += 1;
            return Ok(program);
        }
        stats.cache_misses += 1;
        let types: SmallVec<[OperandType; 3]> = args.iter().map(operand_type).collect();
        let program = compile(&gt_ir::expand(op, &types)?)?;
        stats.cache_evictions += self.insert(hash, op, args, program.clone());
        Ok(program)
    }

    fn find(&mut self, hash: u64, op: &Op, args: &[Arg<'_>]) -> Option<Program> {
        self.clock += 1;
        let matches = |e: &&mut Entry| {
            e.op == *op
                && e.keys.len() == args.len()
                && e.keys.iter().zip(args).all(|(k, a)| *k == Key::of(a))
        };
        let entry = self.entries.get_mut(&hash)?.iter_mut().find(matches)?;
        entry.used = self.clock;
        Some(entry.program.clone())
    }

    /// Adds a program that was not found; gives the number of programs dropped for it.
    fn insert(&mut self, hash: u64, op: &Op, args: &[Arg<'_>], program: Program) -> u64 {
        let dropped = if self.len >= self.capacity { self.evict() } else { 0 };
        let entry =
            Entry { op: *op, keys: args.iter().map(Key::of).collect(), program, used: self.clock };
        self.entries.entry(hash).or_default().push(entry);
        self.len += 1;
        dropped
    }

    #[expect(
        clippy::iter_over_hash_type,
        reason = "the times of use are collected and sorted, and entries judged one by one"
    )]
    fn evict(&mut self) -> u64 {
        let mut times: Vec<u64> = Vec::with_capacity(self.len);
        for entries in self.entries.values() {
            times.extend(entries.iter().map(|e| e.used));
        }
        times.sort_unstable();
        let border = times.get(times.len() / 2).copied().unwrap_or(0);
        for entries in self.entries.values_mut() {
            entries.retain(|e| e.used > border);
        }
        self.entries.retain(|_, entries| !entries.is_empty());
        let before = self.len;
        self.len = self.entries.values().map(Vec::len).sum();
        (before - self.len) as u64
    }
}
