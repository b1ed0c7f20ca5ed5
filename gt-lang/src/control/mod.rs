//! Loops and branches that are recorded once: [`scan`], [`scan_reverse`], [`fori_loop`],
//! [`while_loop`] and [`cond`], as `jax.lax` has them.
//!
//! Guarantees: the results and the gradients are those of the same loop or branch written in Rust.
//! A program of thousands of rounds records one instruction in place of thousands, forwards and
//! backwards, and sends as much less.
//!
//! A function is called once, on stand-ins, and its instructions become the body of the loop or of
//! the branch. What it computes of neither a carried value nor a slice is computed once, before.
//! Where a body cannot say what the function does (it draws random numbers, stops gradients, or has
//! gradients written by hand), and where all rounds have more than 65,536 instructions, the rounds
//! are recorded one by one, and so are both branches. Does not: leave out the branch that is not
//! taken, which Rust's own `if` on a value that is read does.

mod cond;
mod scan;
mod traced;
mod while_loop;

pub use cond::cond;
pub use scan::{Round, fori_loop, scan, scan_reverse};
pub use while_loop::{while_loop, while_loop_at_most};

#[cfg(test)]
mod tests;
