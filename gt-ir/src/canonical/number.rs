//! The numbers of values within a segment, whatever the session calls them.
//!
//! Guarantees: numbering a segment whose definitions are consecutive takes a subtraction for what
//! it defines and one look-up for what it does not; nothing is allocated once the buffers have
//! grown.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use super::{Bindings, Defined};
use crate::tape::ValueId;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// From outside: the k-th in order of first use.
    Outside(u32),
    /// The k-th definition of the segment.
    Here(u32),
}

impl Place {
    /// As a word of the key.
    #[inline]
    pub(super) const fn word(self) -> u64 {
        match self {
            Place::Outside(k) => (k as u64) << 1,
            Place::Here(k) => (k as u64) << 1 | 1,
        }
    }

    /// The place a canonical number stands for.
    #[inline]
    pub(super) const fn of(number: ValueId, n_inputs: usize) -> Place {
        match number.0.checked_sub(n_inputs as u64) {
            None => Place::Outside(number.0 as u32),
            Some(k) => Place::Here(k as u32),
        }
    }

    /// The canonical number.
    #[inline]
    pub(super) const fn number(self, n_inputs: usize) -> ValueId {
        ValueId(match self {
            Place::Outside(k) => k as u64,
            Place::Here(k) => n_inputs as u64 + k as u64,
        })
    }
}

/// The places of the values of one segment. Counts fit 32 bits: an entry of a tape is larger than
/// 100 bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    first: u64,
    count: u32,
    /// The definitions, once they are not consecutive.
    list: Vec<ValueId>,
    inputs: Vec<ValueId>,
    /// Where values from outside are, and definitions that are not consecutive.
    map: Map,
}

impl Numbers {
    /// Forgets all values and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.list.clear();
        self.inputs.clear();
        self.map.clear();
    }

    /// How many values the segment has defined so far.
    pub(super) const fn n_defined(&self) -> usize {
        self.count as usize
    }

    pub(super) fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The values from outside, in order of first use.
    pub(super) fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// The next definition.
    #[inline]
    pub(super) fn define(&mut self, id: ValueId) {
        if self.count == 0 {
            self.first = id.0;
        } else if !self.list.is_empty() || self.first.checked_add(self.count.into()) != Some(id.0) {
            self.define_apart(id);
        }
        self.count += 1;
    }

    /// As [`Numbers::define`], where the definitions are not consecutive: all of them are then
    /// listed. A session hands out numbers in order, so this is rare and kept out of the way.
    #[cold]
    fn define_apart(&mut self, id: ValueId) {
        if self.list.is_empty() {
            for k in 0..self.count {
                let id = ValueId(self.first + u64::from(k));
                self.list.push(id);
                self.map.put(id.0, Place::Here(k));
            }
        }
        self.list.push(id);
        self.map.put(id.0, Place::Here(self.count));
    }

    /// Where a value is; one not met before comes from outside.
    #[inline]
    pub(super) fn place(&mut self, id: ValueId) -> Place {
        let k = id.0.wrapping_sub(self.first);
        if k < u64::from(self.count) && self.list.is_empty() {
            return Place::Here(k as u32);
        }
        let next = Place::Outside(self.inputs.len() as u32);
        let place = self.map.get_or_put(id.0, next);
        if place == next {
            self.inputs.push(id);
        }
        place
    }

    /// Puts what was numbered into `bindings`, which leave their buffers here.
    pub(super) fn give(&mut self, bindings: &mut Bindings) {
        std::mem::swap(&mut bindings.inputs, &mut self.inputs);
        if self.list.is_empty() {
            bindings.defined =
                Defined::Run(ValueId(self.first * u64::from(self.count > 0)), self.count.into());
        } else {
            bindings.defined = Defined::List(std::mem::take(&mut self.list));
        }
    }
}

/// Open addressing with linear probing; forgetting everything costs nothing.
///
/// Every slot carries the number of its round, so a new segment begins a new round instead of
/// clearing the table. The factor of the hash is 2^64 over the golden ratio (Knuth, volume 3,
/// section 6.4).
#[derive(Clone, Debug, Default)]
struct Map {
    slots: Vec<Slot>,
    len: usize,
    /// Slots of other rounds are free. Round 0 is never current.
    round: u32,
}

/// A value, the round that wrote it, and its place as a word of the key.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    id: u64,
    round: u32,
    word: u32,
}

/// The slots of a table that has grown once. All sizes are powers of two: the hash is masked.
const SMALLEST: usize = 64;

impl Map {
    /// Begins a new round. After 2^32 rounds the numbers start again, and only then slots are
    /// cleared.
    fn clear(&mut self) {
        self.len = 0;
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    /// The slot of an id: its own, or the free one it would take.
    #[inline]
    fn slot(&self, id: u64) -> usize {
        /// Drawn once a process, so that a peer cannot choose numbers that collide.
        static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0_u64));
        let wide = u128::from(*SECRET ^ id) * 0x9e37_79b9_7f4a_7c15;
        let mask = self.slots.len() - 1;
        let mut at = ((wide >> 64) as usize ^ wide as usize) & mask;
        while self.slots[at].round == self.round && self.slots[at].id != id {
            at = (at + 1) & mask;
        }
        at
    }

    /// The place of an id, or the given one, which it then has. The table is at most half full, so
    /// a probe takes 2.5 steps on average.
    #[inline]
    fn get_or_put(&mut self, id: u64, place: Place) -> Place {
        if self.len * 2 >= self.slots.len() {
            self.grow();
        }
        let at = self.slot(id);
        let slot = &mut self.slots[at];
        if slot.round == self.round {
            let k = slot.word >> 1;
            return if slot.word & 1 == 1 { Place::Here(k) } else { Place::Outside(k) };
        }
        *slot = Slot { id, round: self.round, word: place.word() as u32 };
        self.len += 1;
        place
    }

    /// The later of two definitions of one id counts.
    fn put(&mut self, id: u64, place: Place) {
        if self.get_or_put(id, place) != place {
            let at = self.slot(id);
            self.slots[at].word = place.word() as u32;
        }
    }

    /// Doubles the table and moves the values of this round.
    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        let round = std::mem::replace(&mut self.round, 1);
        self.slots = vec![Slot::default(); (old.len() * 2).max(SMALLEST)];
        for slot in old.into_iter().filter(|slot| slot.round == round && round != 0) {
            let at = self.slot(slot.id);
            self.slots[at] = Slot { round: 1, ..slot };
        }
    }
}
