//! `cargo xtask dist`: an archive that a machine without Rust can use: the stripped program, its
//! completions and pages for `man`, and the files for deployment.
//!
//! Completions and pages are printed by the program that was built, so they are of its version.

use crate::shell::{Step, cargo, folder_of, host_triple, root, target_folder};
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// Where shells look for completions, below the prefix of an installation.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/gt-cli"),
    ("zsh", "share/zsh/site-functions/_gt-cli"),
    ("fish", "share/fish/vendor_completions.d/gt-cli.fish"),
];
/// What is copied: folders and files of the repository, and their places.
const COPIES: [(&str, &str); 5] = [
    ("README.md", "share/doc/gt/README.md"),
    ("CHANGELOG.md", "share/doc/gt/CHANGELOG.md"),
    ("LICENSE", "share/doc/gt/LICENSE"),
    ("deploy", "share/gt/deploy"),
    ("docs/grafana", "share/gt/grafana"),
];

#[derive(Args)]
pub(crate) struct DistArgs {
    /// The profile of cargo
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
    /// Features of gt-cli: `torch` or `cuda`
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
}

pub(crate) fn dist(args: &DistArgs) -> Result<()> {
    let program = build(args)?;
    let name = format!("gt-{}-{}", env!("CARGO_PKG_VERSION"), host_triple()?);
    let parent = target_folder().join("dist");
    let folder = parent.join(&name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    fill(&folder, &program)?;
    let archive = parent.join(format!("{name}.tar.gz"));
    let (archive, parent) = (archive.to_string_lossy(), parent.to_string_lossy());
    // Equal contents make an equal archive.
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    Step::new("tar", &["-czf", &archive, "-C", &parent]).args(&same).args(&[&name]).run()?;
    let bytes = std::fs::metadata(&*archive)?.len();
    println!(
        "{archive}: {:.1} MB; install it with: tar -xzf .. -C /usr/local --strip-components=1",
        bytes as f64 / 1e6
    );
    Ok(())
}

/// Builds the program, and returns its path.
fn build(args: &DistArgs) -> Result<PathBuf> {
    let step = cargo(&["build", "--package", "gt-cli", "--profile", &args.profile]);
    match &args.features {
        Some(features) => step.args(&["--features", features]).run()?,
        None => step.run()?,
    }
    Ok(folder_of(&args.profile).join("gt-cli"))
}

fn fill(folder: &Path, program: &Path) -> Result<()> {
    let to = folder.join("bin/gt-cli");
    make_parent(&to)?;
    let (from, to) = (program.to_string_lossy(), to.to_string_lossy());
    Step::new("strip", &["-o", &to, &from]).run().context("`strip` is in the package binutils")?;
    for (shell, place) in COMPLETIONS {
        let script = Step::new(&to, &["completions", shell]).read()?;
        let place = folder.join(place);
        make_parent(&place)?;
        std::fs::write(place, script)?;
    }
    let pages = folder.join("share/man/man1");
    Step::new(&to, &["man", &pages.to_string_lossy()]).run()?;
    for (from, place) in COPIES {
        copy(&root().join(from), &folder.join(place))?;
    }
    Ok(())
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        make_parent(to)?;
        std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
        return Ok(());
    }
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().context("a file has no folder")?;
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))
}
