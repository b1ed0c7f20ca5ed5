//! The binary form of a tape: what files hold and what travels on the wire.
//!
//! A file is a header (magic, format version, [`FINGERPRINT`] of the op table) and the tape in
//! postcard's encoding. On the wire the tape stands alone, inside a message with a header of its
//! own: both are the serde form given here. Source locations, which are numbers of this process,
//! travel as a table of the places used; dimension names as text.
//!
//! Guarantees: decoding what was encoded gives an equal tape; any other bytes are refused with a
//! reason, without a panic, and with memory in proportion to their number. The limits are those of
//! the [text form](crate::text). Decoding does not verify.

use std::{collections::BTreeMap, fmt, marker::PhantomData, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeStruct};

use crate::{
    error::Hinted,
    intern::{Loc, MAX_FILE_LEN},
    op::{FINGERPRINT, Op},
    shape::Type,
    tape::{Entry, Instr, MAX_ENTRIES, MAX_OPERANDS, MAX_STRING, Operands, Tape, ValueId},
    text::MAX_BYTES,
};

/// The first bytes of a tape file; the first is no letter, so that no text begins like this.
pub const MAGIC: [u8; 8] = *b"\x8fgt-tape";
/// The version of the encoding.
pub const VERSION: u16 = 1;

/// The bytes before the tape itself.
const HEADER: usize = MAGIC.len() + size_of::<u16>() + size_of::<u64>();

/// Why bytes are not a tape.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The first bytes are others.
    NotATape,
    /// Another version of GT wrote it.
    Version {
        /// The version found.
        found: u16,
    },
    /// A program with another op table wrote it.
    Table {
        /// The fingerprint found.
        found: u64,
    },
    /// It ends too early.
    Truncated {
        /// Its length.
        len: usize,
    },
    /// It goes on after its end.
    Trailing {
        /// How many bytes too many.
        extra: usize,
    },
    /// Larger than what is read.
    TooLarge {
        /// Its length.
        len: usize,
    },
    /// No tape is encoded like this: an unknown op, a bad name, or a limit exceeded.
    Damaged(String),
}

impl std::error::Error for DecodeError {}

impl Hinted for DecodeError {
    fn message(&self) -> String {
        match self {
            DecodeError::NotATape => {
                format!("not a binary tape: it does not begin with {MAGIC:?}")
            }
            DecodeError::Version { found } => {
                format!("binary tape format {found}, but this program reads format {VERSION}")
            }
            DecodeError::Table { found } => {
                format!("written with another op table ({found:016x}, here {FINGERPRINT:016x})")
            }
            DecodeError::Truncated { len } => {
                format!("the binary tape ends in the middle of an entry, after {len} bytes")
            }
            DecodeError::Trailing { extra } => {
                format!("{extra} bytes follow the end of the binary tape")
            }
            DecodeError::TooLarge { len } => {
                format!("a binary tape of {len} bytes is above the limit of {MAX_BYTES}")
            }
            DecodeError::Damaged(why) => format!("the binary tape is damaged: {why}"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            DecodeError::Version { .. } | DecodeError::Table { .. } => {
                "convert it to text with the program that wrote it"
            }
            DecodeError::NotATape
            | DecodeError::Truncated { .. }
            | DecodeError::Trailing { .. }
            | DecodeError::TooLarge { .. }
            | DecodeError::Damaged(_) => return None,
        };
        Some(hint.to_owned())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// Whether bytes claim to be a binary tape.
///
/// This tells how to read a file; [`decode`] may still refuse it.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The file form of a tape.
pub fn encode(tape: &Tape) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(FINGERPRINT.to_le_bytes());
    postcard::to_extend(tape, bytes)
        .expect("a tape holds no sequence of unknown length, and memory is the only sink")
}

/// Reads the file form of a tape.
///
/// ```
/// use gt_ir::{binary, text};
/// let tape = text::load("gt tape 1\n%0 = input : f32[2]\noutput %0\n").unwrap().tape;
/// let bytes = binary::encode(&tape);
/// assert!(binary::is_binary(&bytes));
/// assert_eq!(binary::decode(&bytes)?, tape);
/// assert!(binary::decode(&bytes[..bytes.len() - 1]).is_err());
/// # Ok::<(), binary::DecodeError>(())
/// ```
///
/// # Errors
/// The bytes are not exactly one tape, written with this format and this op table.
pub fn decode(bytes: &[u8]) -> Result<Tape, DecodeError> {
    let len = bytes.len();
    if len > MAX_BYTES {
        return Err(DecodeError::TooLarge { len });
    }
    let start = &bytes[..len.min(MAGIC.len())];
    if start != &MAGIC[..start.len()] || start.is_empty() {
        return Err(DecodeError::NotATape);
    }
    let (header, body) = bytes.split_at_checked(HEADER).ok_or(DecodeError::Truncated { len })?;
    let (version, table) = header[MAGIC.len()..].split_at(size_of::<u16>());
    let found = version.iter().rev().fold(0, |n, byte| n << 8 | u16::from(*byte));
    if found != VERSION {
        return Err(DecodeError::Version { found });
    }
    let found = table.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    if found != FINGERPRINT {
        return Err(DecodeError::Table { found });
    }
    match postcard::take_from_bytes::<Tape>(body) {
        Ok((tape, [])) => Ok(tape),
        Ok((_, rest)) => Err(DecodeError::Trailing { extra: rest.len() }),
        Err(postcard::Error::DeserializeUnexpectedEnd) => Err(DecodeError::Truncated { len }),
        Err(error) => Err(DecodeError::Damaged(error.to_string())),
    }
}

/// An entry as it travels: as on the tape, with its place as a number in the table.
#[derive(Serialize, Deserialize)]
enum Wire {
    Input { out: ValueId, ty: Type, name: Option<Arc<str>> },
    Instr { out: ValueId, op: Op, inputs: Operands, place: u32 },
    Free(ValueId),
    Enter(Arc<str>),
    Exit(Arc<str>),
    Output { value: ValueId, name: Option<Arc<str>> },
}

/// The places a tape names: files, and (file, line, column). Place 0 is no place.
#[derive(Default)]
struct Places {
    files: Vec<&'static str>,
    places: Vec<(u32, u32, u32)>,
    of_loc: BTreeMap<Loc, u32>,
}

impl Places {
    /// The different places of a tape, in order of their first occurrence.
    fn of(tape: &Tape) -> Places {
        let mut places = Places::default();
        let mut of_file = BTreeMap::new();
        places.of_loc.insert(Loc::NONE, 0);
        for instr in tape.instrs() {
            if places.of_loc.contains_key(&instr.loc) {
                continue;
            }
            let file = *of_file.entry(instr.loc.file()).or_insert_with(|| {
                places.files.push(instr.loc.file());
                places.files.len() as u32 - 1
            });
            places.places.push((file, instr.loc.line(), instr.loc.col()));
            places.of_loc.insert(instr.loc, places.places.len() as u32);
        }
        places
    }

    /// An entry with its place as a number.
    fn wire(&self, entry: &Entry) -> Wire {
        match entry.clone() {
            Entry::Input { out, ty, name } => Wire::Input { out, ty, name },
            Entry::Instr(Instr { out, op, inputs, loc }) => {
                Wire::Instr { out, op, inputs, place: self.of_loc.get(&loc).copied().unwrap_or(0) }
            }
            Entry::Free(value) => Wire::Free(value),
            Entry::Enter(name) => Wire::Enter(name),
            Entry::Exit(name) => Wire::Exit(name),
            Entry::Output { value, name } => Wire::Output { value, name },
        }
    }
}

impl Serialize for Tape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Entries<'a>(&'a Places, &'a [Entry]);
        impl Serialize for Entries<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.1.iter().map(|entry| self.0.wire(entry)))
            }
        }
        let places = Places::of(self);
        let mut form = serializer.serialize_struct("Tape", 3)?;
        form.serialize_field("files", &places.files)?;
        form.serialize_field("places", &places.places)?;
        form.serialize_field("entries", &Entries(&places, &self.entries))?;
        form.end()
    }
}

impl<'de> Deserialize<'de> for Tape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tape, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "Tape")]
        struct Form<'a> {
            #[serde(borrow)]
            files: List<&'a str, MAX_ENTRIES>,
            places: List<(u32, u32, u32), MAX_ENTRIES>,
            entries: List<Wire, MAX_ENTRIES>,
        }
        let form = Form::deserialize(deserializer)?;
        let places =
            form.places.0.iter().map(|(file, line, col)| match form.files.0.get(*file as usize) {
                Some(file) if file.len() <= MAX_FILE_LEN => Ok(Loc::new(file, *line, *col)),
                Some(_) => Err(de::Error::custom("file name too long")),
                None => Err(de::Error::custom("place in an unknown file")),
            });
        let places = places.collect::<Result<Vec<Loc>, D::Error>>()?;
        let entries =
            form.entries.0.into_iter().map(|wire| entry(wire, &places).map_err(de::Error::custom));
        Ok(Tape { entries: entries.collect::<Result<_, D::Error>>()? })
    }
}

/// An entry that was read, if it is within the limits of every tape. Nothing else is checked here.
fn entry(wire: Wire, places: &[Loc]) -> Result<Entry, &'static str> {
    Ok(match wire {
        Wire::Input { out, ty, name } => {
            Entry::Input { out, ty, name: name.map(short).transpose()? }
        }
        Wire::Instr { out, op, inputs, place } => {
            if inputs.len() > MAX_OPERANDS {
                return Err("too many operands");
            }
            let loc = match place.checked_sub(1) {
                None => Loc::NONE,
                Some(place) => *places.get(place as usize).ok_or("unknown place")?,
            };
            Entry::Instr(Instr { out, op, inputs, loc })
        }
        Wire::Free(value) => Entry::Free(value),
        Wire::Enter(name) => Entry::Enter(short(name)?),
        Wire::Exit(name) => Entry::Exit(short(name)?),
        Wire::Output { value, name } => Entry::Output { value, name: name.map(short).transpose()? },
    })
}

/// A name within the limit.
fn short(name: Arc<str>) -> Result<Arc<str>, &'static str> {
    if name.len() > MAX_STRING { Err("name too long") } else { Ok(name) }
}

/// A sequence of at most `MAX` items, grown as they are read and never by what the bytes announce.
pub(crate) struct List<T, const MAX: usize>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> de::Visitor<'de> for Visitor<T, MAX> {
            type Value = List<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX} items")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    if items.len() >= MAX {
                        return Err(de::Error::custom("too many items"));
                    }
                    items.push(item);
                }
                Ok(List(items))
            }
        }
        deserializer.deserialize_seq(Visitor(PhantomData))
    }
}
