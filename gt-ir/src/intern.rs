//! Process-wide tables of the two things every instruction may name without carrying text: source
//! locations and dimension names.
//!
//! Both are append-only and bounded. When a table is full a new entry becomes the anonymous one
//! ([`Loc::NONE`], [`DimName::NONE`]): both are hints, and losing one never changes a result.

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    sync::{
        LazyLock, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest dimension name accepted.
pub const MAX_NAME_LEN: usize = 64;
/// Most dimension names one process keeps.
pub const MAX_DIM_NAMES: usize = 60_000;
/// Most source locations one process keeps.
pub const MAX_LOCS: usize = 1 << 20;
/// Longest file name kept for a location.
pub const MAX_FILE_LEN: usize = 512;

/// The name of a dimension: none (a static size), `?` (known only at run time), or a word such as
/// `Batch`.
///
/// Hashing goes by the text, not by the number it has in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DimName(u16);

/// A place in the user's source: file, line and column, all 1-based. Four bytes; the text lives in
/// a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Loc(u32);

/// What a [`Loc`] stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Position {
    file: &'static str,
    line: u32,
    col: u32,
}

/// A table that gives each distinct item a number, in order of arrival.
struct Interner<T> {
    ids: HashMap<T, u32>,
    items: Vec<T>,
}

impl<T: Copy + Eq + std::hash::Hash> Interner<T> {
    /// A table whose first numbers are taken by fixed items.
    fn new(first: &[T]) -> Self {
        let ids = first.iter().enumerate().map(|(i, &item)| (item, i as u32)).collect();
        Interner { ids, items: first.to_vec() }
    }

    /// The number of an item; `None` if it is new and the table is full.
    fn add(&mut self, item: T, limit: usize) -> Option<u32> {
        if let Some(&id) = self.ids.get(&item) {
            return Some(id);
        }
        if self.items.len() >= limit {
            return None;
        }
        let id = self.items.len() as u32;
        self.ids.insert(item, id);
        self.items.push(item);
        Some(id)
    }
}

static NAMES: LazyLock<RwLock<Interner<&'static str>>> =
    LazyLock::new(|| RwLock::new(Interner::new(&["", "?"])));
static POSITIONS: LazyLock<RwLock<Interner<Position>>> =
    LazyLock::new(|| RwLock::new(Interner::new(&[Position { file: "", line: 0, col: 0 }])));
static FILES: LazyLock<RwLock<Interner<&'static str>>> =
    LazyLock::new(|| RwLock::new(Interner::new(&[""])));

/// The hashes of the names, by number. A hash is written before its name's number is handed out.
static NAME_HASHES: [AtomicU64; MAX_DIM_NAMES] = [const { AtomicU64::new(0) }; MAX_DIM_NAMES];

/// A writer that panicked cannot leave these tables half written, so a poisoned lock is still good.
pub(crate) fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// As [`read`], to add to the table.
pub(crate) fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The one leaked copy of `text`, or `None` when the table is full.
fn intern_str(
    table: &RwLock<Interner<&'static str>>,
    text: &str,
    limit: usize,
) -> Option<(u32, &'static str)> {
    let found = |t: &Interner<&'static str>| t.ids.get(text).map(|&id| (id, t.items[id as usize]));
    if let Some(hit) = found(&read(table)) {
        return Some(hit);
    }
    let mut table = write(table);
    if let Some(hit) = found(&table) {
        return Some(hit);
    }
    if table.items.len() >= limit {
        return None;
    }
    let leaked: &'static str = Box::leak(text.into());
    table.add(leaked, limit).map(|id| (id, leaked))
}

impl DimName {
    /// A static dimension.
    pub const NONE: DimName = DimName(0);
    /// A run-time dimension, `?`.
    pub const DYN: DimName = DimName(1);

    /// Interns a name: a letter or `_`, then letters, digits or `_`, at most [`MAX_NAME_LEN`]
    /// bytes; `None` for anything else.
    ///
    /// ```
    /// use gt_ir::DimName;
    /// assert_eq!(DimName::new("Batch"), DimName::new("Batch"));
    /// assert_eq!(DimName::new("?"), Some(DimName::DYN));
    /// assert_eq!(DimName::new("2d"), None);
    /// ```
    pub fn new(name: &str) -> Option<DimName> {
        if name == "?" {
            return Some(DimName::DYN);
        }
        let head = name.chars().next()?;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.len() > MAX_NAME_LEN || head.is_ascii_digit() || !name.chars().all(word) {
            return None;
        }
        let Some((id, name)) = intern_str(&NAMES, name, MAX_DIM_NAMES) else {
            return Some(DimName::NONE);
        };
        NAME_HASHES[id as usize].store(fnv(name.as_bytes()), Ordering::Relaxed);
        Some(DimName(id as u16))
    }

    /// The name, empty for a static dimension and `?` for a run-time one.
    pub fn as_str(self) -> &'static str {
        read(&NAMES).items[self.0 as usize]
    }

    /// Whether this is a word: neither static nor `?`.
    pub const fn is_named(self) -> bool {
        self.0 > 1
    }
}

impl Loc {
    /// No location is known.
    pub const NONE: Loc = Loc(0);

    /// Interns a place given as text; an over-long file name loses its beginning, a full table
    /// gives [`Loc::NONE`].
    ///
    /// ```
    /// use gt_ir::Loc;
    /// let loc = Loc::new("model.rs", 12, 5);
    /// assert_eq!((loc.to_string().as_str(), loc.line()), ("model.rs:12:5", 12));
    /// assert_eq!(Loc::NONE.to_string(), "unknown location");
    /// ```
    pub fn new(file: &str, line: u32, col: u32) -> Loc {
        let cut = (0..=file.len())
            .find(|&i| file.is_char_boundary(i) && file.len() - i <= MAX_FILE_LEN)
            .unwrap_or(0);
        let Some((_, file)) = intern_str(&FILES, &file[cut..], MAX_LOCS / 16) else {
            return Loc::NONE;
        };
        Loc::intern(Position { file, line, col })
    }

    /// The number of a position. Looking up takes a read lock only, since almost every position has
    /// been recorded before.
    fn intern(place: Position) -> Loc {
        if let Some(&id) = read(&POSITIONS).ids.get(&place) {
            return Loc(id);
        }
        write(&POSITIONS).add(place, MAX_LOCS).map_or(Loc::NONE, Loc)
    }

    fn place(self) -> Position {
        read(&POSITIONS).items[self.0 as usize]
    }

    /// The file as the compiler named it; empty for [`Loc::NONE`].
    pub fn file(self) -> &'static str {
        self.place().file
    }

    /// The line, from 1; 0 for [`Loc::NONE`].
    pub fn line(self) -> u32 {
        self.place().line
    }

    /// The column, from 1; 0 for [`Loc::NONE`].
    pub fn col(self) -> u32 {
        self.place().col
    }
}

impl From<&'static std::panic::Location<'static>> for Loc {
    fn from(l: &'static std::panic::Location<'static>) -> Loc {
        Loc::intern(Position { file: l.file(), line: l.line(), col: l.column() })
    }
}

impl Hash for DimName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(if self.is_named() {
            NAME_HASHES[self.0 as usize].load(Ordering::Relaxed)
        } else {
            u64::from(self.0)
        });
    }
}

impl fmt::Display for DimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for DimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { file, line, col } = self.place();
        if *self == Loc::NONE {
            f.write_str("unknown location")
        } else {
            write!(f, "{file}:{line}:{col}")
        }
    }
}

impl fmt::Debug for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DimName {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(s)
    }
}

impl<'de> Deserialize<'de> for DimName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let name = <&str>::deserialize(d)?;
        match name {
            "" => Ok(DimName::NONE),
            name => {
                DimName::new(name).ok_or_else(|| serde::de::Error::custom("bad dimension name"))
            }
        }
    }
}

impl Serialize for Loc {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Position { file, line, col } = self.place();
        (file, line, col).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Loc {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let (file, line, col) = <(&str, u32, u32)>::deserialize(d)?;
        Ok(if file.is_empty() { Loc::NONE } else { Loc::new(file, line, col) })
    }
}

/// Fowler, Noll and Vo's hash (FNV-1a, 64 bits): a hash of names that is the same in every
/// process.
pub(crate) const fn fnv(bytes: &[u8]) -> u64 {
    let (mut hash, mut i) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(DimName::new("Batch"), DimName::new("Batch"));
        assert_eq!(DimName::new("Batch").map(DimName::as_str), Some("Batch"));
        assert_eq!(DimName::new("?"), Some(DimName::DYN));
        for bad in ["", "1a", "a b", "a=3", "é", &"x".repeat(65)] {
            assert_eq!(DimName::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn locations_agree_however_they_are_made() {
        let here = std::panic::Location::caller();
        assert_eq!(Loc::from(here), Loc::new(here.file(), here.line(), here.column()));
        assert_eq!(Loc::NONE.to_string(), "unknown location");
    }
}
