//! The attribute of a choice between two functions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Body, text};
use crate::{attr::Attr, dtype::DType};

/// A choice between two bodies, which take the same arguments and give results of the same types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cond {
    /// The dtype of the results that are given; see [`Scan::dtype`](super::Scan::dtype).
    pub dtype: DType,
    /// What is computed where the condition is true.
    pub on_true: Body,
    /// What is computed where the condition is false.
    pub on_false: Body,
}

impl Cond {
    /// The instructions of both bodies, and the choice.
    pub fn work(&self) -> usize {
        self.on_true.work().saturating_add(self.on_false.work()).saturating_add(1)
    }
}

/// `cond[f32|neg(a0)|v0|else|a0]`: the dtype, then the bodies.
impl Attr for Cond {
    const SYNTAX: &'static str = "dtype|body|else|body";
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}|{}|{}", self.dtype, self.on_true, text::ELSE, self.on_false)
    }
    fn parse(s: &str) -> Option<Self> {
        let (dtype, bodies) = s.split_once('|')?;
        let (on_true, on_false) = text::halves(bodies)?;
        Some(Cond {
            dtype: dtype.parse().ok()?,
            on_true: on_true.parse().ok()?,
            on_false: on_false.parse().ok()?,
        })
    }
}
