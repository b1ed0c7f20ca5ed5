//! Plans: the layout of each value and the way to compute each instruction, by the least cost of a
//! whole segment.
//!
//! The walk of the partitioner notes the instructions with the ways that their factors allow
//! (`problem`). Repeated blocks are decided once (`fold`). A factor graph of what instructions and
//! changes of layout cost (`planner`) is solved by message passing (`solve`).
//!
//! Does not: walk a segment, or judge a plan by the time that all members take.

mod decided;
mod fold;
mod planner;
mod problem;
mod solve;

pub(super) use decided::Plan;
pub(super) use planner::{Freedom, Planner};
pub(super) use problem::{MAX_WAYS, Problem};
