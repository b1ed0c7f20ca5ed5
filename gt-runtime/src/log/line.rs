//! A line of the log: an event with its party, its time and its size, and the forms of its text.
//!
//! The time of a line is the time at which it is written. A line about an interval says how long it
//! took, so it began that much earlier; the JSON form gives the beginning itself (`at`).

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Format;
use crate::clock::Time;
use crate::dispatcher::Party;
use crate::ids::SessionId;
use crate::words::Part::{N, P};
use crate::words::{Facts, put};

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
    /// A worker took a value out of its device for another worker.
    Exchange,
    /// A value was on its way from a worker to another.
    Give,
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
            What::Give => "GIVE",
            What::Error => "ERROR",
        }
    }
}

/// The party of an event: the fourth column.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A client, by the name of its session.
    Client(&'a str),
    /// A worker, by its name.
    Worker(&'a str),
    /// A client or a worker, by its number.
    Party(Party),
    /// The dispatcher itself.
    Dispatcher,
}

impl Source<'_> {
    /// What it is, in small and in capital letters.
    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Source::Client(_) | Source::Party(Party::Session(_)) => ("client", "CLIENT"),
            Source::Worker(_) | Source::Party(Party::Worker(_)) => ("worker", "WORKER"),
            Source::Dispatcher => ("server", "SERVER"),
        }
    }

    /// Adds the name.
    fn put(&self, to: &mut String) {
        match self {
            Source::Party(Party::Session(id)) => put(to, &[P("s"), N(id.0)]),
            Source::Party(Party::Worker(id)) => put(to, &[P("w"), N(id.0)]),
            Source::Client(name) | Source::Worker(name) => to.push_str(name),
            Source::Dispatcher => to.push_str("dispatcher"),
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

/// The details of a line.
#[derive(Clone, Copy)]
pub(crate) enum Details<'a> {
    /// Numbers, whose text has no special characters.
    Facts(&'a Facts),
    /// Any text.
    Text(fmt::Arguments<'a>),
}

impl Details<'_> {
    fn put(self, to: &mut String) {
        match self {
            Details::Facts(facts) => facts.put(to),
            Details::Text(text) => {
                // Writing to a `String` cannot fail.
                let _ = to.write_fmt(text);
            }
        }
    }
}

/// Adds a line to a text.
pub(crate) fn print(
    to: &mut String,
    format: Format,
    (now, sequence): (Time, u64),
    line: &Line<'_>,
    details: Details<'_>,
) {
    let start = to.len();
    match format {
        Format::Seed => columns(to, now, sequence, line),
        Format::Tape => few_columns(to, now, line),
        Format::Json => return object(to, now, sequence, line, details),
    }
    details.put(to);
    if !line.took.is_zero() {
        let tenths = u64::from(line.took.subsec_nanos() % 1000 / 100);
        put(to, &[P(" took "), N(micros(line.took)), P("."), N(tenths), P(" us")]);
    }
    if to[start..].contains(['\n', '\r']) {
        let flat = to[start..].replace(['\n', '\r'], " / ");
        to.truncate(start);
        to.push_str(&flat);
    }
    to.push('\n');
}

fn columns(to: &mut String, now: Time, n: u64, line: &Line<'_>) {
    let start = to.len();
    seconds(to, now);
    let width = to.len() - start;
    to.insert_str(start, &"       "[width.min(7)..]);
    to.push_str("s | #");
    leading_zeros(to, 4, n);
    to.push_str(" | ");
    padded(to, 12, |to| to.push_str(line.what.name()));
    put(to, &[P(" | "), P(line.source.kind().1), P(" ")]);
    padded(to, 20, |to| line.source.put(to));
    to.push_str(" | ");
    padded(to, 15, |to| to.push_str(line.command));
    to.push_str(" | ");
    match line.size {
        0 => to.push_str("          "),
        n => {
            let size = size_text(n);
            put(to, &[P(&"          "[size.len().min(10)..]), P(&size)]);
        }
    }
    to.push_str(" | ");
}

fn few_columns(to: &mut String, now: Time, line: &Line<'_>) {
    to.push_str("[TAPE ");
    seconds(to, now);
    to.push_str("s] ");
    padded(to, 12, |to| to.push_str(line.what.name()));
    to.push_str(" | ");
    padded(to, 15, |to| line.source.put(to));
    to.push_str(" | ");
    padded(to, 15, |to| to.push_str(line.command));
    to.push_str(" | ");
}

/// Adds seconds with three decimals.
fn seconds(to: &mut String, time: Time) {
    let millis = (micros(time) + 500) / 1000;
    put(to, &[N(millis / 1000), P(".")]);
    leading_zeros(to, 3, millis % 1000);
}

/// Adds a number with at least so many digits, 4 at most.
fn leading_zeros(to: &mut String, width: usize, n: u64) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(n);
    put(to, &[P(&"0000"[..width.saturating_sub(digits.len())]), P(digits)]);
}

/// Adds a text, and spaces up to a width of at most 20.
fn padded(to: &mut String, width: usize, text: impl FnOnce(&mut String)) {
    let start = to.len();
    text(to);
    let text = &to[start..];
    let n = if text.is_ascii() { text.len() } else { text.chars().count() };
    to.push_str(&"                    "[..width.saturating_sub(n)]);
}

fn object(to: &mut String, now: Time, n: u64, line: &Line<'_>, details: Details<'_>) {
    let began = now.saturating_sub(line.ago).saturating_sub(line.took);
    put(to, &[P("{\"seq\":"), N(n), P(",\"at\":")]);
    number(to, began);
    if !line.took.is_zero() {
        to.push_str(",\"took\":");
        number(to, line.took);
    }
    let (event, party) = (line.what.name(), line.source.kind().0);
    put(to, &[P(",\"event\":\""), P(event), P("\",\"party\":\""), P(party)]);
    to.push_str("\",\"name\":");
    match line.source {
        Source::Client(name) | Source::Worker(name) => quoted_text(to, name),
        Source::Party(_) | Source::Dispatcher => {
            to.push('"');
            line.source.put(to);
            to.push('"');
        }
    }
    to.push_str(",\"command\":");
    quoted_text(to, line.command);
    if line.size > 0 {
        put(to, &[P(",\"bytes\":"), N(line.size)]);
    }
    if let Some((session, segment)) = line.of {
        put(to, &[P(",\"session\":\"s"), N(session.0), P("\"")]);
        if segment > 0 {
            put(to, &[P(",\"segment\":"), N(segment)]);
        }
    }
    if line.live > 0 {
        put(to, &[P(",\"live\":"), N(line.live)]);
    }
    to.push_str(",\"details\":");
    match details {
        Details::Text(text) => quoted(to, text),
        Details::Facts(facts) => {
            to.push('"');
            facts.put(to);
            to.push('"');
        }
    }
    to.push_str("}\n");
}

/// Writes a text as a JSON string.
pub(super) fn quoted(to: &mut String, text: fmt::Arguments<'_>) {
    to.push('"');
    let _ = Escaped(to).write_fmt(text);
    to.push('"');
}

fn quoted_text(to: &mut String, text: &str) {
    to.push('"');
    // Writing to a `String` cannot fail.
    let _ = Escaped(to).write_str(text);
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

/// Adds microseconds with three decimals, as a JSON number.
fn number(to: &mut String, time: Duration) {
    put(to, &[N(micros(time)), P(".")]);
    leading_zeros(to, 3, u64::from(time.subsec_nanos() % 1000));
}

/// The whole microseconds.
fn micros(time: Duration) -> u64 {
    time.as_secs() * 1_000_000 + u64::from(time.subsec_micros())
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
        print(&mut text, format, (now, 7), line, Details::Text(format_args!("{details}")));
        text
    }

    #[test]
    fn each_form_shows_a_moment_and_an_interval() {
        let client = Source::Client("s1");
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
        let worker = Source::Worker("w\"1\"");
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
