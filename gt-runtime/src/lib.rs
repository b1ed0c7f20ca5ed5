//! GT's runtime: the wire protocol, the dispatcher, workers and clients, in one process or in many.
//!
//! Pure state machines ([`link`], [`connection`], [`dispatcher`]) take the time and packets as
//! arguments and return packets. Thin shells around them own sockets, threads and the clock. The
//! embedded and the remote system share the state machines.

mod allowance;
pub mod assembly;
pub mod choice;
pub mod client;
pub mod clock;
pub mod connection;
pub mod dispatcher;
pub mod doors;
pub mod embedded;
mod footprint;
pub mod identity;
pub mod ids;
pub mod link;
pub mod log;
pub mod machine;
pub mod modifier;
pub mod priority;
pub mod profile;
pub mod server;
mod shutdown;
#[cfg(test)]
mod sim;
pub mod slot;
pub mod status;
#[doc(hidden)]
pub mod testing;
pub mod tier;
pub mod tracing;
pub mod wire;
pub mod worker;
pub mod zmq;

pub use shutdown::Shutdown;
