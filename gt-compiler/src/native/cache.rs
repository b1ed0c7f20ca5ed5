//! Programs of single instructions, found by op and operand types; scalars count by kind only.
//!
//! Bounded: a program beyond the capacity takes the place of the least recently used one, whose
//! machine code goes with it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher},
};

use gt_ir::{
    Graph, Op, OperandType, Scalar, Type,
    graph::{Calls, expand_with},
    lru::Lru,
};
use smallvec::SmallVec;

use crate::{
    engine::{Arg, EngineStats, Value},
    error::EngineError,
    program::Program,
};

/// An operand in a key.
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
    hash: u64,
    op: Op,
    keys: SmallVec<[Key; 2]>,
    program: Program,
}

impl Entry {
    fn is(&self, op: &Op, args: &[Arg<'_>]) -> bool {
        self.op == *op
            && self.keys.len() == args.len()
            && self.keys.iter().zip(args).all(|(key, arg)| *key == Key::of(arg))
    }
}

/// Bounded map from instructions to programs.
pub(crate) struct Cache {
    entries: Lru<Entry>,
    /// The slots of the entries with a hash; looked up only, never iterated over.
    slots: HashMap<u64, SmallVec<[usize; 2]>, Prehashed>,
    capacity: usize,
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
        let slots = HashMap::with_hasher(Prehashed);
        Cache { entries: Lru::new(), slots, capacity: capacity.max(1) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The program of an instruction, compiled by `compile` where it is not there yet; counted in
    /// `stats`. Derived ops for which `calls` holds stay as they are.
    pub(crate) fn program(
        &mut self,
        op: &Op,
        args: &[Arg<'_>],
        stats: &mut EngineStats,
        calls: Calls,
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
        let program = compile(&expand_with(op, &types, calls)?)?;
        stats.cache_evictions += self.insert(hash, op, args, program.clone());
        Ok(program)
    }

    fn find(&mut self, hash: u64, op: &Op, args: &[Arg<'_>]) -> Option<Program> {
        let is = |slot: &&usize| self.entries.get(**slot).is_some_and(|e| e.is(op, args));
        let slot = *self.slots.get(&hash)?.iter().find(is)?;
        self.entries.touch(slot);
        self.entries.get(slot).map(|entry| entry.program.clone())
    }

    /// Adds a program that was not found; gives the number of programs dropped for it.
    fn insert(&mut self, hash: u64, op: &Op, args: &[Arg<'_>], program: Program) -> u64 {
        let dropped = if self.len() >= self.capacity { self.drop_oldest() } else { 0 };
        let keys = args.iter().map(Key::of).collect();
        let slot = self.entries.insert(Entry { hash, op: *op, keys, program });
        self.slots.entry(hash).or_default().push(slot);
        dropped
    }

    fn drop_oldest(&mut self) -> u64 {
        let Some(slot) = self.entries.oldest() else { return 0 };
        let Some(entry) = self.entries.remove(slot) else { return 0 };
        if let Some(slots) = self.slots.get_mut(&entry.hash) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.slots.remove(&entry.hash);
            }
        }
        1
    }
}
