//! How the two ends of a lane find each other, and find out who the other one is.
//!
//! The library that connects them leaves its addresses in a store. This store is the road: an end
//! says what it has when it needs what the other end has. Then each end shows over the lane that it
//! knows the key of the door: it signs a number that the other end has just made.

use std::sync::mpsc::Receiver;

use bytes::Bytes;
use gt_compiler::torch::lane::{End, Lane, Store};
use ring::hmac::{self, HMAC_SHA256, Key};

use super::failure::Failure;
use crate::doors::{derive, random};
use crate::wire::Meeting;
use crate::worker::siblings::SILENCE;

/// The tag of the proofs, and their size.
const PROOF: (u32, usize) = (0, 32);

/// The store of a lane.
pub(super) struct Meet<'a> {
    say: &'a dyn Fn(Meeting),
    nonce: [u8; 32],
    ours: Vec<(String, Vec<u8>)>,
    /// What the other end has said.
    given: Option<Meeting>,
    theirs: Receiver<Meeting>,
    said: bool,
}

impl<'a> Meet<'a> {
    /// A store that says by `say` what this end has. What the other end has is given, or else comes
    /// from `theirs`.
    pub(super) fn new(
        say: &'a dyn Fn(Meeting),
        given: Option<Meeting>,
        theirs: Receiver<Meeting>,
    ) -> Meet<'a> {
        Meet { say, nonce: random(), ours: Vec::new(), given, theirs, said: false }
    }

    /// Shows that this end knows the door's key, and that the other end does.
    pub(super) fn prove(&self, lane: &Lane, end: End, key: &[u8; 16]) -> Result<(), Failure> {
        let theirs = self.given.as_ref().ok_or(Failure::Proof)?.nonce;
        let key = Key::new(HMAC_SHA256, &derive("gt lane", key));
        let (tag, len) = PROOF;
        let mine = hmac::sign(&key, &claim(end, &theirs, &self.nonce));
        let sending = lane.send(Bytes::copy_from_slice(mine.as_ref()), tag)?;
        let got = lane.receive(len, tag)?.wait(SILENCE)?;
        let other = if end == End::First { End::Second } else { End::First };
        let claimed = claim(other, &self.nonce, &theirs);
        hmac::verify(&key, &claimed, &got).map_err(|_| Failure::Proof)?;
        Ok(sending.wait(SILENCE)?)
    }
}

impl Store for Meet<'_> {
    fn set(&mut self, key: &str, value: &[u8]) -> bool {
        let fits = self.ours.len() < Meeting::MAX_ENTRIES
            && key.len() + value.len() <= Meeting::MAX_ENTRY
            && !self.said;
        if fits {
            self.ours.push((key.to_owned(), value.to_vec()));
        }
        fits
    }

    fn get(&mut self, key: &str) -> Option<&[u8]> {
        let own = self.ours.iter().position(|(own, _)| own == key);
        if let Some(own) = own {
            return self.ours.get(own).map(|(_, value)| &**value);
        }
        if !self.said {
            self.said = true;
            let meeting = Meeting { nonce: self.nonce, entries: self.ours.clone() };
            (self.say)(meeting);
        }
        if self.given.is_none() {
            self.given = self.theirs.recv_timeout(SILENCE).ok();
        }
        let mut entries = self.given.iter().flat_map(|meeting| &meeting.entries);
        entries.find(|(theirs, _)| theirs == key).map(|(_, value)| &**value)
    }
}

/// What an end signs: which end it is, the number that the other end has made, and its own.
fn claim(end: End, challenge: &[u8; 32], own: &[u8; 32]) -> [u8; 65] {
    let mut claim = [u8::from(end == End::Second); 65];
    claim[1..33].copy_from_slice(challenge);
    claim[33..].copy_from_slice(own);
    claim
}
