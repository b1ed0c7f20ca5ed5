//! Names of the parties, as they print in errors and logs: `p3` a transport endpoint, `c1` a
//! client, `s1` a session, `w1` a worker.
//!
//! A [`PeerId`] is given by the shell to whatever it can send to; the other ids are given by the
//! dispatcher, count up from 1 and are never used again. An [`Incarnation`] tells one life of a
//! peer from the next.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($int:ty) $prefix:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $int);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )* };
}

ids! {
    /// Something the shell can send packets to. Both sockets of one process (control and bulk) are
    /// one peer.
    PeerId(u64) "p";
    /// All that one client holds: its values, its tapes under way, its reads. It survives a broken
    /// connection.
    SessionId(u64) "s";
    /// A worker process (or thread, embedded) from its registration to its loss.
    WorkerId(u64) "w";
    /// A read or another question: counted by the asker, unique in its session.
    RequestId(u64) "r";
    /// One life of the connecting side of a link. Packets of both directions carry it, so those of
    /// an earlier life are told apart and dropped. Of two from one peer the greater is the later:
    /// take it from the wall clock (nanoseconds).
    Incarnation(u64) "i";
}

/// Who a peer is, for the errors and logs that name it: `s1 digits (pi, pid 123)`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Identity {
    /// A name for people: the program's, or the one a worker was given. It may be empty.
    pub name: String,
    /// Where it runs.
    pub host: String,
    /// Its process there.
    pub pid: u32,
}

/// Most characters of a name that are shown.
const MAX_SHOWN: usize = 64;

impl Identity {
    /// As others are told of it: the id it was given, its name if it has one, where it runs.
    /// Whatever the name, that is one short line.
    #[must_use]
    pub fn known_as(&self, id: impl fmt::Display) -> String {
        let plain = |c: char| if c.is_control() { '?' } else { c };
        let name: String = self.name.chars().take(MAX_SHOWN).map(plain).collect();
        if name.is_empty() { format!("{id} ({self})") } else { format!("{id} {name} ({self})") }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, pid {}", self.host, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_shown_on_one_line_with_its_name_if_it_has_one() {
        let named = |name: &str| Identity { name: name.into(), host: "pi".into(), pid: 7 };
        assert_eq!(named("").known_as(WorkerId(1)), "w1 (pi, pid 7)");
        assert_eq!(named("alpha").known_as("w1"), "w1 alpha (pi, pid 7)");
        assert_eq!(named("a\nb").known_as("s2"), "s2 a?b (pi, pid 7)");
        assert!(named(&"x".repeat(1000)).known_as("s2").len() < 100);
    }
}
