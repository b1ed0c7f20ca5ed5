//! Small messages through memory that two processes share: one writes them, the other reads them.
//!
//! A message through a socket wakes two threads of libzmq on its way. A message through a mailbox
//! wakes its reader only, by a pipe, and only if the reader has read all messages before. A message
//! for which there is no room goes through the socket, so messages may overtake each other; links
//! put them in order.
//!
//! A letter is the lengths of head and payload and their bytes, up to a multiple of 8 bytes. The
//! payload of a message without one has the length `NONE`. Lengths of a faulty writer are an error,
//! and end the mailbox.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::ring::{MAILBOX, Ring, Word};
use crate::wire::codec::Frames;

/// The most bytes of a letter.
const MOST: usize = 4 << 10;
/// The bytes of the lengths.
const LENGTHS: usize = 8;
const NONE: u32 = u32::MAX;

/// The bytes in a mailbox make no sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

/// Puts a message into the mailbox of `own` memory, and wakes the process of the other memory. Says
/// whether there was room.
pub(super) fn put(own: &Ring, theirs: &Ring, Frames { head, payload }: &Frames) -> bool {
    let Some(mut bell) = theirs.bell() else { return false };
    let body = payload.as_deref().unwrap_or_default();
    let len = LENGTHS + head.len() + body.len();
    let written = own.mailbox(Word::Written).load(Ordering::Relaxed);
    let used = written.wrapping_sub(own.mailbox(Word::Read).load(Ordering::Acquire)) as usize;
    if len > MOST || MAILBOX.saturating_sub(used) < whole(len) {
        return false;
    }
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(NONE);
    let lengths = lengths(size(head), payload.as_deref().map_or(NONE, size));
    let mut at = written;
    for part in [&lengths[..], head, body] {
        let place = at as usize % MAILBOX;
        let (until, from) = part.split_at(part.len().min(MAILBOX - place));
        own.write(place, until);
        own.write(0, from);
        at = at.wrapping_add(size(part));
    }
    let end = written.wrapping_add(whole(len) as u32);
    own.mailbox(Word::Written).store(end, Ordering::Release);
    if own.mailbox(Word::Rung).swap(1, Ordering::AcqRel) == 0 {
        // A full pipe wakes as well.
        let _ = bell.write(&[1]);
    }
    true
}

/// Takes the next message out of the mailbox of the other process's memory.
pub(super) fn take(theirs: &Ring) -> Result<Option<Frames>, Nonsense> {
    let rung = theirs.mailbox(Word::Rung);
    loop {
        let next = next(theirs)?;
        // The writer wakes this process again from here on.
        if next.is_some() || rung.load(Ordering::Acquire) == 0 {
            return Ok(next);
        }
        rung.swap(0, Ordering::AcqRel);
    }
}

fn next(theirs: &Ring) -> Result<Option<Frames>, Nonsense> {
    let read = theirs.mailbox(Word::Read);
    let at = read.load(Ordering::Relaxed);
    let there = theirs.mailbox(Word::Written).load(Ordering::Acquire).wrapping_sub(at) as usize;
    if there == 0 {
        return Ok(None);
    }
    let [mut head, mut body] = [[0; 4]; 2];
    copy(theirs, at, &mut head);
    copy(theirs, at.wrapping_add(4), &mut body);
    let [head, body] = [head, body].map(u32::from_le_bytes);
    let (n_head, n_body) = (head as usize, if body == NONE { 0 } else { body as usize });
    let len = LENGTHS.saturating_add(n_head).saturating_add(n_body);
    if len > MOST || whole(len) > there || there > MAILBOX {
        return Err(Nonsense);
    }
    let mut bytes = vec![0; n_head + n_body];
    copy(theirs, at.wrapping_add(LENGTHS as u32), &mut bytes);
    read.store(at.wrapping_add(whole(len) as u32), Ordering::Release);
    let payload = (body != NONE).then(|| Bytes::from(bytes.split_off(n_head)));
    Ok(Some(Frames { head: bytes, payload }))
}

fn lengths(head: u32, body: u32) -> [u8; LENGTHS] {
    (u64::from(head) | u64::from(body) << 32).to_le_bytes()
}

/// Reads bytes that may go over the end of the mailbox.
fn copy(theirs: &Ring, at: u32, bytes: &mut [u8]) {
    let place = at as usize % MAILBOX;
    let (until, from) = bytes.split_at_mut(bytes.len().min(MAILBOX - place));
    theirs.read(place, until);
    theirs.read(0, from);
}

/// The bytes that a letter takes.
fn whole(len: usize) -> usize {
    len.next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmq::wake::{Wakeups, wake_pair};

    /// The memory of two ends as each of them sees it, and how the second one is woken.
    fn pair() -> ([Ring; 2], [Ring; 2], Wakeups) {
        let (_waker, wakeups) = wake_pair().unwrap();
        let own = [Ring::new().unwrap(), Ring::new().unwrap()];
        own[1].set_bell(wakeups.bell());
        let theirs = [1, 0].map(|other: usize| Ring::open(own[other].offer()).unwrap());
        (own, theirs, wakeups)
    }

    fn frames(n: usize) -> Frames {
        let payload = (!n.is_multiple_of(3)).then(|| Bytes::from(vec![n as u8; n % 1000]));
        Frames { head: vec![!n as u8; n * 7 % 2000], payload }
    }

    fn is_awake(wakeups: &Wakeups) -> bool {
        let mut item =
            [::zmq::PollItem::from_fd(std::os::fd::AsRawFd::as_raw_fd(wakeups), ::zmq::POLLIN)];
        ::zmq::poll(&mut item, 0).unwrap() == 1
    }

    #[test]
    fn messages_arrive_whole_and_in_order_also_over_the_end() {
        let ([one, _], [other, seen], _wakeups) = pair();
        let (mut n_put, mut n_taken) = (0, 0);
        for round in 0..2_000 {
            while put(&one, &other, &frames(n_put)) {
                n_put += 1;
            }
            for _ in 0..round % 17 {
                let Some(got) = take(&seen).unwrap() else { break };
                assert_eq!(got, frames(n_taken));
                n_taken += 1;
            }
        }
        assert!(n_taken > 10_000 && n_put > n_taken);
    }

    #[test]
    fn the_reader_is_woken_once_until_it_has_read_all() {
        let ([one, _], [other, seen], wakeups) = pair();
        for round in 0..3 {
            assert!(!is_awake(&wakeups) && take(&seen).unwrap().is_none());
            for n in 0..3 {
                assert!(put(&one, &other, &frames(n)));
                assert_eq!(is_awake(&wakeups), n == 0, "{round} {n}");
                wakeups.clear(true);
            }
            (0..3).for_each(|n| assert_eq!(take(&seen).unwrap(), Some(frames(n))));
        }
    }

    #[test]
    fn a_letter_that_is_too_long_or_has_no_room_is_not_put() {
        let ([one, two], [other, seen], _wakeups) = pair();
        let long = |n| Frames { head: vec![0; n], payload: None };
        assert!(!put(&one, &other, &long(MOST - LENGTHS + 1)));
        let n =
            std::iter::from_fn(|| put(&one, &other, &long(MOST - LENGTHS)).then_some(())).count();
        assert_eq!(n, MAILBOX / MOST);
        assert!(take(&seen).unwrap().is_some() && put(&one, &other, &long(1)));
        assert!(!put(&two, &seen, &long(1)), "the first end has no bell");
    }

    #[test]
    fn nonsense_is_an_error() {
        let ([one, _], [other, seen], _wakeups) = pair();
        for (head, body) in [(u32::MAX, 0), (0, 1 << 20), (MOST as u32, 0), (100, NONE)] {
            assert!(put(&one, &other, &Frames { head: vec![0; 16], payload: None }));
            one.write(0, &lengths(head, body));
            assert_eq!(take(&seen), Err(Nonsense), "{head} {body}");
            one.mailbox(Word::Written).store(0, Ordering::Release);
        }
        one.mailbox(Word::Written).store(MAILBOX as u32 + 8, Ordering::Release);
        one.write(0, &[0; 8]);
        assert_eq!(take(&seen), Err(Nonsense));
    }
}
