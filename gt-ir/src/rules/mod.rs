//! The functions the op table names: type rules, gradients and expansions. Nothing else in GT names
//! them.
//!
//! The first ops have theirs by kind of function (`infer`, `derive`, `grad`), later ones by
//! subject, everything about an op in one file.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod bits;
pub(crate) mod branches;
pub(crate) mod derive;
pub(crate) mod elementary;
pub(crate) mod fold;
pub(crate) mod grad;
pub(crate) mod infer;
pub(crate) mod lines;
pub(crate) mod loops;
pub(crate) mod matrices;
pub(crate) mod meet;
pub(crate) mod normal;
pub(crate) mod part;
pub(crate) mod pool;
pub(crate) mod promote;
pub(crate) mod scan;
pub(crate) mod shard;
pub(crate) mod statistic;
pub(crate) mod window;
