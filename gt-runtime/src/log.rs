//! The instruction log: one line for each event of client, dispatcher and worker.
//! `GT_INSTRUCTION_LOG=file` turns it on; `config` has the form, the size and the detail.
//!
//! ```text
//! elapsed  | sequence | event        | source     | command | size   | details
//!   0.003s | #0007    | WORKER_SEND  | WORKER w0  | Run     | 1.2 KB | %5 = add %3, 2 (a.rs:1:9)
//! ```
//!
//! A log that is off costs one look at an `Option`. A log that is on collects numbers (`told`), of
//! which a thread makes lines some milliseconds later (`sink`), in order; rare lines are collected
//! as texts. A program that ends writes its last lines; a program that is killed loses those of
//! the last 20 ms. Logging never fails a program and never stops it, also if the disk is full.

mod config;
mod line;
mod lines;
mod sink;
mod told;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use gt_ir::{Entry, Instr, Tape};

use crate::clock::{self, Time};
use crate::dispatcher::{Note, Party, Report, Way};
#[cfg(feature = "cluster")]
use crate::ids::WorkerId;
use crate::messages::{self, Area, Rank};
#[cfg(feature = "cluster")]
use crate::wire::{Doing, Moment};
use crate::words::{Facts, Said, Words};
pub use config::{DETAIL, Detail, FORMAT, Format, LogConfig, SIZE, Size, VARIABLE};
#[cfg(feature = "cluster")]
pub(crate) use line::print;
pub(crate) use line::{Details, size_text};
pub use line::{Line, Source, What};
use sink::{Adding, FAREWELL, Sink};

/// A log, or none. Cheap to clone; clones share the file and the numbering.
#[derive(Debug, Clone, Default)]
pub struct Log(Option<Arc<Open>>);

#[derive(Debug)]
struct Open {
    /// The file, if there is one.
    sink: Option<Sink>,
    /// The areas whose lines are messages as well ([`messages`]).
    areas: Areas,
    format: Format,
    detail: Detail,
}

impl Log {
    /// A log that is off.
    #[must_use]
    pub fn off() -> Self {
        Log(None)
    }

    /// A log that writes columns to a new file.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn to_file(path: &Path) -> std::io::Result<Self> {
        Log::open(&LogConfig::new(path))
    }

    /// A log of this configuration.
    ///
    /// # Errors
    /// The file cannot be made, or no thread can be started.
    pub fn open(config: &LogConfig) -> std::io::Result<Self> {
        let sink = Some(Sink::open(config, header(config.format))?);
        let (format, detail, areas) = (config.format, config.detail, Areas::wanted());
        Ok(Log(Some(Arc::new(Open { sink, areas, format, detail }))))
    }

    /// A log without a file: its lines are messages for those who want them, or else it is off.
    #[must_use]
    pub fn without_file() -> Self {
        let areas = Areas::wanted();
        let (format, detail) = (Format::Tape, Detail::Events);
        let open = || Arc::new(Open { sink: None, areas, format, detail });
        Log((areas != Areas::default()).then(open))
    }

    /// The log of the environment, one for the whole process.
    pub fn from_environment() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        thread_local! {
            /// Writes the last lines when the program's thread ends: no static is dropped.
            static END: AtEnd = const { AtEnd };
        }
        let log = LOG.get_or_init(|| match LogConfig::from_environment() {
            Ok(None) => Log::without_file(),
            Ok(Some(config)) => Log::open(&config).unwrap_or_else(|error| {
                unlogged(&format!("{VARIABLE}: cannot write {}: {error}", config.path.display()))
            }),
            Err(why) => unlogged(&why),
        });
        if log.is_on() {
            // A thread that ends has no later lines.
            let _ = END.try_with(|_| ());
        }
        log.clone()
    }

    /// Whether the log is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a launch writes the instructions that it stands for.
    #[must_use]
    pub fn has_instructions(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.detail == Detail::Instructions)
    }

    /// Waits until all lines so far are in the file, for a second at most.
    pub fn flush(&self) {
        if let Some(sink) = self.0.as_ref().and_then(|open| open.sink.as_ref()) {
            sink.flush(FAREWELL);
        }
    }

    /// Writes a message that the dispatcher received or queued at this time.
    pub fn note(&self, now: Time, note: &Note) {
        if let Some(mut entry) = self.entry() {
            with_note(note, |line, words| entry.say(now, line, words.command, &words.details));
        }
    }

    /// Writes news of a server: who came, who went, and who was refused.
    pub fn report(&self, report: &Report) {
        if let Some(mut entry) = self.entry() {
            with_report(report, |line, details| entry.write(line, details));
        }
    }

    /// Starts an entry of several lines, which stay together. None if the log is off.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<LogEntry<'_>> {
        let open = self.0.as_deref()?;
        Some(LogEntry { open, lines: open.sink.as_ref().map(Sink::lines) })
    }

    /// Writes one line.
    #[inline]
    pub fn write(&self, line: &Line<'_>, details: fmt::Arguments<'_>) {
        if let Some(mut entry) = self.entry() {
            entry.write(line, details);
        }
    }

    /// Writes one line of numbers about this time.
    #[inline]
    pub(crate) fn tell(&self, now: Time, line: &Line<'_>, command: &'static str, facts: Facts) {
        if let Some(mut entry) = self.entry() {
            entry.tell(now, line, command, facts);
        }
    }

    /// Writes one line about a moment.
    #[inline]
    pub fn line(
        &self,
        what: What,
        source: Source<'_>,
        command: &str,
        size: u64,
        details: fmt::Arguments<'_>,
    ) {
        self.write(&Line::new(what, source, command).bytes(size), details);
    }
}

/// The line for a message that the dispatcher received or queued. The report of a segment is an
/// interval: the time in which the worker ran it.
pub(crate) fn with_note(note: &Note, write: impl FnOnce(&Line<'_>, &Words)) {
    let words = &note.words;
    let what = match (&note.party, note.way) {
        (Party::Session(_), Way::In) => What::Recv,
        (Party::Session(_), Way::Out) => What::Send,
        (Party::Worker(_), Way::In) => What::WorkerRecv,
        (Party::Worker(_), Way::Out) => What::WorkerSend,
    };
    let of = match note.party {
        Party::Session(id) => words.of.or(Some((id, 0))),
        Party::Worker(_) => words.of,
    };
    let line = Line::new(what, Source::Party(note.party), words.command);
    let line = line.bytes(words.size).took(words.took);
    write(&Line { of, live: words.live, ..line }, words);
}

/// The line for what a client or a worker did, as it says itself.
#[cfg(feature = "cluster")]
pub(crate) fn with_moment(
    party: Party,
    moment: &Moment,
    took: std::time::Duration,
    write: impl FnOnce(&Line<'_>, fmt::Arguments<'_>),
) {
    let (what, command) = match moment.doing {
        Doing::Record => (What::Record, "Record"),
        Doing::Wait => (What::Wait, "Wait"),
        Doing::Read => (What::Read, "Read"),
        Doing::Queue => (What::Queue, "Queue"),
        Doing::Launch => (What::Execute, "Launch"),
        Doing::Run => (What::Execute, "Run"),
        Doing::Compile => (What::Compile, "Plan"),
        Doing::Exchange => (What::Exchange, "Exchange"),
        Doing::Give => (What::Give, "Give"),
    };
    let of = match party {
        Party::Session(id) => Some((id, 0)),
        Party::Worker(_) => moment.of,
    };
    let line = Line { of, ..Line::new(what, Source::Party(party), command).took(took) };
    match moment.doing {
        Doing::Read | Doing::Exchange => write(&line.bytes(moment.n), format_args!("")),
        Doing::Give => match moment.to {
            Some(to) => write(&line.bytes(moment.n), format_args!("to {}", WorkerId(to))),
            // A worker that is gone.
            None => write(&line.bytes(moment.n), format_args!("")),
        },
        Doing::Launch | Doing::Run | Doing::Compile => {
            write(&line, format_args!("{} instructions", moment.n));
        }
        Doing::Record | Doing::Wait | Doing::Queue => write(&line, format_args!("")),
    }
}

/// The line for news of a server.
pub(crate) fn with_report(report: &Report, write: impl FnOnce(&Line<'_>, fmt::Arguments<'_>)) {
    let (what, command, of) = match report {
        Report::SessionOpened(session, _) => (What::Connect, "Session", Some((*session, 0))),
        Report::SessionClosed(session, ..) => (What::Disconnect, "Session", Some((*session, 0))),
        Report::WorkerJoined(..) => (What::Connect, "Worker", None),
        Report::WorkerLost(..) | Report::WorkerLeft(..) => (What::Disconnect, "Worker", None),
        Report::Refused(..) => (What::Error, "Refused", None),
    };
    let line = Line { of, ..Line::new(what, Source::Dispatcher, command) };
    write(&line, format_args!("{report}"));
}

/// Areas whose lines are messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Areas([bool; Area::ALL.len()]);

impl Areas {
    fn wanted() -> Areas {
        Areas(Area::ALL.map(|area| messages::wants(Rank::Detail, area)))
    }

    fn has(self, area: Area) -> bool {
        self.0[area as usize]
    }
}

/// The area of a line.
fn area(line: &Line<'_>) -> Area {
    match line.what {
        What::Compile => Area::Compile,
        What::Recv | What::Send | What::WorkerSend | What::WorkerRecv => Area::Dispatcher,
        What::ClientSend | What::ClientRecv | What::Record | What::Wait => Area::Client,
        What::Execute | What::Queue | What::Exchange | What::Give => Area::Worker,
        What::Read | What::Modifier | What::Connect | What::Disconnect | What::Error => {
            match line.source {
                Source::Client(_) => Area::Client,
                Source::Worker(_) => Area::Worker,
                Source::Party(_) | Source::Dispatcher => Area::Dispatcher,
            }
        }
    }
}

/// Flushes the log of the environment when it is dropped.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        Log::from_environment().flush();
    }
}

/// A log that cannot be opened does not fail the program, nor pass in silence.
fn unlogged(why: &str) -> Log {
    messages::print(&why);
    Log::off()
}

const COLUMNS: &str = "\
================================================================================
GT instruction log
elapsed  | sequence | event | source | command | size | details
================================================================================
";

/// The beginning of each file. The JSON form has the date of the time 0 and the process.
pub(crate) fn header(format: Format) -> String {
    match format {
        Format::Seed => COLUMNS.into(),
        Format::Tape => String::new(),
        Format::Json => {
            let began = u128::from(clock::wall_nanos()).saturating_sub(clock::now().as_nanos());
            let (host, pid) = (crate::identity::machine(), std::process::id());
            let mut text = String::from("{\"gt_log\":1,\"host\":");
            line::quoted(&mut text, format_args!("{host}"));
            text.push_str(",\"program\":");
            line::quoted(&mut text, format_args!("{}", crate::identity::program()));
            text + &format!(",\"pid\":{pid},\"began_ns\":{began}}}\n")
        }
    }
}

/// A line that is no event, but tells readers of the lines something.
#[must_use]
pub fn remark(format: Format, text: &str) -> String {
    match format {
        Format::Seed | Format::Tape => format!("# {text}\n"),
        Format::Json => {
            let mut line = String::from("{\"note\":");
            line::quoted(&mut line, format_args!("{text}"));
            line + "}\n"
        }
    }
}

/// Lines of the log that stay together.
#[derive(Debug)]
pub struct LogEntry<'a> {
    open: &'a Open,
    lines: Option<Adding<'a>>,
}

impl LogEntry<'_> {
    /// Adds a line. Line ends within `details` become ` / `.
    pub fn write(&mut self, line: &Line<'_>, details: fmt::Arguments<'_>) {
        self.print(clock::now(), line, Details::Text(details));
    }

    /// Adds a line of numbers about this time.
    #[inline]
    pub(crate) fn tell(&mut self, now: Time, line: &Line<'_>, command: &'static str, facts: Facts) {
        let is_message = self.open.areas != Areas::default();
        let told = self.lines.as_mut().filter(|_| !is_message);
        if !told.is_some_and(|lines| lines.state.tell(now, line, command, facts)) {
            self.print(now, &Line { command, ..*line }, Details::Facts(&facts));
        }
    }

    /// Adds a line of a message.
    pub(crate) fn say(&mut self, now: Time, line: &Line<'_>, command: &'static str, said: &Said) {
        match said {
            Said::Facts(facts) => self.tell(now, line, command, *facts),
            Said::Text(text) => self.print(now, line, Details::Text(format_args!("{text}"))),
        }
    }

    fn print(&mut self, now: Time, line: &Line<'_>, details: Details<'_>) {
        let area = area(line);
        if self.open.areas.has(area) {
            let mut text = String::new();
            line::print(&mut text, Format::Tape, (now, 0), line, details);
            messages::say(Rank::Detail, area, &text.trim_end());
        }
        let Some(lines) = &mut self.lines else { return };
        let format = self.open.format;
        lines.state.print(|to, n| line::print(to, format, (now, n), line, details));
    }

    /// Adds a line for an instruction, as the tape prints it, with the user's line and the signals
    /// in which it was recorded, and `more` after it.
    pub fn instruction(
        &mut self,
        line: &Line<'_>,
        instr: &Instr,
        signals: &Signals<'_>,
        more: fmt::Arguments<'_>,
    ) {
        let line = Line { command: instr.op.kind().spec().name, ..*line };
        let Instr { out, op, loc, inputs, .. } = instr;
        let operands = Joined(inputs);
        self.write(&line, format_args!("{out} = {op} {operands}{more} ({loc}){signals}"));
    }

    /// Adds a line for each instruction of a tape.
    pub fn instructions(&mut self, line: &Line<'_>, tape: &Tape, more: fmt::Arguments<'_>) {
        let mut signals = Signals::default();
        for entry in &tape.entries {
            signals.pass(entry);
            if let Entry::Instr(instr) = entry {
                self.instruction(line, instr, &signals, more);
            }
        }
    }
}

/// Operands with commas.
struct Joined<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, item) in self.0.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// The signals that are open at an entry of a tape. They print as ` [step/forward]`.
#[derive(Debug, Default)]
pub struct Signals<'a>(Vec<&'a str>);

impl<'a> Signals<'a> {
    /// The signals that are open after these entries.
    pub fn after(entries: &'a [Entry]) -> Signals<'a> {
        let mut signals = Signals::default();
        entries.iter().for_each(|entry| signals.pass(entry));
        signals
    }

    /// Their names with slashes.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.join("/")
    }

    /// Takes the next entry.
    pub fn pass(&mut self, entry: &'a Entry) {
        match entry {
            Entry::Enter(name) => self.0.push(name),
            Entry::Exit(_) => drop(self.0.pop()),
            Entry::Input { .. } | Entry::Instr(_) | Entry::Free(_) | Entry::Output { .. } => (),
        }
    }
}

/// The most signals that [`signals_of`] names.
const MAX_SIGNALS: usize = 8;

/// The different signals in which a tape's instructions were recorded, in order, some at most.
pub(crate) fn signals_of(tape: &Tape) -> Vec<String> {
    let (mut signals, mut found) = (Signals::default(), Vec::new());
    for entry in &tape.entries {
        signals.pass(entry);
        if matches!(entry, Entry::Instr(_)) && found.len() < MAX_SIGNALS && !signals.0.is_empty() {
            let path = signals.path();
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

impl fmt::Display for Signals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, " [{}]", self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn lines_of(config: LogConfig, act: impl FnOnce(&Log)) -> String {
        let log = Log::open(&config).unwrap();
        act(&log);
        log.flush();
        let text = std::fs::read_to_string(&config.path).unwrap();
        std::fs::remove_file(&config.path).unwrap();
        text
    }

    fn file(name: &str) -> LogConfig {
        LogConfig::new(std::env::temp_dir().join(format!("gt-{name}-{}.log", std::process::id())))
    }

    #[test]
    fn lines_are_numbered_and_have_the_columns() {
        let text = lines_of(file("columns"), |log| {
            log.line(What::Recv, Source::Client("c1"), "Run", 2048, format_args!("a\nb"));
            log.line(What::WorkerSend, Source::Worker("w0"), "Run", 0, format_args!("segment 3"));
        });
        let lines: Vec<&str> = text.lines().skip(4).collect();
        let columns: Vec<&str> = lines[0].split(" | ").collect();
        assert_eq!(columns[1..3], ["#0001", "RECV        "]);
        assert_eq!(columns[3], "CLIENT c1                  ");
        assert_eq!(columns[4..], ["Run            ", "    2.0 KB", "a / b"]);
        assert!(columns[0].ends_with('s') && columns[0].len() == 8, "{:?}", columns[0]);
        assert!(lines[1].contains("| #0002 |") && lines[1].ends_with("|            | segment 3"));
    }

    #[test]
    fn a_log_of_objects_begins_with_its_process() {
        let config = LogConfig { format: Format::Json, ..file("objects") };
        let text = lines_of(config, |log| {
            let line = Line::new(What::Execute, Source::Worker("w0"), "Launch");
            log.write(&line.took(Duration::from_micros(3)), format_args!("two"));
        });
        let (head, line) = text.split_once('\n').unwrap();
        let pid = format!("\"pid\":{},\"began_ns\":", std::process::id());
        assert!(head.starts_with("{\"gt_log\":1,\"host\":\"") && head.contains(&pid), "{head}");
        assert!(line.contains("\"took\":3.000,\"event\":\"EXECUTE\""), "{line}");
    }

    #[test]
    fn off_keeps_nothing() {
        assert!(Log::off().entry().is_none() && !Log::off().has_instructions());
    }
}
