//! The functions the op table names: type rules, gradients and expansions. Nothing else in GT names them.

pub(crate) mod derive;
pub(crate) mod grad;
pub(crate) mod infer;
pub(crate) mod promote;
