//! Encryption of the frames of packets, with AES-256-GCM.
//!
//! Each direction has a key, and each stream counts its packets. A packet's number, which is sent
//! in clear, its stream and its frame make the nonce, so no nonce comes twice. Packets may be lost
//! and may arrive in another order. A packet that was taken, or is far behind, is not taken again.

use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::frame::{SEALED, sealed_header};
use crate::wire::Stream;
use crate::wire::codec::Frames;

/// The bytes by which a sealed frame is longer than its content.
const TAG: usize = 16;

/// The frames of a packet that may be sealed with one number.
#[derive(Clone, Copy)]
enum Part {
    Head = 0,
    Payload = 1,
    /// The answer to a handshake, which has no number and no stream.
    Verdict = 2,
}

/// The frames of a message as they arrive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// The first frame.
    pub head: Bytes,
    /// The second frame, if there is one.
    pub payload: Option<Bytes>,
}

impl From<Frames> for Sealed {
    fn from(frames: Frames) -> Self {
        Sealed { head: frames.head.into(), payload: frames.payload }
    }
}

/// The two directions of one connection.
pub(super) struct Seals {
    sends: LessSafeKey,
    receives: LessSafeKey,
    /// The number of the next packet of each stream.
    next: [u64; 2],
    seen: [Window; 2],
}

impl Seals {
    /// The seals of the side that sends with the first key.
    pub(super) fn new(sends: &[u8; 32], receives: &[u8; 32]) -> Seals {
        let (sends, receives) = (key(sends), key(receives));
        Seals { sends, receives, next: [0; 2], seen: Default::default() }
    }

    /// Seals the frames of a packet.
    pub(super) fn seal(&mut self, stream: Stream, frames: &Frames) -> Frames {
        let n = self.next[stream as usize];
        self.next[stream as usize] += 1;
        let header = sealed_header(n);
        let close = |part, start: &[u8], content: &[u8]| {
            seal(&self.sends, nonce(stream, part, n), &header, start, content)
        };
        let head = close(Part::Head, &header, &frames.head);
        let payload = frames.payload.as_ref();
        Frames { head, payload: payload.map(|content| close(Part::Payload, &[], content).into()) }
    }

    /// Opens the frames of a packet. None if they were not sealed by the other side, or were taken
    /// before.
    pub(super) fn open(&mut self, stream: Stream, sealed: impl Into<Sealed>) -> Option<Frames> {
        let sealed = sealed.into();
        let (header, body) = sealed.head.split_at_checked(SEALED)?;
        let n = u64::from_le_bytes(header.last_chunk().copied()?);
        let window = &mut self.seen[stream as usize];
        if !window.is_new(n) {
            return None;
        }
        let unseal = |part, content: &[u8]| {
            open(&self.receives, nonce(stream, part, n), header, content.to_vec())
        };
        let head = unseal(Part::Head, body)?;
        let payload = match sealed.payload {
            Some(content) => Some(Bytes::from(unseal(Part::Payload, &content)?)),
            None => None,
        };
        window.note(n);
        Some(Frames { head, payload })
    }

    /// Seals the answer to a handshake. It is made once for each connection.
    pub(super) fn verdict(&self, bits: u8) -> Vec<u8> {
        seal(&self.sends, nonce(Stream::Control, Part::Verdict, 0), &[], &[], &[bits])
    }

    /// The answer of the other side to a handshake.
    pub(super) fn read_verdict(&self, sealed: &[u8]) -> Option<u8> {
        let nonce = nonce(Stream::Control, Part::Verdict, 0);
        open(&self.receives, nonce, &[], sealed.to_vec())?.first().copied()
    }
}

fn key(bytes: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).expect("the key has the cipher's length"))
}

fn nonce(stream: Stream, part: Part, n: u64) -> Nonce {
    let mut bytes = [0; 12];
    (bytes[0], bytes[1]) = (stream as u8, part as u8);
    bytes[4..].copy_from_slice(&n.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// `start`, and behind it the sealed content. The header is authenticated with it.
fn seal(key: &LessSafeKey, nonce: Nonce, header: &[u8], start: &[u8], content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(start.len() + content.len() + TAG);
    frame.extend_from_slice(start);
    frame.extend_from_slice(content);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut frame[start.len()..]);
    frame.extend_from_slice(tag.expect("a frame is below the cipher's limit").as_ref());
    frame
}

fn open(key: &LessSafeKey, nonce: Nonce, header: &[u8], mut frame: Vec<u8>) -> Option<Vec<u8>> {
    let n_bytes = key.open_in_place(nonce, Aad::from(header), &mut frame).ok()?.len();
    frame.truncate(n_bytes);
    Some(frame)
}

/// The numbers that were taken: everything below the last 64, and some of these.
#[derive(Default)]
struct Window {
    /// One above the highest number taken.
    above: u64,
    /// The bit `i` stands for the number `above - 1 - i`.
    taken: u64,
}

impl Window {
    fn is_new(&self, n: u64) -> bool {
        match self.above.checked_sub(n) {
            None | Some(0) => n < u64::MAX,
            Some(behind) => behind <= 64 && self.taken >> (behind - 1) & 1 == 0,
        }
    }

    fn note(&mut self, n: u64) {
        if n >= self.above {
            let by = u32::try_from(n + 1 - self.above).unwrap_or(u32::MAX);
            self.taken = self.taken.checked_shl(by).unwrap_or(0);
            self.above = n + 1;
        }
        self.taken |= 1 << (self.above - 1 - n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Seals, Seals) {
        (Seals::new(&[1; 32], &[2; 32]), Seals::new(&[2; 32], &[1; 32]))
    }

    #[test]
    fn what_is_sealed_opens_once_and_only_whole() {
        let (mut a, mut b) = pair();
        let frames =
            Frames { head: b"head".to_vec(), payload: Some(Bytes::from(vec![7; 1 << 20])) };
        for stream in [Stream::Control, Stream::Bulk] {
            let sealed = a.seal(stream, &frames);
            for byte in [0, 8, SEALED, sealed.head.len() - 1] {
                let mut changed = sealed.clone();
                changed.head[byte] ^= 1;
                assert_eq!(b.open(stream, changed), None, "{byte}");
            }
            let cut = Frames { head: sealed.head.clone(), payload: Some(Bytes::from_static(b"x")) };
            assert_eq!(b.open(stream, cut), None);
            assert_eq!(b.open(stream, sealed.clone()).as_ref(), Some(&frames));
            assert_eq!(b.open(stream, sealed), None, "a packet was taken twice");
        }
        let sealed = a.seal(Stream::Control, &frames);
        assert_eq!(b.open(Stream::Bulk, sealed), None, "a packet changed its stream");
    }

    #[test]
    fn packets_may_be_lost_and_reordered() {
        let (mut a, mut b) = pair();
        let frames = Frames { head: vec![1], payload: None };
        let mut sealed: Vec<_> = (0..200).map(|_| a.seal(Stream::Control, &frames)).collect();
        let last = sealed.pop().unwrap();
        assert!(b.open(Stream::Control, last).is_some());
        for (n, packet) in sealed.into_iter().enumerate() {
            assert_eq!(b.open(Stream::Control, packet).is_some(), n >= 199 + 1 - 64, "{n}");
        }
        assert!(b.open(Stream::Control, a.seal(Stream::Control, &frames)).is_some());
    }

    #[test]
    fn the_window_takes_each_number_once_up_to_the_last() {
        let mut window = Window::default();
        for (n, new) in [(0, true), (0, false), (5, true), (3, true), (3, false), (5, false)] {
            assert_eq!(window.is_new(n), new, "{n}");
            if new {
                window.note(n);
            }
        }
        window.note(u64::MAX - 1);
        assert!(!window.is_new(u64::MAX) && !window.is_new(5));
    }
}
