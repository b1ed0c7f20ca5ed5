//! `gt-cli profile`: runs a program with a profile, or prints the profile in a file.

use crate::args::ProfileArgs;
use crate::fault::{Silent, advised};
use crate::signals::{self, Interrupt};
use crate::{files, news};
use anyhow::{Context, Result, ensure};
use gt_runtime::profile::{self, Profile};
use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most bytes of a profile: many times what a program writes.
const MAX_BYTES: u64 = 1 << 30;

pub(crate) fn profile(args: &ProfileArgs, is_json: bool) -> Result<()> {
    let program = Path::new(&args.program);
    if is_profile(program) {
        return print(&read(program)?, args, is_json);
    }
    let file = Awaited::new()?;
    let status = run(program, args, &file.0)?;
    let is_there = std::fs::metadata(&file.0).is_ok_and(|found| found.len() > 0);
    if is_there {
        if let Some(kept) = &args.output {
            let copied = std::fs::copy(&file.0, kept);
            copied.with_context(|| format!("cannot write {}", kept.display()))?;
        }
        // A program that was interrupted has not compared itself with the machine.
        print(&read(&file.0)?.measured(), args, is_json)?;
    }
    ensure!(status == 0, Silent(status));
    ensure!(
        is_there,
        advised(
            "the program wrote no profile",
            "profile a program of GT that computes something and ends in good order"
        )
    );
    Ok(())
}

/// Runs the program to its end, and returns its status. Ctrl-C reaches the program, and this
/// command goes on to print what there is.
fn run(program: &Path, args: &ProfileArgs, file: &Path) -> Result<i32> {
    let _goes_on = Interrupt::watch(|| {})?;
    let status = Command::new(program)
        .args(&args.args)
        .env(profile::VARIABLE, file)
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    Ok(signals::code(status))
}

/// Whether the name is that of a profile, or standard input, and not of a program: no file that can
/// be run.
fn is_profile(path: &Path) -> bool {
    let can_run = |found: std::fs::Metadata| found.permissions().mode() & 0o111 != 0;
    files::is_dash(path)
        || path.extension().is_some_and(|end| end == "json")
        || std::fs::metadata(path).is_ok_and(|found| found.is_file() && !can_run(found))
}

/// The file that a program writes, removed at the end. It is there and empty from the beginning, so
/// that the program says nothing of it.
struct Awaited(PathBuf);

impl Awaited {
    fn new() -> Result<Awaited> {
        let file = std::env::temp_dir().join(format!("gt-profile-{}.json", std::process::id()));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        made.with_context(|| format!("cannot make {}", file.display()))?;
        Ok(Awaited(file))
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn read(file: &Path) -> Result<Profile> {
    let bytes = files::read_up_to(file, MAX_BYTES)?;
    let text = std::str::from_utf8(&bytes).context("this is no profile of GT: it is no text");
    let profile = text.and_then(|text| Profile::from_json(text).map_err(anyhow::Error::msg));
    profile.with_context(|| files::shown(file))
}

fn print(profile: &Profile, args: &ProfileArgs, is_json: bool) -> Result<()> {
    if is_json {
        news::print(&serde_json::to_string(profile)?);
    } else {
        news::print(profile.table(args.top).trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_runtime::profile::{Kernel, Phase, Row};

    fn sample() -> Profile {
        let row =
            |name: &str| Row { name: name.into(), calls: 3, nanos: 2e6, flops: 1e6, bytes: 1e3 };
        let mut profile = Profile::default();
        profile.program = "digits".into();
        (profile.wall, profile.lost) = (5e6, 2);
        profile.machine.threads = 2;
        profile.phases = [Phase::Record, Phase::Wait].map(|phase| row(phase.name())).into();
        profile.lines = vec![row("src/main.rs:3"), row("src/main.rs:9")];
        profile.ops = vec![row("matmul")];
        profile.signals = vec![row("step/forward")];
        profile.kernels = vec![Kernel { row: row("k"), lines: vec!["src/main.rs:3".into()] }];
        profile.memory.peak = 4096;
        profile.memory.samples = vec![(1, 4096, "src/main.rs:3".into()), (9, 64, String::new())];
        profile
    }

    #[test]
    fn whatever_is_cut_flipped_or_mixed_in_a_profile_is_printed_or_an_error() {
        let whole = sample().to_json().into_bytes();
        let (mut chance, mut n_printed) = (crate::chance::Chance::new(9), 0);
        for _ in 0..3000 {
            let bytes = chance.damaged(&whole);
            let Ok(text) = std::str::from_utf8(&bytes) else { continue };
            match Profile::from_json(text) {
                Ok(profile) => {
                    assert!(profile.table(3).len() < 1_000_000);
                    n_printed += 1;
                }
                Err(why) => assert!(why.starts_with("this is no profile of GT: "), "{why}"),
            }
        }
        assert!((50..2500).contains(&n_printed), "{n_printed}");
    }

    #[test]
    fn a_profile_writes_nothing_on_a_terminal_but_text() {
        let mut profile = sample();
        profile.lines[0].name = "\u{1b}[2Jx".into();
        let table = Profile::from_json(&profile.to_json()).unwrap().table(9);
        assert!(table.contains("?[2Jx") && !table.contains('\u{1b}'), "{table}");
    }

    #[test]
    fn numbers_without_bounds_are_printed() {
        let mut profile = sample();
        for row in profile.lines.iter_mut().chain(&mut profile.phases) {
            (row.calls, row.nanos, row.flops, row.bytes) = (u64::MAX, 1e308, -1e308, 1e308);
        }
        (profile.wall, profile.memory.peak) = (-1.0, u64::MAX);
        assert!(profile.table(usize::MAX).len() < 1_000_000);
    }
}
