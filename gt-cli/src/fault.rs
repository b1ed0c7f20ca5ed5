//! The errors of commands, and their output for the user: plain text with carets, or one JSON
//! object.

use crate::news::{flush, tell};
use gt_ir::Loc;
use gt_ir::backend::RunError;
use gt_ir::diagnostic::{Color, Diagnostic, render};
use gt_ir::error::Hinted;
use serde_json::{Value, json};
use std::fmt;
use std::io::{ErrorKind, IsTerminal};

/// The faults of a tape file.
#[derive(Debug)]
pub(crate) struct Diagnosed {
    found: Vec<Diagnostic>,
    name: String,
    text: String,
}

impl Diagnosed {
    /// Faults in a text that messages call `name`.
    pub(crate) fn new(found: Vec<Diagnostic>, name: String, text: String) -> Diagnosed {
        Diagnosed { found, name, text }
    }

    fn drawn(&self) -> String {
        let colors = std::io::stderr().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        render(
            &self.found,
            &self.name,
            &self.text,
            if colors { Color::Always } else { Color::Never },
        )
    }

    fn json(&self) -> Value {
        let found = self.found.iter().map(|diagnostic| {
            let place = diagnostic.span.as_ref().map(|span| place(&self.text, span.start));
            json!({
                "message": diagnostic.message,
                "line": place.map(|(line, _)| line),
                "column": place.map(|(_, column)| column),
                "notes": diagnostic.notes,
                "hint": diagnostic.hint,
            })
        });
        json!({ "error": self.to_string(), "file": self.name, "faults": found.collect::<Vec<_>>() })
    }
}

impl std::error::Error for Diagnosed {}

impl fmt::Display for Diagnosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_faults = self.found.len();
        write!(f, "{}: {n_faults} fault{}", self.name, if n_faults == 1 { "" } else { "s" })
    }
}

/// Line and column, from 1, of a byte of the text.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// An error whose cure is known.
#[derive(Debug)]
struct Advised {
    message: String,
    hint: String,
}

/// An error with a message and a hint.
pub(crate) fn advised(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Advised { message: message.into(), hint: hint.into() }.into()
}

impl Hinted for Advised {
    fn message(&self) -> String {
        self.message.clone()
    }

    fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }
}

impl std::error::Error for Advised {}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// The user ended the command. The text says what became of it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Interrupted(pub(crate) &'static str);

/// An error that was already reported, with its exit status.
#[derive(Debug, thiserror::Error)]
#[error("failed with status {0}")]
pub(crate) struct Silent(pub(crate) i32);

/// The error of a system: its message, its worker, and the line of the program if it is known.
pub(crate) fn run_error(error: RunError) -> anyhow::Error {
    let place =
        if error.loc == Loc::NONE { String::new() } else { format!("\n  at {}", error.loc) };
    let unsaid = error.worker.filter(|name| !error.message.contains(name));
    let worker = unsaid.map(|name| format!(" (on worker {name})")).unwrap_or_default();
    let message = format!("{}{worker}{place}", error.message);
    match error.hint {
        Some(hint) => advised(message, hint),
        None => anyhow::Error::msg(message),
    }
}

/// Prints an error and returns the exit status. A closed pipe is no error, because its reader has
/// read enough.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> i32 {
    if is_broken_pipe(error) {
        return 0;
    }
    if let Some(Silent(status)) = error.downcast_ref() {
        return *status;
    }
    if error.is::<Interrupted>() {
        // The user ends the process, which does not wait for a reader.
        tell(json, &error.to_string());
        flush();
        return crate::signals::INTERRUPTED;
    }
    let diagnosed = error.downcast_ref::<Diagnosed>();
    if json {
        eprintln!("{}", diagnosed.map_or_else(|| object(error), Diagnosed::json));
    } else if let Some(diagnosed) = diagnosed {
        eprintln!("{}", diagnosed.drawn());
        eprintln!("\nerror: {diagnosed}");
    } else {
        eprintln!("error: {}", chain(error));
    }
    1
}

/// Prints the error of a wrong command line as an object, and ends the process.
pub(crate) fn wrong_command_line(error: &clap::Error) -> ! {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let said = |line: &&str| line.starts_with("tip: ") || line.starts_with("Usage: ");
    let hints: Vec<&str> = rest.lines().map(str::trim).filter(said).collect();
    let hint = (!hints.is_empty()).then(|| hints.join("\n"));
    eprintln!("{}", json!({ "error": message, "hint": hint }));
    std::process::exit(2);
}

/// An error and its causes. A cause whose text an error repeats is said once.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            let colon = if text.is_empty() { "" } else { ": " };
            text += &format!("{colon}{cause}");
        }
    }
    text
}

/// An error as an object with its message, causes included, and its hint or null.
fn object(error: &anyhow::Error) -> Value {
    // By the text, because an `anyhow::Error` forgets which types have hints. All print them alike:
    // see `Hinted::print`.
    let text = chain(error);
    let (message, hint) = match text.split_once("\nhint: ") {
        Some((message, hint)) => (message, Some(hint)),
        None => (&*text, None),
    };
    json!({ "error": message, "hint": hint })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    kinds.map(std::io::Error::kind).any(|kind| kind == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_one() {
        assert_eq!(place("", 0), (1, 1));
        assert_eq!(place("ab\ncd", 4), (2, 2));
        assert_eq!(place("é\né%", 5), (2, 2));
        assert_eq!(place("a", 99), (1, 2));
    }

    #[test]
    fn message_and_hint_are_fields_of_their_own() {
        let cause = gt_ir::OpError::new("no device `gpu`").hint("the devices are\n  cpu and cuda");
        let error = anyhow::Error::from(cause).context("cannot start");
        let expected = json!({
            "error": "cannot start: no device `gpu`",
            "hint": "the devices are\n  cpu and cuda",
        });
        assert_eq!(object(&error), expected);
        let plain = anyhow::anyhow!("two lines\n  of text");
        assert_eq!(object(&plain), json!({ "error": "two lines\n  of text", "hint": null }));
    }

    #[test]
    fn a_cause_that_its_error_repeats_is_said_once() {
        let inner = std::io::Error::other("no server at pi:1");
        let outer = anyhow::Error::from(inner).context("no server at pi:1\nhint: start one");
        assert_eq!(chain(&outer), "no server at pi:1\nhint: start one");
        assert_eq!(chain(&anyhow::anyhow!("a").context("b")), "b: a");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let error = anyhow::Error::from(std::io::Error::from(ErrorKind::BrokenPipe))
            .context("cannot write");
        assert_eq!(report(&error, false), 0);
    }
}
