//! The chapters of the user guide, `docs/guide`: their code blocks are documentation tests of this
//! crate.
//!
//! Guarantees: every chapter is listed (`cargo xtask tidy` compares), so every block is compiled
//! and run by `cargo test`.

macro_rules! chapters {
    ($($name:ident: $file:literal,)*) => {$(
        #[doc = include_str!(concat!("../docs/guide/src/", $file))]
        mod $name {}
    )*};
}

chapters! {
    introduction: "introduction.md",
    quick_start: "quick-start.md",
    tensors: "tensors.md",
    indexing: "indexing.md",
    shapes: "shapes.md",
    autograd: "autograd.md",
    linear_algebra: "linear-algebra.md",
    models: "models.md",
    training: "training.md",
    data: "data.md",
    files: "files.md",
    sessions: "sessions.md",
    neighbours: "neighbours.md",
    operating: "operating.md",
    monitoring: "monitoring.md",
    engines: "engines.md",
    signals: "signals.md",
    parallel: "parallel.md",
    performance: "performance.md",
    tuning: "tuning.md",
    debugging: "debugging.md",
    profiling: "profiling.md",
    troubleshooting: "troubleshooting.md",
    glossary: "glossary.md",
    pytorch: "pytorch.md",
    settings: "settings.md",
}
