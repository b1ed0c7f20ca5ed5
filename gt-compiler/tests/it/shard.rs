//! Members together compute what one worker computes: random programs, and each row of the op table
//! in each layout.

mod buckets;
mod members;
mod memory;
mod pinned;
mod random;
mod rows;
mod turns;
