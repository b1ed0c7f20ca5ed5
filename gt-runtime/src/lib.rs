//! GT's runtime: the wire protocol, the dispatcher, workers and clients, in one process or in many.
//!
//! Pure state machines ([`link`], [`connection`], [`dispatcher`]) take the time and packets as
//! arguments and return packets. Thin shells around them own sockets, threads and the clock. The
//! embedded and the remote system share the state machines. Everything that goes over sockets needs
//! the feature `cluster`, which is on by default.
#![cfg_attr(
    not(feature = "cluster"),
    expect(dead_code, reason = "the little that only sockets use stays beside what it belongs to")
)]

#[cfg(feature = "cluster")]
mod allowance;
pub mod assembly;
mod capture;
pub mod choice;
pub mod client;
pub mod clock;
pub mod connection;
pub mod dispatcher;
#[cfg(feature = "cluster")]
pub mod doors;
pub mod embedded;
mod footprint;
pub mod identity;
pub mod ids;
pub mod link;
pub mod log;
pub mod machine;
mod messages;
pub mod modifier;
pub mod priority;
pub mod profile;
pub mod roles;
#[cfg(feature = "cluster")]
pub mod server;
#[cfg(feature = "cluster")]
mod shutdown;
#[cfg(test)]
mod sim;
pub mod slot;
#[cfg(feature = "otel")]
pub mod spans;
#[cfg(not(feature = "otel"))]
mod spans;
#[cfg(feature = "cluster")]
pub mod status;
#[doc(hidden)]
pub mod testing;
pub mod tier;
#[cfg(feature = "cluster")]
pub mod tracing;
pub mod wire;
mod words;
pub mod worker;
#[cfg(feature = "cluster")]
pub mod zmq;

#[cfg(feature = "cluster")]
pub use shutdown::Shutdown;
