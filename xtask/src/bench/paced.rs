//! A program that measures a work in blocks on request: `gt-cli bench --paced`, and
//! xtask/peers/pace.py.
//!
//! The program prints a line when it is warm. It answers each line with a number of seconds by the
//! milliseconds of the steps in that time. When its input ends, it prints the time of the first
//! call and its peak memory, and exits. A program that prints nothing for too long is killed.

use crate::shell::target_folder;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The longest wait for an answer: longer than any compiler here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The pause before a turn, in which the threads of the program before it go to sleep.
const BREATH: Duration = Duration::from_millis(30);

/// The measurements of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Median time of a step.
    pub(super) ms: f64,
    pub(super) first_s: f64,
    pub(super) peak_bytes: f64,
}

/// A program that waits for its turn.
pub(super) struct Paced {
    name: String,
    child: Child,
    asks: Option<ChildStdin>,
    answers: Receiver<String>,
    /// The file with its standard error.
    log: PathBuf,
    samples: Vec<f64>,
}

impl Paced {
    /// Starts the program and waits until it is warm.
    pub(super) fn start(name: &str, program: &Path, words: &[&str]) -> Result<Paced> {
        Paced::start_with(name, program, words, &[])
    }

    /// Likewise, with these variables in its environment.
    pub(super) fn start_with(
        name: &str,
        program: &Path,
        words: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Paced> {
        let log = target_folder().join(format!("bench-{}.log", name.replace(' ', "-")));
        let mut child = Command::new(program)
            .args(words)
            .envs(env.iter().copied())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // GT and torch.compile keep compiled programs on disk. Without them the first call
            // compiles.
            .env("GT_CACHE", "off")
            .env("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let (said, answers) = channel();
        let output = child.stdout.take().context("no output")?;
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|l| said.send(l))
        });
        let asks = child.stdin.take();
        let program = Paced { name: name.into(), child, asks, answers, log, samples: vec![] };
        program.answer("ready")?;
        Ok(program)
    }

    /// Runs one turn.
    pub(super) fn block(&mut self, seconds: f64) -> Result<()> {
        std::thread::sleep(BREATH);
        let asked = self.asks.as_mut().map(|asks| writeln!(asks, "{seconds}"));
        if !matches!(asked, Some(Ok(()))) {
            return Err(self.ended());
        }
        let answer = self.answer("samples")?;
        let samples = answer["samples"].as_array().context("samples are a list")?;
        self.samples.extend(samples.iter().filter_map(Value::as_f64));
        Ok(())
    }

    /// Sends a line, and returns the answer.
    pub(super) fn ask(&mut self, line: &str) -> Result<Value> {
        let asked = self.asks.as_mut().map(|asks| writeln!(asks, "{line}"));
        if !matches!(asked, Some(Ok(()))) {
            return Err(self.ended());
        }
        let answer = self.answers.recv_timeout(PATIENCE).map_err(|_| self.ended())?;
        serde_json::from_str(&answer).with_context(|| format!("{} printed `{answer}`", self.name))
    }

    /// Ends the program and returns its measurements.
    pub(super) fn finish(mut self) -> Result<Measured> {
        drop(self.asks.take());
        let last = self.answer("first_s")?;
        self.samples.sort_by(f64::total_cmp);
        Ok(Measured {
            ms: self.samples.get(self.samples.len() / 2).copied().unwrap_or_default(),
            first_s: last["first_s"].as_f64().unwrap_or_default(),
            peak_bytes: last["peak_bytes"].as_f64().unwrap_or_default(),
        })
    }

    /// The next line, which has to contain this key.
    fn answer(&self, key: &str) -> Result<Value> {
        let line = self.answers.recv_timeout(PATIENCE).map_err(|_| self.ended())?;
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) if !answer[key].is_null() => Ok(answer),
            _ => bail!("{} printed `{line}` where `{key}` was expected", self.name),
        }
    }

    /// The error of a program that has ended or does not answer.
    fn ended(&self) -> anyhow::Error {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n");
        anyhow!("{} ended or took too long; its last lines were:\n{last}", self.name)
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        // The program has printed everything, or it has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
