//! The identity of a peer, which names it in errors and logs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The identity of a peer, as errors and logs show it: `s1 digits (pi, pid 123)`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Identity {
    /// The name of the program, or the name that a worker was given. It may be empty.
    pub name: String,
    /// The host on which it runs.
    pub host: String,
    /// Its process id on this host.
    pub pid: u32,
}

/// The name of this machine.
pub(crate) fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|host| host.trim().to_owned())
        .unwrap_or_else(|_| "localhost".into())
}

/// Whether a process of this machine runs. A process that has ended and whose parent has not asked
/// for its status does not run.
pub(crate) fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name of the program, which may contain anything.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// The most characters of a name that are shown.
const MAX_SHOWN: usize = 64;

impl Identity {
    /// The identity of this process, with a name.
    pub(crate) fn here(name: String) -> Identity {
        Identity { name, host: machine(), pid: std::process::id() }
    }

    /// Whether it is a running process of this machine that this process can see.
    pub(crate) fn is_running_here(&self) -> bool {
        self.host == machine() && is_running(self.pid)
    }

    /// The identity as one short line: its id, its name if it has one, its host and process id.
    #[must_use]
    pub fn known_as(&self, id: impl fmt::Display) -> String {
        format!("{id} {}", self.who())
    }

    /// The identity without an id: its name if it has one, its host and process id.
    #[must_use]
    pub fn who(&self) -> String {
        let plain = |c: char| if c.is_control() { '?' } else { c };
        let name: String = self.name.chars().take(MAX_SHOWN).map(plain).collect();
        if name.is_empty() { format!("({self})") } else { format!("{name} ({self})") }
    }
}

/// The name of this program.
pub(crate) fn program() -> String {
    let path = std::env::current_exe().ok();
    path.and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "program".into())
}

/// The name of this process's user, as the environment says it.
pub(crate) fn user() -> String {
    let named = |name| std::env::var(name).ok().filter(|name: &String| !name.is_empty());
    named("USER").or_else(|| named("LOGNAME")).unwrap_or_else(program)
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, pid {}", self.host, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WorkerId;

    #[test]
    fn a_process_runs_until_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_running(child.id()) && Identity::here("x".into()).is_running_here());
        child.kill().unwrap();
        // It has ended as soon as it is killed, and stays in the table until it is waited for.
        while is_running(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_running(child.id()));
    }

    #[test]
    fn a_peer_is_shown_on_one_line_with_its_name_if_it_has_one() {
        let named = |name: &str| Identity { name: name.into(), host: "pi".into(), pid: 7 };
        assert_eq!(named("").known_as(WorkerId(1)), "w1 (pi, pid 7)");
        assert_eq!(named("alpha").known_as("w1"), "w1 alpha (pi, pid 7)");
        assert_eq!(named("a\nb").known_as("s2"), "s2 a?b (pi, pid 7)");
        assert!(named(&"x".repeat(1000)).known_as("s2").len() < 100);
    }
}
