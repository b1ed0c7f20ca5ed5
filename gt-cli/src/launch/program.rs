//! The program that a launch runs: its start, its end, and its exit status.

use crate::signals;
use anyhow::{Context, Result};
use gt_runtime::clock::{self, Time};
use gt_runtime::log;
use gt_runtime::zmq::Address;
use std::ffi::OsString;
use std::process::{Child, Command};
use std::time::Duration;

/// How long the program may take to end after a signal, before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A program that runs.
pub(super) struct Program {
    child: Child,
    /// When it is killed, once it was told to end.
    kill_at: Option<Time>,
}

impl Program {
    /// Starts a program that connects to the server at an address.
    pub(super) fn start(
        (name, words): (&OsString, &[OsString]),
        at: &Address,
        insecure: bool,
    ) -> Result<Program> {
        let mut command = Command::new(name);
        command.args(words).env(gt_runtime::embedded::CONNECT, at.to_string());
        if insecure {
            command.env(gt_runtime::doors::INSECURE, "1");
        }
        if let Some(mut file) = gt_settings::var_os(log::VARIABLE) {
            // The server's thread writes the file itself.
            file.push(".program");
            command.env(log::VARIABLE, file);
        }
        let about = || format!("cannot start {}", name.to_string_lossy());
        Ok(Program { child: command.spawn().with_context(about)?, kill_at: None })
    }

    /// Its exit status, if it has ended. Kills it if it had to end before.
    pub(super) fn ended(&mut self) -> Result<Option<i32>> {
        if self.kill_at.is_some_and(|at| at <= clock::now()) {
            // An error means that it has just ended by itself.
            let _ = self.child.kill();
        }
        let status = self.child.try_wait().context("cannot wait for the program")?;
        Ok(status.map(signals::code))
    }

    /// Tells it to end. Ctrl-C has reached it already, because it is in the terminal's group.
    pub(super) fn stop(&mut self) {
        self.kill_at.get_or_insert_with(|| clock::now() + GRACE);
        #[cfg(unix)]
        if let Ok(pid) = i32::try_from(self.child.id())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            // As above.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
