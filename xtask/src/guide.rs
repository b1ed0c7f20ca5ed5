//! The user guide: `docs/guide` as HTML. A separate program builds it (`xtask/guide`), so that no
//! ordinary build needs mdBook.

use anyhow::Result;
use clap::Args;

use crate::shell::{cargo, root, target_folder};

/// The package of the builder.
pub(crate) const PACKAGE: &str = "xtask/guide/Cargo.toml";

/// What the book has.
#[derive(Args)]
pub(crate) struct GuideArgs {
    /// Build the documentation of the API as a part of the book, and link the chapters to it
    #[arg(long)]
    pub(crate) api: bool,
}

/// Builds the documentation of all crates into `target/doc`.
pub(crate) fn documentation() -> Result<()> {
    cargo(&["doc", "--workspace", "--no-deps", "--quiet", "--features", crate::EXTRAS])
        .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links")
        .run()
}

/// Builds the book into `target/guide`. A broken link is an error. `cargo test` tests the code of
/// the chapters.
pub(crate) fn guide(args: &GuideArgs) -> Result<()> {
    let (root, tool, book) =
        (root(), target_folder().join("guide-tool"), target_folder().join("guide"));
    let tool = ["--quiet", "--manifest-path", PACKAGE, "--target-dir", &tool.to_string_lossy()];
    cargo(&["test"]).args(&tool).run()?;
    let mut folders = vec![root, book.clone()];
    if args.api {
        documentation()?;
        folders.push(target_folder().join("doc"));
    }
    let folders: Vec<_> = folders.iter().map(|folder| folder.to_string_lossy()).collect();
    let folders: Vec<&str> = folders.iter().map(AsRef::as_ref).collect();
    cargo(&["run"]).args(&tool).args(&["--"]).args(&folders).run()?;
    println!("{}", book.join("index.html").display());
    Ok(())
}
