//! The dispatcher: a pure state machine between clients and workers. It does no I/O, reads no clock and draws no random number.

pub mod action;
pub mod event;

pub use action::{Action, Note, Party, Report, Way};
pub use event::Event;
