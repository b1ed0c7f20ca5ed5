//! `gt-cli profile`: runs a program with a profile, or prints the profile in a file.

use crate::args::ProfileArgs;
use crate::fault::{Silent, advised};
use crate::{files, news};
use anyhow::{Context, Result, ensure};
use gt_runtime::profile::{self, Profile};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn profile(args: &ProfileArgs, is_json: bool) -> Result<()> {
    let program = Path::new(&args.program);
    if program.extension().is_some_and(|end| end == "json") {
        return print(program, args, is_json);
    }
    let kept = args.output.clone();
    let file = kept.clone().unwrap_or_else(temporary);
    let status = Command::new(program)
        .args(&args.args)
        .env(profile::VARIABLE, &file)
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let is_there = file.exists();
    let printed = if is_there { print(&file, args, is_json) } else { Ok(()) };
    if kept.is_none() {
        // It may never have been written.
        let _ = std::fs::remove_file(&file);
    }
    printed?;
    let code = status.code().unwrap_or(1);
    ensure!(code == 0, Silent(code));
    ensure!(
        is_there,
        advised(
            "the program wrote no profile",
            "profile a program of GT that computes something and ends in good order"
        )
    );
    Ok(())
}

fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("gt-profile-{}.json", std::process::id()))
}

fn print(file: &Path, args: &ProfileArgs, is_json: bool) -> Result<()> {
    let bytes = files::read(file)?;
    let text = std::str::from_utf8(&bytes).context("this is no profile of GT: it is no text")?;
    let profile = Profile::from_json(text).map_err(anyhow::Error::msg)?;
    if is_json {
        news::print(&serde_json::to_string(&profile)?);
        return Ok(());
    }
    news::print(profile.table(args.top).trim_end());
    Ok(())
}
