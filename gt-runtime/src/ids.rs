//! Numbers of parties and questions, as they print in errors and logs: `p3` is a peer, `s1` a
//! session, `w1` a worker, `r0` a question, `i1` an incarnation.
//!
//! The shell numbers peers: whatever it can send to. The dispatcher numbers sessions and workers,
//! from 1. A client numbers its questions, from 0. None of these numbers is given twice. An
//! [`Incarnation`] tells one life of a peer from the next, and its peer chooses it.

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
