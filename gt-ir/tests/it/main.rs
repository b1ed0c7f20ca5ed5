//! Tests of the crate from outside: properties over random tapes, hostile input, and filetests.

mod filetests;
mod hostile;
mod properties;
mod reads;
mod recorded;
