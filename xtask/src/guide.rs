//! The user guide: `docs/guide` as HTML. A separate program builds it (`xtask/guide`), so that no
//! ordinary build needs mdBook.

use anyhow::Result;

use crate::shell::{cargo, root, target_folder};

/// The package of the builder.
pub(crate) const PACKAGE: &str = "xtask/guide/Cargo.toml";

/// Builds the book into `target/guide`. A broken link is an error. `cargo test` tests the code of
/// the chapters.
pub(crate) fn guide() -> Result<()> {
    let (root, tool, book) =
        (root(), target_folder().join("guide-tool"), target_folder().join("guide"));
    let tool = ["--quiet", "--manifest-path", PACKAGE, "--target-dir", &tool.to_string_lossy()];
    cargo(&["test"]).args(&tool).run()?;
    let folders = [&*root.to_string_lossy(), &*book.to_string_lossy()];
    cargo(&["run"]).args(&tool).args(&["--"]).args(&folders).run()?;
    println!("{}", book.join("index.html").display());
    Ok(())
}
