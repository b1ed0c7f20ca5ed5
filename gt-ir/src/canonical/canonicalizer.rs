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
///
/// ```
/// use gt_ir::{canonical::{Bindings, Canonicalizer}, text};
/// let key = |n: u64, literal: &str| {
///     let text = format!("gt tape 1\n%{} = mul %{n}, {literal}\n", n + 1);
///     let (tape, _) = text::parse(&text).unwrap();
///     Canonicalizer::new().segment(&tape, &mut Bindings::default())
/// };
/// // Neither the numbers of values nor the value of a literal is a part of the key.
/// assert_eq!(key(3, "2.0"), key(7, "0.5"));
/// assert_ne!(key(3, "2.0"), key(3, "2")); // an integer promotes otherwise
/// ```
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

    /// The op with its attribute, then a word for each operand. The lowest bit tells a value from a
    /// literal, so no value can be mistaken for a kind of literal.
    fn instr(&mut self, instr: &Instr) {
        self.operands(instr, |hash| instr.op.hash(hash));
    }

    #[inline]
    fn operands(&mut self, instr: &Instr, op: impl FnOnce(&mut KeyHasher)) {
        self.hash.word(INSTR | (instr.inputs.len() as u64) << 8);
        op(&mut self.hash);
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

    /// An entry about one value.
    fn value(&mut self, tag: u64, value: ValueId) {
        let place = self.numbers.place(value);
        self.hash.word(tag | place.word() << 8);
    }

    /// The beginning or end of a scope. The name is a part of the key: signals carry configuration.
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

    /// What segments have in common that differ in sizes, or in other attributes of their ops: the
    /// kinds of ops, and how operands are wired.
    pub fn form(&mut self, tape: &Tape) -> Key {
        self.clear();
        for entry in &tape.entries {
            match entry {
                Entry::Instr(instr) => self.operands(instr, |hash| instr.op.kind().hash(hash)),
                Entry::Input { out, ty, name: _ } => {
                    self.hash.word(INPUT | (ty.dtype as u64) << 8);
                    self.numbers.define(*out);
                }
                Entry::Free(_) | Entry::Output { .. } | Entry::Enter(_) | Entry::Exit(_) => {
                    self.push(entry);
                }
            }
        }
        let form = self.key();
        self.clear();
        form
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

    /// How many values the segment has defined so far.
    pub(super) const fn n_defined(&self) -> usize {
        self.numbers.n_defined()
    }
}
