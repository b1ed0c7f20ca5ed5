//! Packets as bytes: a header with magic number and version, the packet in postcard, and the bytes
//! of a chunk as a frame of their own.
//!
//! Decoding trusts no bytes. Sizes are checked before memory is allocated. Every sequence of bytes
//! gives a packet within the limits of [`wire`](super) or a [`WireError`], never a panic. A chunk's
//! bytes are not copied in either direction.

#[cfg(test)]
mod tests;

use super::{
    Body, LaneMessage, MAX_CHUNK, MAX_ENTRIES, MAX_EVENTS, MAX_HEAD, MAX_MOMENTS, MAX_PIECE_HEAD,
    MAX_TEXT, Meeting, PROTOCOL, Packet,
};
use crate::wire::handshake::SAME_VERSION;
use crate::wire::{FromClient, FromWorker, MAX_ROUTINE, Message, Order, ToClient, ToWorker};
use bytes::Bytes;
use gt_ir::backend::Demand;
use gt_ir::error::Hinted;
use std::fmt;

const MAGIC: [u8; 2] = *b"GT";
const HEADER: usize = 4;
/// The bytes that a tape may gain when the dispatcher passes it on, because the dispatcher adds
/// numbers.
const PASSED_ON: usize = 128;

/// A packet as the transport sends it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frames {
    /// Header and packet.
    pub head: Vec<u8>,
    /// The bytes of its chunk, if it has one.
    pub payload: Option<Bytes>,
}

/// The reason why bytes are not a packet. The sender or the wire is at fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// The bytes are not of GT.
    Magic(Vec<u8>),
    /// The packet is of another version.
    Version {
        /// The version of this program.
        ours: u32,
        /// The version of the packet.
        theirs: u32,
    },
    /// The packet is over a limit.
    Limit {
        /// The part of the packet.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The bytes are cut off, or not a packet.
    Damaged(String),
}

impl Hinted for WireError {
    fn message(&self) -> String {
        match self {
            WireError::Magic(bytes) => {
                format!("these bytes are not a gt packet: they begin with {bytes:02x?}")
            }
            WireError::Version { ours, theirs } => {
                format!("protocol version {theirs} does not match version {ours} of this program")
            }
            WireError::Limit { what, size, limit } => {
                format!("{what} of {size} is above the limit of {limit}")
            }
            WireError::Damaged(why) => format!("the packet is damaged: {why}"),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            WireError::Magic(_) => Some("does another program send to this port?".into()),
            WireError::Version { .. } => Some(SAME_VERSION.into()),
            WireError::Limit { .. } | WireError::Damaged(_) => None,
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// The frames of a packet.
///
/// # Errors
/// The packet is over a limit. The sender must split tapes and chunks before.
pub fn encode(packet: &Packet) -> Result<Frames, WireError> {
    check(packet)?;
    let mut head = Vec::with_capacity(64);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&(PROTOCOL as u16).to_le_bytes());
    let head =
        postcard::to_extend(packet, head).map_err(|error| WireError::Damaged(error.to_string()))?;
    limit_head(packet, head.len())?;
    let chunk = data(packet).and_then(Message::chunk);
    Ok(Frames { head, payload: chunk.map(|chunk| chunk.bytes.clone()) })
}

/// The packet of these frames. The caller refuses further frames.
///
/// # Errors
/// See [`WireError`].
pub fn decode(head: &[u8], payload: Option<Bytes>) -> Result<Packet, WireError> {
    limit("a packet", head.len(), MAX_HEAD)?;
    let (header, rest) =
        head.split_at_checked(HEADER).ok_or_else(|| WireError::Magic(head.to_vec()))?;
    if header[..2] != MAGIC {
        return Err(WireError::Magic(header.to_vec()));
    }
    let theirs = u32::from(u16::from_le_bytes([header[2], header[3]]));
    if theirs != PROTOCOL {
        return Err(WireError::Version { ours: PROTOCOL, theirs });
    }
    let (mut packet, left) = postcard::take_from_bytes::<Packet>(rest)
        .map_err(|error| WireError::Damaged(error.to_string()))?;
    if !left.is_empty() {
        return Err(WireError::Damaged(format!("{} bytes too many", left.len())));
    }
    match (packet.chunk_mut(), payload) {
        (Some(chunk), Some(bytes)) => chunk.bytes = bytes,
        (None, None) => (),
        (Some(_), None) => {
            return Err(WireError::Damaged("the frame of its chunk is missing".into()));
        }
        (None, Some(_)) => return Err(WireError::Damaged("it has a frame too many".into())),
    }
    check(&packet)?;
    limit_head(&packet, head.len())?;
    Ok(packet)
}

/// Limits a packet's head. A client's tape must stay below the limit after it is passed on: a tape
/// that could not be encoded for its worker would block all messages after it.
fn limit_head(packet: &Packet, size: usize) -> Result<(), WireError> {
    match data(packet) {
        Some(Message::FromClient(FromClient::Order(
            Order::Run(_) | Order::Define { .. } | Order::Launch { .. },
        ))) => limit("a tape", size, MAX_HEAD - PASSED_ON),
        _ => limit("a packet", size, MAX_HEAD),
    }
}

fn data(packet: &Packet) -> Option<&Message> {
    if let Body::Data { message, .. } = &packet.body { Some(message) } else { None }
}

fn limit(what: &'static str, size: usize, limit: usize) -> Result<(), WireError> {
    if size > limit { Err(WireError::Limit { what, size, limit }) } else { Ok(()) }
}

/// Checks the limits of a packet, in both directions.
fn check(packet: &Packet) -> Result<(), WireError> {
    match &packet.body {
        Body::Hello(hello) => {
            limit("a name", hello.identity.name.len(), MAX_TEXT)?;
            limit("a host name", hello.identity.host.len(), MAX_TEXT)?;
            let Demand { engine, device, .. } = &hello.demand;
            let mut named = engine.iter().chain(device);
            named.try_for_each(|name| limit("a name", name.len(), MAX_TEXT))
        }
        Body::Welcome(welcome) => limit("a name", welcome.name.len(), MAX_TEXT),
        Body::Bye { reason } => limit("a reason", reason.len(), MAX_TEXT),
        Body::Data { message, .. } => check_message(message, packet.stream),
        Body::Events(events) => {
            limit("a text", events.head.len(), MAX_TEXT)?;
            limit("events", events.lines.len(), MAX_EVENTS)
        }
        Body::Lane(message) => check_lane(message),
        Body::Refused(_) | Body::Status(_) | Body::Ack { .. } | Body::Ping => Ok(()),
    }
}

fn check_lane(message: &LaneMessage) -> Result<(), WireError> {
    match message {
        LaneMessage::Meet(Meeting { entries, .. }) => {
            limit("a list of entries", entries.len(), Meeting::MAX_ENTRIES)?;
            let mut sizes = entries.iter().map(|(key, value)| key.len() + value.len());
            sizes.try_for_each(|size| limit("an entry", size, Meeting::MAX_ENTRY))
        }
        LaneMessage::Piece { len, head, .. } => {
            limit("a piece's packet", head.len(), MAX_PIECE_HEAD)?;
            limit("a chunk", *len as usize, MAX_CHUNK)
        }
    }
}

fn check_message(message: &Message, stream: super::Stream) -> Result<(), WireError> {
    match message {
        Message::ToClient(ToClient::Planned(planned))
        | Message::FromWorker(FromWorker::Planned { planned, .. }) => {
            for text in [&planned.failed, &planned.retyped].into_iter().flatten() {
                limit("a reason", text.len(), MAX_TEXT)?;
            }
        }
        Message::ToClient(ToClient::Note(text) | ToClient::Warning(text))
        | Message::FromWorker(FromWorker::Note { text, .. }) => {
            limit("a note", text.len(), MAX_TEXT)?;
        }
        Message::ToClient(ToClient::Failed { error, .. })
        | Message::ToWorker(ToWorker::Order { order: Order::Fail { error, .. }, .. })
        | Message::FromClient(FromClient::Order(Order::Fail { error, .. }))
        | Message::FromWorker(FromWorker::Failed { error, .. }) => {
            limit("an error message", error.message.len(), MAX_TEXT)?;
            limit("a hint", error.hint.as_ref().map_or(0, String::len), MAX_TEXT)?;
        }
        Message::FromWorker(FromWorker::Register(capacity)) => {
            limit("a name", capacity.engine.len(), MAX_TEXT)?;
            limit("a name", capacity.device.len(), MAX_TEXT)?;
            let door = capacity.door.as_ref();
            limit("an address", door.map_or(0, |door| door.address.len()), MAX_TEXT)?;
        }
        Message::ToWorker(ToWorker::Order { order: Order::Send { to, .. }, .. })
        | Message::FromClient(FromClient::Order(Order::Send { to, .. })) => {
            limit("an address", to.door.address.len(), MAX_TEXT)?;
        }
        Message::ToWorker(ToWorker::Order { order: Order::Learn { steps, .. }, .. })
        | Message::FromClient(FromClient::Order(Order::Learn { steps, .. })) => {
            limit("a routine's parts", steps.size(), MAX_ROUTINE)?;
            for to in &steps.receivers {
                limit("an address", to.door.address.len(), MAX_TEXT)?;
            }
        }
        Message::FromWorker(FromWorker::Performed { performed, .. }) => {
            limit("a routine's values", performed.arrived.len(), MAX_ROUTINE)?;
            limit("a routine's values", performed.returned.len(), MAX_ROUTINE)?;
        }
        Message::FromClient(FromClient::Moments(moments))
        | Message::FromWorker(FromWorker::Moments(moments)) => {
            limit("a list of moments", moments.list.len(), MAX_MOMENTS)?;
        }
        Message::ToWorker(ToWorker::Open { client, .. }) => {
            limit("a name", client.len(), MAX_TEXT)?
        }
        Message::FromClient(_)
        | Message::ToClient(_)
        | Message::ToWorker(_)
        | Message::FromWorker(_)
        | Message::Parcel(_) => (),
    }
    if let Some(tape) = message.order().and_then(Order::tape) {
        limit("a tape's entries", tape.entries.len(), MAX_ENTRIES)?;
    }
    if let Some(chunk) = message.chunk() {
        limit("a chunk", chunk.bytes.len(), MAX_CHUNK)?;
        if chunk.total != chunk.ty.bytes() as u64 {
            return Err(WireError::Damaged(format!(
                "{} bytes cannot be a {}",
                chunk.total, chunk.ty
            )));
        }
        if chunk.offset.checked_add(chunk.bytes.len() as u64).is_none_or(|end| end > chunk.total) {
            return Err(WireError::Damaged("a chunk is beyond the end of its tensor".into()));
        }
    }
    // The end of a session closes both streams. Any other message has one stream.
    let both = matches!(message, Message::ToWorker(ToWorker::EndSession { .. }));
    if !both && message.stream() != stream {
        return Err(WireError::Damaged(format!(
            "its message does not belong on the {stream:?} stream"
        )));
    }
    Ok(())
}

/// A text cut to the limit of the wire.
#[must_use]
pub fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT - 3).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
