//! Nothing but dependencies, with the features that the whole workspace gives them.
//!
//! Cargo compiles a crate once for each choice of its features, and all that depends on it, too.
//! What is built apart from the workspace, as `xtask` and the package of `tests/dependent` are,
//! depends on this package and so shares what the tests have compiled.
