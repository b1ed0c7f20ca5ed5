//! The bytes around handshakes and sealed packets: a magic number, the version, and a kind.

use crate::wire::PROTOCOL;
use crate::wire::codec::WireError;

/// Plain packets begin with other bytes.
const MAGIC: [u8; 2] = *b"GS";
const HEADER: usize = 5;
/// The bytes before the content of a sealed packet: the header and the packet's number.
pub(super) const SEALED: usize = HEADER + 8;

/// The kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The three messages of a handshake.
    First = 1,
    Second = 2,
    Third = 3,
    /// Whether the handshake has opened the door.
    Verdict = 4,
    /// A packet.
    Sealed = 5,
    /// The receiver of a sealed packet has no key for it. Anyone could say so.
    Unknown = 6,
}

/// Whether a message is of this format rather than a plain packet.
pub(super) fn is_ours(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// A message.
pub(super) fn message(kind: Kind, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(kind).to_vec();
    bytes.extend_from_slice(content);
    bytes
}

/// The bytes before the content of a sealed packet.
pub(super) fn sealed_header(n: u64) -> [u8; SEALED] {
    let mut bytes = [0; SEALED];
    bytes[..HEADER].copy_from_slice(&header(Kind::Sealed));
    bytes[HEADER..].copy_from_slice(&n.to_le_bytes());
    bytes
}

fn header(kind: Kind) -> [u8; HEADER] {
    let [low, high] = (PROTOCOL as u16).to_le_bytes();
    [MAGIC[0], MAGIC[1], low, high, kind as u8]
}

/// The kind and the content of a message.
pub(super) fn parse(head: &[u8]) -> Result<(Kind, &[u8]), WireError> {
    let (header, content) =
        head.split_at_checked(HEADER).ok_or_else(|| WireError::Magic(head.to_vec()))?;
    if !is_ours(header) {
        return Err(WireError::Magic(header.to_vec()));
    }
    let theirs = u32::from(u16::from_le_bytes([header[2], header[3]]));
    if theirs != PROTOCOL {
        return Err(WireError::Version { ours: PROTOCOL, theirs });
    }
    let kinds =
        [Kind::First, Kind::Second, Kind::Third, Kind::Verdict, Kind::Sealed, Kind::Unknown];
    let kind = kinds.into_iter().find(|kind| *kind as u8 == header[4]);
    let kind = kind.ok_or_else(|| WireError::Damaged(format!("its kind is {}", header[4])))?;
    Ok((kind, content))
}
