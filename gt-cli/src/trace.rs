//! `gt-cli trace`: writes the events of a running server to a file, for `gt-cli visualize`.
//!
//! The server keeps its latest events while it is asked. A tracer that is too slow misses events,
//! which the file says, and delays nobody.

use crate::args::TraceArgs;
use crate::fault::{Interrupted, advised};
use crate::signals::Interrupt;
use crate::{files, news, who};
use anyhow::{Context, Result, bail, ensure};
use gt_runtime::log::{Format, remark};
use gt_runtime::status::ask;
use gt_runtime::tracing::Tracer;
use gt_runtime::wire::{Events, Status};
use gt_runtime::zmq::Address;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::create_dir_all;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time between questions.
const EVERY: Duration = Duration::from_millis(50);
/// After the last event that is wanted, so many more questions in so short a time. Clients and
/// workers answer by what they did until then.
const LATE: (usize, Duration) = (4, Duration::from_millis(25));

pub(crate) fn trace(args: &TraceArgs, is_json: bool) -> Result<()> {
    let address: Address = args.connect.parse()?;
    let length = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    ensure!(
        !length.is_zero() && args.events != Some(0),
        advised("a trace of nothing was asked for", "-s 5 for five seconds, -n 1000 for events")
    );
    let mut tracer = Tracer::connect(&address, Some(length))?;
    // Sessions and workers that are there already tell their names no more.
    let names = ask(&address).map(|status| names(&status)).unwrap_or_default();
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    let interrupt = Interrupt::watch(move || stop.store(true, Ordering::Relaxed))?;
    let mut out = Output { names, ..Output::create(args)? };
    let ended = record(&mut tracer, &mut out, args.events, &stopped);
    let path = out.path.clone();
    out.finish(is_json)?;
    let name = if files::is_dash(&path) { "the output".into() } else { files::shown(&path) };
    ended.with_context(|| format!("{name} has the events so far"))?;
    if interrupt.asked() {
        bail!(Interrupted("the trace was stopped; the file has the events so far"));
    }
    Ok(())
}

/// Writes events until it is stopped, has enough, or the server answers no more.
fn record(
    tracer: &mut Tracer,
    out: &mut Output,
    most: Option<u64>,
    stopped: &AtomicBool,
) -> Result<()> {
    let mut n_late = 0;
    while !stopped.load(Ordering::Relaxed) {
        let Some(events) = tracer.next_events()? else { break };
        out.add(&events, most).with_context(|| cannot_write(&out.path))?;
        let is_enough = most.is_some_and(|most| out.n >= most);
        if is_enough && n_late == LATE.0 {
            break;
        }
        n_late += usize::from(is_enough);
        tracer.wait(if is_enough { LATE.1 } else { EVERY })?;
    }
    Ok(())
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", files::shown_output(path))
}

/// When an event was over, in microseconds.
fn end(line: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Time {
        at: f64,
        #[serde(default)]
        took: f64,
    }
    serde_json::from_str(line).ok().map(|time: Time| time.at + time.took)
}

/// A line with the programs of sessions and the given names of workers, by their numbers.
fn names(status: &Status) -> String {
    let given = |name: &str, id: &str| Some((id.to_owned(), who::given(name, id)?.to_owned()));
    let sessions = status.sessions.iter().filter_map(|s| given(&s.name, &s.id));
    let workers = status.workers.iter().filter_map(|w| given(&w.name, &w.id));
    let names: BTreeMap<String, String> = sessions.chain(workers).collect();
    if names.is_empty() { String::new() } else { json!({ "names": names }).to_string() + "\n" }
}

struct Output {
    path: PathBuf,
    /// A line that follows the first one.
    names: String,
    file: BufWriter<Box<dyn Write>>,
    n: u64,
    /// The number of the next line. None before the first answer.
    next: Option<u64>,
    lost: u64,
    /// When the last of the wanted events was over.
    until: f64,
}

impl Output {
    fn create(args: &TraceArgs) -> Result<Output> {
        let path = match &args.output {
            Some(path) => path.clone(),
            None => {
                let dir = args.dir.display();
                create_dir_all(&args.dir).with_context(|| format!("cannot make {dir}"))?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                args.dir.join(format!("trace_{}.jsonl", now.as_secs()))
            }
        };
        let file = files::create(&path).with_context(|| cannot_write(&path))?;
        let (names, file) = (String::new(), BufWriter::new(file));
        Ok(Output { path, names, file, n: 0, next: None, lost: 0, until: 0.0 })
    }

    /// Adds events, and when there are as many as wanted only those of the same time: a client or
    /// worker tells them later than the server its own.
    fn add(&mut self, events: &Events, most: Option<u64>) -> std::io::Result<()> {
        match self.next {
            None => {
                self.file.write_all(events.head.as_bytes())?;
                self.file.write_all(self.names.as_bytes())?;
            }
            Some(next) if events.first > next => {
                let lost = events.first - next;
                self.lost += lost;
                let text = format!("{lost} events are missing here: the tracer was too slow");
                self.file.write_all(remark(Format::Json, &text).as_bytes())?;
            }
            Some(_) => {}
        }
        self.next = Some(events.next);
        for line in events.lines.lines() {
            if let Some(most) = most {
                match end(line) {
                    Some(end) if self.n < most => self.until = self.until.max(end),
                    Some(end) if end > self.until => continue,
                    _ => {}
                }
            }
            writeln!(self.file, "{line}")?;
            self.n += 1;
        }
        Ok(())
    }

    fn finish(mut self, is_json: bool) -> Result<()> {
        self.file.flush().with_context(|| cannot_write(&self.path))?;
        let (path, n, lost) = (self.path.display(), self.n, self.lost);
        let said = json!({"output": self.path, "events": n, "lost": lost});
        let missing = if lost > 0 { format!(", {lost} are missing") } else { String::new() };
        match (is_json, files::is_dash(&self.path)) {
            // Standard output is the trace.
            (true, true) => eprintln!("{said}"),
            (true, false) => news::print(&said.to_string()),
            (false, true) => eprintln!("{n} events{missing}"),
            (false, false) if n == 0 => eprintln!("{path}: no events: nobody used the server"),
            (false, false) => {
                eprintln!("{path}: {n} events{missing}; draw them with: gt-cli visualize {path}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_trace_is_made_and_a_dash_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("traces/today");
        let args = |output| TraceArgs {
            connect: String::new(),
            seconds: 1.0,
            events: None,
            dir: dir.clone(),
            output,
        };
        assert_eq!(Output::create(&args(Some("-".into()))).unwrap().path, Path::new("-"));
        assert!(!Path::new("-").exists() && !dir.exists());
        let out = Output::create(&args(None)).unwrap();
        assert!(out.path.starts_with(&dir) && out.path.exists());
    }

    #[test]
    fn sessions_and_workers_that_are_there_have_names() {
        let session = |id: &str, name: &str| gt_runtime::wire::SessionStatus {
            id: id.into(),
            name: name.into(),
            ..Default::default()
        };
        let worker = |id: &str, name: &str| gt_runtime::wire::WorkerStatus {
            id: id.into(),
            name: name.into(),
            ..Default::default()
        };
        let mut status = Status::default();
        assert_eq!(names(&status), "");
        status.sessions =
            vec![session("s1", "s1 gpt (pi, pid 7)"), session("s2", "s2 (pi, pid 8)")];
        status.workers =
            vec![worker("w1", "w1 node1 (pi, pid 9)"), worker("w2", "w2 (pi, pid 10)")];
        assert_eq!(names(&status), "{\"names\":{\"s1\":\"gpt\",\"w1\":\"node1\"}}\n");
    }

    #[test]
    fn what_was_done_until_the_last_event_is_added_when_it_is_told_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let file = BufWriter::new(files::create(&path).unwrap());
        let (names, next) = (String::new(), None);
        let mut out = Output { path: path.clone(), names, file, n: 0, next, lost: 0, until: 0.0 };
        let event = |at: u64, took: u64| format!("{{\"at\":{at},\"took\":{took}}}\n");
        let mut add = |first: u64, times: &[(u64, u64)]| {
            let lines = times.iter().map(|(at, took)| event(*at, *took)).collect();
            let next = first + times.len() as u64;
            out.add(&Events { head: String::new(), first, next, lines }, Some(3)).unwrap();
            out.n
        };
        assert_eq!(add(1, &[(10, 0), (20, 0)]), 2);
        assert_eq!(add(3, &[(30, 0), (40, 0), (12, 3)]), 4);
        assert_eq!(add(6, &[(25, 5), (29, 5), (50, 0)]), 5);
        out.finish(false).unwrap();
        let expected: String = [(10, 0), (20, 0), (30, 0), (12, 3), (25, 5)]
            .map(|(at, took)| event(at, took))
            .concat();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}
