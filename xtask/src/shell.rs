//! Runs commands from the root of the repository. A command is printed before it runs; its failure
//! is an error.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The target folder of `cargo`.
pub(crate) fn target_folder() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(named.unwrap_or_else(|| "target".into()))
}

/// Where the programs of a profile are.
pub(crate) fn folder_of(profile: &str) -> PathBuf {
    // Cargo's own profile `dev` has a folder of another name.
    target_folder().join(if profile == "dev" { "debug" } else { profile })
}

/// The free bytes on the disk of a folder.
pub(crate) fn free_bytes(folder: &Path) -> Result<u64> {
    let said = Step::new("df", &["--output=avail", "-B1", &folder.to_string_lossy()]).read()?;
    let number = said.lines().last().unwrap_or_default().trim();
    number.parse().with_context(|| format!("`df` printed `{number}`"))
}

/// A command to run.
pub(crate) struct Step {
    program: String,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
}

/// A `cargo` command of the toolchain that runs this program.
pub(crate) fn cargo(args: &[&str]) -> Step {
    Step::new(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), args)
}

impl Step {
    pub(crate) fn new(program: &str, args: &[&str]) -> Step {
        Step {
            program: program.into(),
            args: args.iter().map(ToString::to_string).collect(),
            env: vec![],
        }
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Step {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Step {
        self.env.push((name, value.into()));
        self
    }

    /// The command as typed in a shell.
    fn line(&self) -> String {
        let program = Path::new(&self.program)
            .file_name()
            .map_or(self.program.clone().into(), |f| f.to_string_lossy());
        let words = self.env.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        words
            .chain([program.into_owned()])
            .chain(self.args.iter().map(|a| quoted(a)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(root());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the command with the terminal's input and output.
    pub(crate) fn run(self) -> Result<()> {
        println!("$ {}", self.line());
        let status =
            self.command().status().with_context(|| format!("cannot start `{}`", self.program))?;
        ensure!(status.success(), "`{}` failed ({status})", self.line());
        Ok(())
    }

    /// Runs the command quietly and returns its standard output.
    pub(crate) fn read(self) -> Result<String> {
        let output =
            self.command().output().with_context(|| format!("cannot start `{}`", self.program))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{}` failed ({}): {errors}", self.line(), output.status);
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{}` printed something that is not text", self.line()))
    }
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("'{word}'") } else { word.into() }
}

/// Runs a step and returns its time.
pub(crate) fn timed(step: &dyn Fn() -> Result<()>) -> Result<Duration> {
    let start = SystemTime::now();
    step()?;
    Ok(start.elapsed().unwrap_or_default())
}

/// The host's target triple by rustc.
pub(crate) fn host_triple() -> Result<String> {
    let version = Step::new("rustc", &["-vV"]).read()?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_string).context("`rustc -vV` does not name a host")
}
