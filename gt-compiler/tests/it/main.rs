//! The native engine against the reference interpreter.

mod random;
