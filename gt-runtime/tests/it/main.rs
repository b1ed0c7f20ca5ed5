//! The runtime as users see it: the embedded system, and servers, workers and clients over real
//! sockets, each in a thread with sockets of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

#[cfg(feature = "torch")]
mod device;
mod embedded;
mod gang;
mod helping;
mod memory;
mod modifiers;
mod programs;
#[cfg(feature = "torch")]
mod reads;
mod remote;
mod replay;
