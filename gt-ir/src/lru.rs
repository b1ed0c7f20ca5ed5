//! Values in numbered slots, in the order in which they were used last.
//!
//! For tables that give up their least recently used value when they are full. A slot keeps its
//! number until its value is removed; a new value takes a free slot before a new one. Every
//! operation takes constant time: the slots are linked from the most to the least recently used.
//! It has no limit of its own and knows no keys.

/// The end of the list.
const NONE: usize = usize::MAX;

/// A table of values that knows which was used least recently.
///
/// ```
/// use gt_ir::lru::Lru;
/// let mut lru = Lru::new();
/// let (a, b) = (lru.insert("a"), lru.insert("b"));
/// lru.touch(a);
/// assert_eq!(lru.oldest(), Some(b));
/// assert_eq!(lru.remove(b), Some("b"));
/// ```
#[derive(Clone, Debug)]
pub struct Lru<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

/// A value, or a free slot, and its neighbors in the order of use.
#[derive(Clone, Debug)]
struct Slot<T> {
    value: Option<T>,
    newer: usize,
    older: usize,
}

impl<T> Lru<T> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Lru<T> {
        Lru { slots: Vec::new(), free: Vec::new(), newest: NONE, oldest: NONE }
    }

    /// How many values it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether it holds no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest == NONE
    }

    /// Adds a value as the most recently used one; gives its slot.
    pub fn insert(&mut self, value: T) -> usize {
        let new = Slot { value: Some(value), newer: NONE, older: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = new;
                slot
            }
            None => {
                self.slots.push(new);
                self.slots.len() - 1
            }
        };
        self.link(slot);
        slot
    }

    /// Takes a value out.
    pub fn remove(&mut self, slot: usize) -> Option<T> {
        let value = self.slots.get_mut(slot)?.value.take()?;
        self.unlink(slot);
        self.free.push(slot);
        Some(value)
    }

    /// The value in a slot. Looking at it is no use.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.slots.get(slot)?.value.as_ref()
    }

    /// The value in a slot, to change it. Doing so is no use.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.slots.get_mut(slot)?.value.as_mut()
    }

    /// Notes that a value was used.
    pub fn touch(&mut self, slot: usize) {
        if slot != self.newest && self.get(slot).is_some() {
            self.unlink(slot);
            self.link(slot);
        }
    }

    /// The slot of the least recently used value.
    #[must_use]
    pub fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Every value with its slot, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, held)| Some((slot, held.value.as_ref()?)))
    }

    /// Puts a slot in front as the newest.
    fn link(&mut self, slot: usize) {
        let before = std::mem::replace(&mut self.newest, slot);
        (self.slots[slot].newer, self.slots[slot].older) = (NONE, before);
        match self.slots.get_mut(before) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
    }

    /// Takes a slot out of the order and joins its neighbors.
    fn unlink(&mut self, slot: usize) {
        let (newer, older) = (self.slots[slot].newer, self.slots[slot].older);
        match self.slots.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Lru::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Source;

    /// Beside a list in the order of use, over random operations.
    #[test]
    fn the_oldest_is_the_least_recently_used() {
        let mut source = Source::from_seed(1);
        let (mut lru, mut order) = (Lru::new(), Vec::<(usize, usize)>::new());
        for n in 0..5_000 {
            let some = order.get(source.below(order.len().max(1))).copied();
            match (source.below(4), some) {
                (0, Some((slot, value))) => {
                    assert_eq!(lru.remove(slot), Some(value));
                    assert!(lru.get(slot).is_none() && lru.remove(slot).is_none());
                    order.retain(|(other, _)| *other != slot);
                }
                (1, Some((slot, value))) => {
                    lru.touch(slot);
                    order.retain(|(other, _)| *other != slot);
                    order.push((slot, value));
                }
                _ if order.len() < 8 => order.push((lru.insert(n), n)),
                _ => {
                    let oldest = lru.oldest().unwrap();
                    assert_eq!(lru.remove(oldest), Some(order.remove(0).1));
                }
            }
            assert_eq!(lru.oldest(), order.first().map(|(slot, _)| *slot));
            assert_eq!((lru.len(), lru.is_empty()), (order.len(), order.is_empty()));
            assert!(order.iter().all(|(slot, value)| *slot < 9 && lru.get(*slot) == Some(value)));
            assert_eq!(lru.iter().count(), order.len());
        }
    }
}
