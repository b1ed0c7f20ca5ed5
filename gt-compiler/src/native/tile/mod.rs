//! Tiles: pieces of a plan that run together, a few rows at a time, so that what they hand each
//! other stays in the caches.
//!
//! A tile's stages run one after the other over the same small range of rows; a value only they
//! need lives in scratch memory of the thread, the size of one such range. Softmax, normalization,
//! their gradients, products with what follows them, attention and an optimizer's step are tiles of
//! a few stages each. Which pieces share a tile, how rows are cut and which kernels merge changes
//! no bit of any result.

#[cfg(feature = "torch")]
mod affine;
mod build;
#[cfg(feature = "torch")]
mod formula;
mod group;
#[cfg(feature = "torch")]
mod launch;
mod merge;
mod rows;

#[cfg(feature = "torch")]
pub(crate) use affine::{Activation, Affine};
pub(super) use build::{Setting, tile};
pub(super) use group::{Group, cuts, group, is_whole};
#[cfg(feature = "torch")]
pub(crate) use launch::{Joint, Launch, Part, Slot, Way, launches};
