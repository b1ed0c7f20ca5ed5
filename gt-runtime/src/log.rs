//! The instruction log: one line for each event of client, dispatcher and worker.
//! `GT_INSTRUCTION_LOG=file` turns it on.
//!
//! ```text
//! elapsed  | sequence | event        | source     | command | size   | details
//!   0.003s | #0007    | WORKER_SEND  | WORKER w0  | Run     | 1.2 KB | %5 = add %3, 2 (a.rs:1:9)
//! ```
//!
//! Each entry is written to the file in one write before the call returns, so the log of a crashed
//! program is complete, and no buffer grows without bound. A log that is off costs one look at an
//! `Option`. If the log cannot be written, it says so once and stops. Logging never fails a
//! program.

mod words;

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gt_ir::Instr;

use crate::clock;
use crate::dispatcher::{Note, Party, Way};

/// The variable that names the file.
pub const VARIABLE: &str = "GT_INSTRUCTION_LOG";

/// The kind of an event: the third column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The dispatcher received a message of a client.
    Recv,
    /// The dispatcher sent a message to a client.
    Send,
    /// The dispatcher sent a message to a worker.
    WorkerSend,
    /// The dispatcher received a message of a worker.
    WorkerRecv,
    /// A client sent a message.
    ClientSend,
    /// A client received a message.
    ClientRecv,
    /// A worker executed an instruction or an order.
    Execute,
    /// A peer connected.
    Connect,
    /// A peer disconnected.
    Disconnect,
    /// An operation failed.
    Error,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Recv => "RECV",
            What::Send => "SEND",
            What::WorkerSend => "WORKER_SEND",
            What::WorkerRecv => "WORKER_RECV",
            What::ClientSend => "CLIENT_SEND",
            What::ClientRecv => "CLIENT_RECV",
            What::Execute => "EXECUTE",
            What::Connect => "CONNECT",
            What::Disconnect => "DISCONNECT",
            What::Error => "ERROR",
        }
    }
}

/// The party of an event: the fourth column.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A client, by the name of its session.
    Client(&'a dyn fmt::Display),
    /// A worker, by its name.
    Worker(&'a dyn fmt::Display),
    /// The dispatcher itself.
    Dispatcher,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Client(name) => write!(f, "CLIENT {:20}", name.to_string()),
            Source::Worker(name) => write!(f, "WORKER {:20}", name.to_string()),
            Source::Dispatcher => write!(f, "SERVER {:20}", "dispatcher"),
        }
    }
}

/// A log, or none. Cheap to clone; clones share the file and the numbering.
#[derive(Debug, Clone, Default)]
pub struct Log(Option<Arc<Mutex<Open>>>);

#[derive(Debug)]
struct Open {
    file: Option<File>,
    sequence: u64,
    text: String,
}

impl Log {
    /// A log that is off.
    #[must_use]
    pub fn off() -> Self {
        Log(None)
    }

    /// A log that writes to a new file.
    pub fn to_file(path: &Path) -> std::io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(HEADER.as_bytes())?;
        Ok(Log(Some(Arc::new(Mutex::new(Open {
            file: Some(file),
            sequence: 0,
            text: String::new(),
        })))))
    }

    /// The log of `GT_INSTRUCTION_LOG`, one for the whole process.
    #[expect(
        clippy::print_stderr,
        reason = "a log that cannot be opened must not fail the program, nor pass in silence"
    )]
    pub fn from_environment() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        LOG.get_or_init(|| match gt_settings::var_os(VARIABLE) {
            None => Log::off(),
            Some(path) => Log::to_file(Path::new(&path)).unwrap_or_else(|error| {
                eprintln!("gt: {VARIABLE}: cannot write {}: {error}", path.display());
                Log::off()
            }),
        })
        .clone()
    }

    /// Whether the log is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Writes a message that the dispatcher received or queued.
    pub fn note(&self, note: &Note) {
        let Some(mut entry) = self.entry() else { return };
        let (command, size, details) = words::describe(&note.message);
        match (note.party, note.way) {
            (Party::Session(id), Way::In) => entry.line(
                What::Recv,
                Source::Client(&id),
                command,
                size,
                format_args!("{details}"),
            ),
            (Party::Session(id), Way::Out) => entry.line(
                What::Send,
                Source::Client(&id),
                command,
                size,
                format_args!("{details}"),
            ),
            (Party::Worker(id), Way::In) => entry.line(
                What::WorkerRecv,
                Source::Worker(&id),
                command,
                size,
                format_args!("{details}"),
            ),
            (Party::Worker(id), Way::Out) => entry.line(
                What::WorkerSend,
                Source::Worker(&id),
                command,
                size,
                format_args!("{details}"),
            ),
        }
    }

    /// Starts an entry of several lines. They are written together when the entry is dropped. None
    /// if the log is off.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<LogEntry<'_>> {
        let open = self.0.as_deref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(LogEntry { open })
    }

    /// Writes one line.
    #[inline]
    pub fn line(
        &self,
        what: What,
        source: Source<'_>,
        command: &str,
        size: u64,
        details: fmt::Arguments<'_>,
    ) {
        if let Some(mut entry) = self.entry() {
            entry.line(what, source, command, size, details);
        }
    }
}

const HEADER: &str = "\
================================================================================
GT instruction log
elapsed  | sequence | event | source | command | size | details
================================================================================
";

/// Lines of the log that stay together. They are written when the entry is dropped.
#[derive(Debug)]
pub struct LogEntry<'a> {
    open: std::sync::MutexGuard<'a, Open>,
}

impl LogEntry<'_> {
    /// Adds a line. `size` is in bytes, and 0 is left out. Line ends within `details` become ` / `.
    pub fn line(
        &mut self,
        what: What,
        source: Source<'_>,
        command: &str,
        size: u64,
        details: fmt::Arguments<'_>,
    ) {
        let (now, open) = (clock::now().as_secs_f64(), &mut *self.open);
        open.sequence += 1;
        let head = (what.name(), open.sequence, size_text(size));
        let start = open.text.len();
        // Writing to a String cannot fail.
        let _ = write!(
            open.text,
            "{now:7.3}s | #{:04} | {:12} | {source} | {command:15} | {:>10} | {details}",
            head.1, head.0, head.2
        );
        if open.text[start..].contains('\n') {
            let flat = open.text[start..].replace('\n', " / ");
            open.text.truncate(start);
            open.text.push_str(&flat);
        }
        open.text.push('\n');
    }

    /// Adds a line for an instruction, as the tape prints it, with the user's line, and `more`
    /// after it.
    pub fn instruction(
        &mut self,
        what: What,
        source: Source<'_>,
        instr: &Instr,
        size: u64,
        more: &str,
    ) {
        let operands: Vec<String> = instr.inputs.iter().map(ToString::to_string).collect();
        let Instr { out, op, loc, .. } = instr;
        let operands = operands.join(", ");
        self.line(
            what,
            source,
            op.kind().spec().name,
            size,
            format_args!("{out} = {op} {operands} ({loc}){more}"),
        );
    }
}

impl Drop for LogEntry<'_> {
    #[expect(
        clippy::print_stderr,
        reason = "a full disk must not fail the program, nor pass in silence"
    )]
    fn drop(&mut self) {
        let open = &mut *self.open;
        if let Some(file) = &mut open.file
            && let Err(error) = file.write_all(open.text.as_bytes())
        {
            eprintln!("gt: the instruction log ends here: {error}");
            open.file = None;
        }
        open.text.clear();
        open.text.shrink_to(1 << 20);
    }
}

/// A size for users. Empty for 0 bytes.
pub(crate) fn size_text(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a size shown with one decimal")]
    let scaled = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0 => String::new(),
        1..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KB", scaled(1024)),
        1_048_576..1_073_741_824 => format!("{:.1} MB", scaled(1_048_576)),
        _ => format!("{:.1} GB", scaled(1_073_741_824)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_columns() {
        let path = std::env::temp_dir().join(format!("gt-log-{}.log", std::process::id()));
        let log = Log::to_file(&path).unwrap();
        log.line(
            What::Recv,
            Source::Client(&"c1"),
            "Submit",
            2048,
            format_args!("%5 = add %3, 2.0\nat x.rs:1:2"),
        );
        log.line(What::WorkerSend, Source::Worker(&"w0"), "Run", 0, format_args!("segment 3"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = text.lines().skip(4).collect();
        let columns: Vec<&str> = lines[0].split(" | ").collect();
        assert_eq!(columns[1..3], ["#0001", "RECV        "]);
        assert_eq!(columns[3], "CLIENT c1                  ");
        assert_eq!(
            columns[4..],
            ["Submit         ", "    2.0 KB", "%5 = add %3, 2.0 / at x.rs:1:2"]
        );
        assert!(columns[0].ends_with('s') && columns[0].len() == 8, "{:?}", columns[0]);
        assert!(
            lines[1].ends_with(
                "| WORKER w0                   | Run             |            | segment 3"
            ),
            "{}",
            lines[1]
        );
    }

    #[test]
    fn off_keeps_nothing() {
        assert!(Log::off().entry().is_none());
    }
}
