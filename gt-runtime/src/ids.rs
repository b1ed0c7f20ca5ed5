//! Numbers of parties and requests, as they print in errors and logs: `p3` is a peer, `s1` a
//! session, `w1` a worker, `r0` a request, `i1` an incarnation.
//!
//! The shell numbers peers. The dispatcher numbers sessions and workers, from 1. A client numbers
//! its requests, from 0. None of these numbers is given twice. An [`Incarnation`] distinguishes the
//! lives of one peer, and the peer chooses it.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($int:ty) $prefix:literal;)*) => { $(
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
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
    /// A receiver of packets, for the shell. Both sockets of one process (control and bulk) are one
    /// peer.
    PeerId(u64) "p";
    /// The session of one client: its values, its waiting tapes and its reads. It survives a broken
    /// connection.
    SessionId(u64) "s";
    /// A worker (a process, or a thread in the embedded system) from its connection to its loss.
    WorkerId(u64) "w";
    /// A request for a value or for statistics, unique in its session.
    RequestId(u64) "r";
    /// One life of the connecting side of a connection. Packets of both directions carry it, so
    /// packets of an earlier life are dropped. A later life of the same peer has a greater number,
    /// so the wall clock in nanoseconds serves as the number.
    Incarnation(u64) "i";
}
