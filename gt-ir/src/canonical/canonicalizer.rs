//! The key and the bindings of a segment, entry by entry, without building its template.

use std::hash::Hash;

use super::{
    Bindings, Key,
    key::KeyHasher,
    number::{Numbers, Place},
};
use crate::{
    op::Operand,
    scalar::Scalar,
    tape::{Entry, Instr, Tape, ValueId},
};

/// Finds keys and bindings. Meant to be reused: once its buffers have grown it allocates nothing.
#[derive(Clone)]
pub struct Canonicalizer {
    hash: KeyHasher,
    numbers: Numbers,
    scalars: Vec<Scalar>,
}

// What an entry begins with in the key.
const INPUT: u64 = 1;
const INSTR: u64 = 2;
const FREE: u64 = 3;
const ENTER: u64 = 4;
const EXIT: u64 = 5;
const OUTPUT: u64 = 6;

impl Default for Canonicalizer {
    fn default() -> Canonicalizer {
        Canonicalizer { hash: KeyHasher::START, numbers: Numbers::default(), scalars: Vec::new() }
    }
}

impl Canonicalizer {
    /// One that has seen nothing.
    pub fn new() -> Canonicalizer {
        Canonicalizer::default()
    }

    /// Takes the next entry of the segment.
    #[inline]
    pub fn push(&mut self, entry: &Entry) {
        match entry {
            Entry::Instr(instr) => self.instr(instr),
            Entry::Free(value) => self.value(FREE, *value),
            Entry::Output { value, name: _ } => self.value(OUTPUT, *value),
            Entry::Input { out, ty, name: _ } => {
                self.hash.word(INPUT);
                ty.hash(&mut self.hash);
                self.numbers.define(*out);
            }
            Entry::Enter(name) => self.scope(ENTER, name),
            Entry::Exit(name) => self.scope(EXIT, name),
        }
    }

    fn instr(&mut self, instr: &Instr) {
        self.hash.word(INSTR | (instr.inputs.len() as u64) << 8);
        instr.op.hash(&mut self.hash);
        for operand in &instr.inputs {
            let word = match operand {
                Operand::Value(value) => self.numbers.place(*value).word() << 1,
                Operand::Scalar(scalar) => {
                    self.scalars.push(*scalar);
                    (scalar.weak_dtype() as u64) << 1 | 1
                }
            };
            self.hash.word(word);
        }
        self.numbers.define(instr.out);
    }

    fn value(&mut self, tag: u64, value: ValueId) {
        let place = self.numbers.place(value);
        self.hash.word(tag | place.word() << 8);
    }

    fn scope(&mut self, tag: u64, name: &str) {
        self.hash.word(tag);
        self.hash.text(name);
    }

    /// The key of what was taken so far.
    pub fn key(&self) -> Key {
        let mut hash = self.hash;
        hash.word(self.numbers.n_inputs() as u64);
        hash.word(self.numbers.n_defined() as u64);
        hash.key()
    }

    /// The values from outside that were met so far, in order of first use.
    pub fn inputs(&self) -> &[ValueId] {
        self.numbers.inputs()
    }

    /// The key and, in `bindings`, what it leaves out; then this is ready for the next segment.
    pub fn finish(&mut self, bindings: &mut Bindings) -> Key {
        let key = self.key();
        self.numbers.give(bindings);
        std::mem::swap(&mut bindings.scalars, &mut self.scalars);
        self.clear();
        key
    }

    /// The key and bindings of a whole segment.
    pub fn segment(&mut self, tape: &Tape, bindings: &mut Bindings) -> Key {
        self.clear();
        tape.entries.iter().for_each(|entry| self.push(entry));
        self.finish(bindings)
    }

    /// Forgets what it has taken.
    pub fn clear(&mut self) {
        self.hash = KeyHasher::START;
        self.numbers.clear();
        self.scalars.clear();
    }

    /// Where a value is, for code that rewrites entries while they are taken.
    pub(super) fn place(&mut self, value: ValueId) -> Place {
        self.numbers.place(value)
    }

    pub(super) const fn n_defined(&self) -> usize {
        self.numbers.n_defined()
    }
}
