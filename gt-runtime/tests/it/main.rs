//! The runtime as its users meet it: the embedded system, and servers, workers and clients over real sockets, each side in a
//! thread with sockets of its own.

mod embedded;
mod programs;
mod remote;
