//! Payloads through memory that both ends of a connection share.
//!
//! A large payload between two processes of one user on one machine does not pass through a socket,
//! which copies each byte four times in small portions. Its sender writes it into a block of a
//! [`Ring`], and the message carries the number of the block. Each end offers a ring, in its hello
//! or its welcome, and lends blocks as soon as the other end has opened the ring. A payload for
//! which no block is free goes through the socket.
//!
//! A message that is lost on its way keeps its block until the connection is closed.
//!
//! A small message of a link does not pass through a socket at all, but through the `mailbox` of
//! the ring, once both ends have opened each other's. Hellos, acknowledgements and pings pass
//! through sockets, which notice a process that has ended.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::mailbox;
use super::ring::{BLOCK, N_BLOCKS, Ring};
use super::wake::Bell;
use crate::wire::codec::{Frames, WireError};
use crate::wire::{Offer, Packet};

/// The fewest bytes of a payload for which a block is worth it.
const LEAST: usize = 32 << 10;

/// Where a payload lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Ticket {
    block: u32,
    len: u32,
}

/// The memory of one end of a connection: what it lends, and what it borrows.
#[derive(Debug, Default)]
pub struct Shared {
    own: Option<Ring>,
    /// The number of its blocks that have memory.
    n_reserved: usize,
    theirs: Option<Arc<Ring>>,
}

impl Shared {
    /// An end that offers memory, if the system has such memory.
    #[must_use]
    pub fn offering() -> Shared {
        Shared { own: Ring::new().ok(), ..Shared::default() }
    }

    /// Takes small messages, of which a thread learns by this pipe. Before the offer is made.
    #[must_use]
    pub fn with_bell(self, bell: Bell) -> Shared {
        if let Some(ring) = &self.own {
            ring.set_bell(bell);
        }
        self
    }

    /// Opens the memory that the other end offers. If that fails, the other end does not lend.
    pub fn open(&mut self, offer: Offer) {
        if self.theirs.as_ref().is_none_or(|ring| ring.offer() != offer) {
            self.theirs = Ring::open(offer).ok().map(Arc::new);
        }
    }

    /// How the other end opens the memory of this end.
    #[must_use]
    pub fn offer(&self) -> Option<Offer> {
        self.own.as_ref().map(Ring::offer)
    }

    /// The number of its blocks that have been used.
    #[cfg(test)]
    pub(super) fn n_blocks(&self) -> usize {
        self.n_reserved
    }

    /// Sends a small message of a link. False if it goes through the socket.
    pub(super) fn put(&self, frames: &Frames) -> bool {
        let ends = self.own.as_ref().filter(|own| own.is_opened()).zip(self.theirs.as_ref());
        ends.is_some_and(|(own, theirs)| mailbox::put(own, theirs, frames))
    }

    /// Takes the next small message of the other end. If its memory makes no sense, it is closed.
    ///
    /// # Errors
    /// The memory makes no sense.
    pub(super) fn take(&mut self) -> Result<Option<Frames>, WireError> {
        let Some(theirs) = &self.theirs else { return Ok(None) };
        mailbox::take(theirs).map_err(|mailbox::Nonsense| {
            self.theirs = None;
            WireError::Damaged("its mailbox has wrong lengths".into())
        })
    }

    /// Lends a payload. None if it goes through the socket: it is small, or no block is free.
    pub(super) fn lend(&mut self, payload: &[u8]) -> Option<Lent<'_>> {
        if !(LEAST..=BLOCK).contains(&payload.len()) {
            return None;
        }
        let ring = self.own.as_ref().filter(|ring| ring.is_opened())?;
        // The blocks that were used last are in the caches, so the first free one is taken.
        let free = (0..self.n_reserved).find(|&block| ring.is_free(block));
        let block = match free {
            Some(block) => block,
            None if self.n_reserved < N_BLOCKS => {
                ring.reserve(self.n_reserved).ok()?;
                self.n_reserved += 1;
                self.n_reserved - 1
            }
            None => return None,
        };
        let ticket =
            Ticket { block: u32::try_from(block).ok()?, len: u32::try_from(payload.len()).ok()? };
        let ticket = postcard::to_allocvec(&ticket).ok()?;
        ring.lend(block, payload);
        Some(Lent { ring, block, ticket })
    }

    /// The payload of a ticket.
    ///
    /// # Errors
    /// The bytes are no ticket, or no memory is open.
    pub(super) fn borrow(&self, ticket: &[u8]) -> Result<Bytes, WireError> {
        let damaged = |why: String| WireError::Damaged(format!("its shared memory: {why}"));
        let Ticket { block, len } =
            postcard::from_bytes(ticket).map_err(|why| damaged(why.to_string()))?;
        let ring = self.theirs.clone().ok_or_else(|| damaged("none is open".into()))?;
        let (block, len) = (block as usize, len as usize);
        if ring.bytes(block, len).is_none() {
            return Err(damaged("there is no such block".into()));
        }
        Ok(Bytes::from_owner(Loan { ring, block, len }))
    }
}

/// A block that is lent, and the frame that tells so.
pub(super) struct Lent<'a> {
    ring: &'a Ring,
    block: usize,
    pub(super) ticket: Vec<u8>,
}

impl Lent<'_> {
    /// Takes it back, because the message was not sent.
    pub(super) fn take_back(self) {
        self.ring.free(self.block);
    }
}

/// A block in use. It is free again when the last slice of it is dropped.
struct Loan {
    ring: Arc<Ring>,
    block: usize,
    len: usize,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        self.ring.bytes(self.block, self.len).unwrap_or_default()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.ring.free(self.block);
    }
}

/// Copies a borrowed payload that is a whole value. Its receiver may keep it for long, and its
/// block is needed again.
pub(super) fn keep_whole(packet: &mut Packet) {
    if let Some(chunk) = packet.chunk_mut()
        && chunk.bytes.len() as u64 == chunk.total
    {
        chunk.bytes = Bytes::copy_from_slice(&chunk.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Shared, Shared) {
        let (mut one, mut other) = (Shared::offering(), Shared::offering());
        one.open(other.offer().unwrap());
        other.open(one.offer().unwrap());
        (one, other)
    }

    #[test]
    fn payloads_arrive_and_blocks_are_used_again() {
        let (mut one, mut other) = pair();
        for i in 0..3 * N_BLOCKS {
            let payload = vec![i as u8; LEAST + i];
            let ticket = one.lend(&payload).unwrap().ticket;
            assert_eq!(other.borrow(&ticket).unwrap(), payload);
            let ticket = other.lend(&payload).unwrap().ticket;
            assert_eq!(one.borrow(&ticket).unwrap(), payload);
        }
        assert_eq!((one.n_reserved, other.n_reserved), (1, 1));
    }

    #[test]
    fn a_payload_without_a_free_block_is_not_lent() {
        let (mut one, other) = pair();
        let payload = vec![1; BLOCK];
        let lend = |one: &mut Shared| one.lend(&payload).map(|lent| lent.ticket);
        let held: Vec<Bytes> =
            (0..N_BLOCKS).map(|_| other.borrow(&lend(&mut one).unwrap()).unwrap()).collect();
        assert!(lend(&mut one).is_none());
        let slice = held[7].slice(5..9);
        drop(held);
        let n_free = std::iter::from_fn(|| lend(&mut one)).count();
        assert_eq!(n_free, N_BLOCKS - 1);
        assert_eq!(slice, [1, 1, 1, 1][..]);
        drop(slice);
        assert!(lend(&mut one).is_some());
        assert!(one.lend(&payload[1..LEAST]).is_none());
    }

    #[test]
    fn a_block_of_a_message_that_was_not_sent_is_free() {
        let (mut one, _other) = pair();
        for _ in 0..3 * N_BLOCKS {
            one.lend(&[0; LEAST]).unwrap().take_back();
        }
    }

    #[test]
    fn nothing_is_lent_before_the_other_end_has_opened_the_memory() {
        let (mut one, mut other) = (Shared::offering(), Shared::offering());
        assert!(one.lend(&[0; LEAST]).is_none());
        assert!(other.borrow(b"").is_err());
        let offer = one.offer().unwrap();
        let key = offer.key.map(|byte| !byte);
        for bad in
            [Offer { key, ..offer }, Offer { fd: 0, ..offer }, Offer { pid: u32::MAX, ..offer }]
        {
            other.open(bad);
            assert!(one.lend(&[0; LEAST]).is_none(), "{bad:?}");
        }
        other.open(offer);
        assert!(one.lend(&[0; LEAST]).is_some());
    }

    #[test]
    fn a_ticket_of_no_block_is_refused() {
        let (mut one, other) = pair();
        let bytes = |ticket: Ticket| postcard::to_allocvec(&ticket).unwrap();
        drop(one.lend(&[0; LEAST]));
        let ticket = Ticket { block: 0, len: LEAST as u32 };
        for bad in [
            Ticket { block: 1, ..ticket },
            Ticket { block: u32::MAX, ..ticket },
            Ticket { len: u32::MAX, ..ticket },
        ] {
            assert!(other.borrow(&bytes(bad)).is_err(), "{bad:?}");
        }
        assert!(other.borrow(b"no ticket").is_err());
        assert!(other.borrow(&bytes(ticket)).is_ok());
    }
}
