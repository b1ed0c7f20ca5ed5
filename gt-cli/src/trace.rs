//! `gt-cli trace`: writes the events of a running server to a file, for `gt-cli visualize`.
//!
//! The server keeps its latest events while it is asked. A tracer that is too slow misses events,
//! which the file says, and delays nobody.

use crate::args::TraceArgs;
use crate::fault::Interrupted;
use crate::news;
use crate::signals::Interrupt;
use anyhow::{Context, Result, bail};
use gt_runtime::log::{Format, remark};
use gt_runtime::tracing::Tracer;
use gt_runtime::wire::Events;
use gt_runtime::zmq::Address;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time between questions.
const EVERY: Duration = Duration::from_millis(50);

pub(crate) fn trace(args: &TraceArgs, is_json: bool) -> Result<()> {
    let address: Address = args.connect.parse()?;
    let length = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    let mut tracer = Tracer::connect(&address, Some(length))?;
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    let interrupt = Interrupt::watch(move || stop.store(true, Ordering::Relaxed))?;
    let mut out = Output::create(args)?;
    let ended = record(&mut tracer, &mut out, args.events, &stopped);
    let path = out.path.clone();
    out.finish(is_json)?;
    ended.with_context(|| format!("{} has the events so far", path.display()))?;
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
    while !stopped.load(Ordering::Relaxed) {
        let Some(events) = tracer.next_events()? else { break };
        out.add(&events, most).with_context(|| format!("cannot write {}", out.path.display()))?;
        if most.is_some_and(|most| out.n >= most) {
            break;
        }
        tracer.wait(EVERY)?;
    }
    Ok(())
}

struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    n: u64,
    /// The number of the next line. None before the first answer.
    next: Option<u64>,
    lost: u64,
}

impl Output {
    fn create(args: &TraceArgs) -> Result<Output> {
        let path = args.output.clone().unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            args.dir.join(format!("trace_{}.jsonl", now.as_secs()))
        });
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Output { path, file: BufWriter::new(file), n: 0, next: None, lost: 0 })
    }

    fn add(&mut self, events: &Events, most: Option<u64>) -> std::io::Result<()> {
        match self.next {
            None => self.file.write_all(events.head.as_bytes())?,
            Some(next) if events.first > next => {
                let lost = events.first - next;
                self.lost += lost;
                let text = format!("{lost} events are missing here: the tracer was too slow");
                self.file.write_all(remark(Format::Json, &text).as_bytes())?;
            }
            Some(_) => {}
        }
        self.next = Some(events.next);
        let room = most.map_or(u64::MAX, |most| most - self.n);
        for line in events.lines.lines().take(usize::try_from(room).unwrap_or(usize::MAX)) {
            writeln!(self.file, "{line}")?;
            self.n += 1;
        }
        Ok(())
    }

    fn finish(mut self, is_json: bool) -> Result<()> {
        self.file.flush().with_context(|| format!("cannot write {}", self.path.display()))?;
        let (path, n, lost) = (self.path.display(), self.n, self.lost);
        match is_json {
            true => {
                news::print(&json!({"output": self.path, "events": n, "lost": lost}).to_string())
            }
            false => {
                let missing =
                    if lost > 0 { format!(", {lost} are missing") } else { String::new() };
                eprintln!("{path}: {n} events{missing}; draw them with: gt-cli visualize {path}");
            }
        }
        Ok(())
    }
}
