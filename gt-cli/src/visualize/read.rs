//! Reads traces: files that `gt-cli trace` wrote, and instruction logs in JSON.
//!
//! A file begins with a line about its process and its clock, so that the files of several
//! processes have one time. Everything is bounded. A last line that is cut off is left out; any
//! other line that is no event is an error with its number.

use crate::fault::advised;
use crate::{files, who};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// What stands at the beginning of a profile.
const PROFILE: &[u8] = b"\"gt_profile\"";
/// The most bytes of a line.
const MAX_LINE: u64 = 1 << 20;
/// The most events of all files together.
const MAX_EVENTS: usize = 2_000_000;
/// The most notes, and the most characters of each.
const MAX_NOTES: usize = 100;
const MAX_NOTE: usize = 200;
/// The most names of sessions and workers.
const MAX_NAMES: usize = 10_000;
/// The latest time of an event, in microseconds: a year.
const MAX_TIME: f64 = 3.2e13;

/// The first line of a file.
#[derive(Deserialize)]
struct Head {
    gt_log: u32,
    #[serde(default)]
    host: String,
    #[serde(default)]
    program: String,
    #[serde(default)]
    pid: u32,
    began_ns: u128,
}

/// A line that is no event.
#[derive(Deserialize)]
struct Remark {
    note: String,
}

/// A line with the names of sessions and workers, by their numbers.
#[derive(Deserialize)]
struct Names {
    names: BTreeMap<String, String>,
}

/// The side of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Party {
    Client,
    Server,
    Worker,
}

/// An event. Times are in microseconds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Event {
    pub(super) at: f64,
    #[serde(default)]
    pub(super) took: f64,
    pub(super) event: String,
    pub(super) party: Party,
    pub(super) name: String,
    pub(super) command: String,
    #[serde(default)]
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) session: String,
    #[serde(default)]
    pub(super) live: u64,
    #[serde(default)]
    pub(super) details: String,
}

/// The events of all files, in order of their time.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) events: Vec<Event>,
    /// The processes that wrote the files.
    pub(super) processes: Vec<String>,
    /// The names of sessions and workers that were there when the trace began, by their numbers.
    pub(super) names: BTreeMap<String, String>,
    /// What readers should know: lines that are missing, or were cut off.
    pub(super) notes: Vec<String>,
}

impl Trace {
    /// Adds an event. A worker is `w2` in the log of its server and `w2 node1 (pi, pid 7)` in its
    /// own: it is called by its number, and keeps its name aside.
    fn add(&mut self, mut event: Event) {
        if event.party != Party::Server
            && let Some((id, rest)) = event.name.split_once(' ')
            && is_number(id)
        {
            if self.names.len() < MAX_NAMES
                && !self.names.contains_key(id)
                && let Some(name) = who::given(rest, id)
            {
                self.names.insert(id.to_owned(), name.to_owned());
            }
            event.name.truncate(id.len());
        }
        self.events.push(event);
    }

    /// Adds a note, without the characters by which a file could write on a terminal what it likes.
    /// There are a few notes at most.
    fn note(&mut self, text: &str) {
        if self.notes.len() < MAX_NOTES {
            let plain = |c: char| if c.is_control() { '?' } else { c };
            self.notes.push(text.chars().take(MAX_NOTE).map(plain).collect());
        }
    }
}

/// Reads files of one run.
pub(super) fn traces(paths: &[PathBuf]) -> Result<Trace> {
    let (mut trace, mut clocks) = (Trace::default(), Vec::new());
    let mut known = BTreeSet::new();
    for path in paths {
        // By another name it is the same file.
        if !known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            continue;
        }
        let (began, first) = file(path, &mut trace).with_context(|| files::shown(path))?;
        clocks.push((began, first, trace.events.len()));
    }
    let zero = clocks.iter().map(|(began, ..)| *began).min().unwrap_or(0);
    for (began, first, end) in clocks {
        let later = (began - zero) as f64 / 1e3;
        ensure!(
            later <= MAX_TIME,
            advised("the files are of runs more than a year apart", "draw them one by one")
        );
        trace.events[first..end].iter_mut().for_each(|event| event.at += later);
    }
    ensure!(
        !trace.events.is_empty(),
        advised("there are no events", "trace while programs run, or for longer: -s 10")
    );
    trace.events.sort_by(|a, b| a.at.total_cmp(&b.at));
    let start = trace.events[0].at;
    trace.events.iter_mut().for_each(|event| event.at -= start);
    Ok(trace)
}

/// Reads a file. Returns the time of its beginning, and the number of its first event.
fn file(path: &Path, trace: &mut Trace) -> Result<(u128, usize)> {
    let what = advised(
        "this is no trace",
        "use a file of `gt-cli trace`, or a log with GT_LOG_FORMAT=json",
    );
    let mut lines = Lines { from: BufReader::new(files::open(path)?), n: 0, bytes: Vec::new() };
    ensure!(
        !is_profile(lines.from.fill_buf()?),
        advised(
            "this is a profile, which is no trace",
            "`gt-cli profile FILE` prints it, and ui.perfetto.dev draws it",
        )
    );
    let head: Option<Head> = match lines.next()? {
        Some(line) => serde_json::from_slice(line).ok(),
        None => None,
    };
    let Some(head) = head.filter(|head| head.gt_log == 1) else { return Err(what) };
    trace.processes.push(format!("{} ({}, pid {})", head.program, head.host, head.pid));
    let first = trace.events.len();
    loop {
        let n = lines.n + 1;
        let Some(line) = lines.next()? else { break };
        if line.starts_with(b"{\"note\":")
            && let Ok(remark) = serde_json::from_slice::<Remark>(line)
        {
            trace.note(&remark.note);
            continue;
        }
        if line.starts_with(b"{\"names\":")
            && let Ok(Names { names }) = serde_json::from_slice(line)
        {
            let room = MAX_NAMES.saturating_sub(trace.names.len());
            trace.names.extend(names.into_iter().take(room));
            continue;
        }
        let is_whole = line.ends_with(b"\n");
        match serde_json::from_slice::<Event>(line) {
            Ok(event) if is_possible(&event) => trace.add(event),
            Ok(_) => bail!("line {n} has a time that no event has"),
            // The process was killed while it wrote.
            Err(_) if !is_whole => trace.note(&format!("line {n}, the last, is cut off")),
            Err(error) => bail!("line {n} is no event: {error}"),
        }
        if trace.events.len() >= MAX_EVENTS {
            trace.note(&format!("only the first {MAX_EVENTS} events are drawn"));
            break;
        }
    }
    Ok((head.began_ns, first))
}

/// Whether a file that begins so is a profile.
fn is_profile(start: &[u8]) -> bool {
    start.windows(PROFILE.len()).take(100).any(|part| part == PROFILE)
}

/// Whether a word is the number of a session or a worker: `w2`.
fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix(['s', 'w']).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn is_possible(event: &Event) -> bool {
    let is_time = |time: f64| (0.0..=MAX_TIME).contains(&time);
    is_time(event.at) && is_time(event.took)
}

/// Lines of a file, each of a bounded length.
struct Lines<R> {
    from: R,
    n: usize,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<&[u8]>> {
        self.bytes.clear();
        self.n += 1;
        let read = (&mut self.from).take(MAX_LINE).read_until(b'\n', &mut self.bytes);
        let n = read.with_context(|| format!("line {} cannot be read", self.n))?;
        ensure!((n as u64) < MAX_LINE, "line {} is longer than {MAX_LINE} bytes", self.n);
        Ok((n > 0).then_some(self.bytes.as_slice()))
    }
}
