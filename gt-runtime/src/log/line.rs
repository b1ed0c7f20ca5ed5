//! A line of the log: an event with its party, its time and its size, and the forms of its text.
//!
//! The time of a line is the time at which it is written. A line about an interval says how long it
//! took, so it began that much earlier; the JSON form gives the beginning itself (`at`).

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Format;
use crate::clock::Time;
use crate::ids::SessionId;

/// The kind of an event: the third column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A worker made a plan.
    Compile,
    /// A stream modifier changed or refused a segment.
    Modifier,
    /// A peer connected.
    Connect,
    /// A peer disconnected.
    Disconnect,
    /// A program recorded.
    Record,
    /// A program waited for a value.
    Wait,
    /// A value was read.
    Read,
    /// A segment waited for its worker.
    Queue,
    /// A worker gave a value to another worker.
    Exchange,
    /// An operation failed.
    Error,
}

impl What {
    /// The name in all forms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            What::Recv => "RECV",
            What::Send => "SEND",
            What::WorkerSend => "WORKER_SEND",
            What::WorkerRecv => "WORKER_RECV",
            What::ClientSend => "CLIENT_SEND",
            What::ClientRecv => "CLIENT_RECV",
            What::Execute => "EXECUTE",
            What::Compile => "COMPILE",
            What::Modifier => "MODIFIER",
            What::Connect => "CONNECT",
            What::Disconnect => "DISCONNECT",
            What::Record => "RECORD",
            What::Wait => "WAIT",
            What::Read => "READ",
            What::Queue => "QUEUE",
            What::Exchange => "EXCHANGE",
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

impl Source<'_> {
    fn party(&self) -> &'static str {
        match self {
            Source::Client(_) => "client",
            Source::Worker(_) => "worker",
            Source::Dispatcher => "server",
        }
    }
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Client(name) | Source::Worker(name) => name.fmt(f),
            Source::Dispatcher => f.write_str("dispatcher"),
        }
    }
}

/// A line, without its details.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The kind of the event.
    pub what: What,
    /// Whose event it is.
    pub source: Source<'a>,
    /// The message, op or order.
    pub command: &'a str,
    /// Bytes. 0 is left out.
    pub size: u64,
    /// How long an interval took. Zero for what has no duration.
    pub took: Duration,
    /// The time between the end of the interval and now.
    pub ago: Duration,
    /// The session, and the number of its segment. No segment has the number 0.
    pub of: Option<(SessionId, u64)>,
    /// The bytes in use on the worker afterwards. 0 if unknown.
    pub live: u64,
}

impl<'a> Line<'a> {
    /// A line about a moment.
    #[must_use]
    pub fn new(what: What, source: Source<'a>, command: &'a str) -> Line<'a> {
        let (took, ago) = (Duration::ZERO, Duration::ZERO);
        Line { what, source, command, size: 0, took, ago, of: None, live: 0 }
    }

    /// With a size.
    #[must_use]
    pub fn bytes(self, size: u64) -> Line<'a> {
        Line { size, ..self }
    }

    /// With a duration, which ends now.
    #[must_use]
    pub fn took(self, took: Duration) -> Line<'a> {
        Line { took, ..self }
    }

    /// With a session and the number of its segment.
    #[must_use]
    pub fn of(self, session: SessionId, segment: u64) -> Line<'a> {
        Line { of: Some((session, segment)), ..self }
    }
}

/// Adds a line to a text. Writing to a `String` cannot fail.
pub(crate) fn print(
    to: &mut String,
    format: Format,
    (now, sequence): (Time, u64),
    line: &Line<'_>,
    details: fmt::Arguments<'_>,
) {
    let start = to.len();
    match format {
        Format::Seed => columns(to, now, sequence, line, details),
        Format::Tape => few_columns(to, now, line, details),
        Format::Json => return object(to, now, sequence, line, details),
    }
    if !line.took.is_zero() {
        let _ = write!(to, " took {}", Micros(line.took));
    }
    if to[start..].contains(['\n', '\r']) {
        let flat = to[start..].replace(['\n', '\r'], " / ");
        to.truncate(start);
        to.push_str(&flat);
    }
    to.push('\n');
}

fn columns(to: &mut String, now: Time, n: u64, line: &Line<'_>, details: fmt::Arguments<'_>) {
    let word = match line.source {
        Source::Client(_) => "CLIENT",
        Source::Worker(_) => "WORKER",
        Source::Dispatcher => "SERVER",
    };
    let what = line.what.name();
    let _ = write!(to, "{:7.3}s | #{n:04} | {what:12} | {word} ", now.as_secs_f64());
    padded(to, 20, format_args!("{}", line.source));
    let _ = write!(to, " | {:15} | {:>10} | {details}", line.command, size_text(line.size));
}

fn few_columns(to: &mut String, now: Time, line: &Line<'_>, details: fmt::Arguments<'_>) {
    let _ = write!(to, "[TAPE {:.3}s] {:12} | ", now.as_secs_f64(), line.what.name());
    padded(to, 15, format_args!("{}", line.source));
    let _ = write!(to, " | {:15} | {details}", line.command);
}

/// Writes a text, and spaces up to a width.
fn padded(to: &mut String, width: usize, text: fmt::Arguments<'_>) {
    let start = to.len();
    let _ = to.write_fmt(text);
    let n = to[start..].chars().count();
    to.extend(std::iter::repeat_n(' ', width.saturating_sub(n)));
}

fn object(to: &mut String, now: Time, n: u64, line: &Line<'_>, details: fmt::Arguments<'_>) {
    let began = now.saturating_sub(line.ago).saturating_sub(line.took);
    let _ = write!(to, "{{\"seq\":{n},\"at\":{}", Number(began));
    if !line.took.is_zero() {
        let _ = write!(to, ",\"took\":{}", Number(line.took));
    }
    let (event, party) = (line.what.name(), line.source.party());
    let _ = write!(to, ",\"event\":\"{event}\",\"party\":\"{party}\",\"name\":");
    quoted(to, format_args!("{}", line.source));
    to.push_str(",\"command\":");
    quoted(to, format_args!("{}", line.command));
    if line.size > 0 {
        let _ = write!(to, ",\"bytes\":{}", line.size);
    }
    if let Some((session, segment)) = line.of {
        let _ = write!(to, ",\"session\":\"{session}\"");
        if segment > 0 {
            let _ = write!(to, ",\"segment\":{segment}");
        }
    }
    if line.live > 0 {
        let _ = write!(to, ",\"live\":{}", line.live);
    }
    to.push_str(",\"details\":");
    quoted(to, details);
    to.push_str("}\n");
}

/// Writes a text as a JSON string.
pub(super) fn quoted(to: &mut String, text: fmt::Arguments<'_>) {
    to.push('"');
    let _ = Escaped(to).write_fmt(text);
    to.push('"');
}

struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        let special = |c: char| c == '"' || c == '\\' || c.is_ascii_control();
        while let Some(at) = text.find(special) {
            let (plain, rest) = text.split_at(at);
            self.0.push_str(plain);
            let mut rest = rest.chars();
            match rest.next() {
                Some(c @ ('"' | '\\')) => self.0.extend(['\\', c]),
                Some('\n') => self.0.push_str("\\n"),
                Some(c) => write!(self.0, "\\u{:04x}", u32::from(c))?,
                None => (),
            }
            text = rest.as_str();
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Microseconds with three decimals, as a JSON number.
struct Number(Duration);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.as_micros(), self.0.subsec_nanos() % 1000)
    }
}

/// A duration in microseconds.
struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} us", self.0.as_micros(), self.0.subsec_nanos() % 1000 / 100)
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

    fn shown(format: Format, line: &Line<'_>, details: &str) -> String {
        let mut text = String::new();
        let now = Duration::from_micros(12_345_678);
        print(&mut text, format, (now, 7), line, format_args!("{details}"));
        text
    }

    #[test]
    fn each_form_shows_a_moment_and_an_interval() {
        let client = Source::Client(&"s1");
        let sent = Line::new(What::Recv, client, "Run").bytes(2048);
        assert_eq!(
            shown(Format::Seed, &sent, "%5 = add %3, 2.0\nat x.rs:1:2"),
            " 12.346s | #0007 | RECV         | CLIENT s1                   | Run             |     \
             2.0 KB | %5 = add %3, 2.0 / at x.rs:1:2\n"
        );
        assert_eq!(
            shown(Format::Tape, &sent, "%5"),
            "[TAPE 12.346s] RECV         | s1              | Run             | %5\n"
        );
        let worker = Source::Worker(&"w\"1\"");
        let ran = Line::new(What::Execute, worker, "Launch").took(Duration::from_nanos(1_500));
        let ran = ran.of(SessionId(3), 9);
        assert!(
            shown(Format::Seed, &ran, "8 instructions").ends_with("8 instructions took 1.5 us\n")
        );
        assert_eq!(
            shown(Format::Json, &ran, "a\tb"),
            "{\"seq\":7,\"at\":12345676.500,\"took\":1.500,\"event\":\"EXECUTE\",\
             \"party\":\"worker\",\"name\":\"w\\\"1\\\"\",\
             \"command\":\"Launch\",\"session\":\"s3\",\"segment\":9,\
             \"details\":\"a\\u0009b\"}\n"
        );
    }
}
