//! `gt-cli worker` on several devices: this process starts, supervises and ends one process for
//! each device.
//!
//! Their output is passed on, marked with the device. A process that dies is started again by the
//! rules of [`policy`], and the others go on meanwhile. Ctrl-C and SIGTERM end all of them, and so
//! does the death of this process.

mod child;
mod policy;

use crate::args::WorkerArgs;
use crate::fault::{Interrupted, advised};
use crate::news::news;
use crate::signals::{INTERRUPTED, Interrupt};
use anyhow::{Result, anyhow, bail};
use child::{Child, Event, State};
use gt_runtime::Shutdown;
use gt_runtime::choice::Choice;
use gt_runtime::clock::{self, Time};
use policy::Next;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Read;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a process may take for a clean end before it exits.
const GRACE: Duration = Duration::from_secs(10);
/// How long its supervisor waits before it kills the process.
const KILL_AFTER: Duration = Duration::from_secs(15);

/// Runs a worker on each device until all have ended.
pub(crate) fn supervise(args: &WorkerArgs, choice: &Choice, json: bool) -> Result<()> {
    let (tell, events) = channel();
    let stop = |tell: Sender<Event>| {
        move || {
            // An error means that the supervisor has ended.
            let _ = tell.send(Event::Interrupt);
        }
    };
    // SIGTERM is how services are stopped, so it is no failure.
    let interrupt = Interrupt::watch_or(stop(tell.clone()), stop(tell.clone()))?;
    let children = Crew::Here(choice).children(args, json);
    let mut supervisor = Supervisor { children, tell, json, stopping: None };
    let ran = supervisor.run(&events);
    supervisor.children.iter_mut().for_each(Child::kill);
    ran?;
    supervisor.verdict(interrupt.asked())
}

/// The machines of workers.
pub(crate) enum Crew<'a> {
    /// This one, with a worker on each device of the choice.
    Here(&'a Choice),
    /// Others, each with a worker that a remote shell starts there.
    There(&'a [OsString], &'a [String]),
}

impl Crew<'_> {
    fn children(&self, args: &WorkerArgs, json: bool) -> Vec<Child> {
        match self {
            Crew::Here(choice) => {
                (0..choice.devices.len()).map(|n| Child::new(args, choice, n, json)).collect()
            }
            Crew::There(shell, hosts) => {
                hosts.iter().map(|host| Child::remote(args, shell, host, json)).collect()
            }
        }
    }
}

/// The workers of another command, supervised on a thread of this process.
pub(crate) struct Team {
    tell: Sender<Event>,
    thread: JoinHandle<Result<()>>,
}

impl Team {
    /// Starts the workers of a crew.
    pub(crate) fn start(args: &WorkerArgs, crew: Crew<'_>, json: bool) -> Result<Team> {
        let (tell, events) = channel();
        let children = crew.children(args, json);
        let mut supervisor = Supervisor { children, tell: tell.clone(), json, stopping: None };
        let work = move || {
            let ran = supervisor.run(&events);
            supervisor.children.iter_mut().for_each(Child::kill);
            ran?;
            supervisor.verdict(false)
        };
        let thread = std::thread::Builder::new().name("gt-team".into()).spawn(work)?;
        Ok(Team { tell, thread })
    }

    /// Whether all workers have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the workers, and says whether one had failed for good.
    pub(crate) fn stop(self) -> Result<()> {
        // An error means that all have ended.
        let _ = self.tell.send(Event::Interrupt);
        let over =
            self.thread.join().map_err(|_| anyhow!("the supervisor of the workers panicked"))?;
        if over.as_ref().is_err_and(|error| error.is::<Interrupted>()) { Ok(()) } else { over }
    }
}

/// In a supervised process: ends it when its supervisor closes standard input or has ended.
pub(crate) fn end_with_supervisor(shutdown: Shutdown) {
    let watch = move || {
        let mut nothing = Vec::new();
        // The supervisor writes nothing, so this returns when the pipe is closed.
        let _ = std::io::stdin().read_to_end(&mut nothing);
        shutdown.shut_down("its supervisor ended it");
        std::thread::sleep(GRACE);
        std::process::exit(INTERRUPTED);
    };
    std::thread::spawn(watch);
}

struct Supervisor {
    children: Vec<Child>,
    tell: Sender<Event>,
    json: bool,
    /// Since when all processes are ending.
    stopping: Option<Time>,
}

impl Supervisor {
    fn run(&mut self, events: &Receiver<Event>) -> Result<()> {
        loop {
            self.start_due()?;
            if self.children.iter().all(|child| matches!(child.state, State::Done(_))) {
                return Ok(());
            }
            match events.recv_timeout(self.patience()) {
                Ok(Event::Line(n, stdout, line)) => self.pass_on(n, stdout, &line),
                Ok(Event::Closed(n)) => self.closed(n)?,
                Ok(Event::Interrupt) => self.stop(),
                Err(RecvTimeoutError::Timeout) if self.stopping.is_some() => {
                    self.children.iter_mut().for_each(Child::kill);
                }
                Err(_) => {}
            }
        }
    }

    /// How long there is nothing to do.
    fn patience(&self) -> Duration {
        let due = |child: &Child| match child.state {
            State::Waiting(due) => Some(due),
            State::Running(_) | State::Done(_) => None,
        };
        let dues = self.children.iter().filter_map(due);
        let first = dues.chain(self.stopping.map(|since| since + KILL_AFTER)).min();
        let left = first.map(|due| due.saturating_sub(clock::now()));
        left.unwrap_or(KILL_AFTER).max(Duration::from_millis(1))
    }

    fn start_due(&mut self) -> Result<()> {
        for n in 0..self.children.len() {
            if matches!(self.children[n].state, State::Waiting(due) if due <= clock::now()) {
                let pid = self.children[n].start(n, &self.tell)?;
                let event = json!({ "event": "started", "pid": pid });
                self.say(n, &format!("started as process {pid}"), event);
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.stopping.get_or_insert(clock::now());
        self.children.iter_mut().for_each(Child::stop);
    }

    fn closed(&mut self, n: usize) -> Result<()> {
        let Some((status, next)) = self.children[n].closed(self.stopping.is_some())? else {
            return Ok(());
        };
        let mut event = json!({ "event": "ended", "status": status.code() });
        if let Next::Again(wait) = next {
            event["again_in_s"] = wait.as_secs_f64().into();
        }
        self.say(n, &ended(status, next), event);
        Ok(())
    }

    /// Passes on a line of a child, marked with its device.
    fn pass_on(&mut self, n: usize, stdout: bool, line: &str) {
        self.children[n].heard(line);
        let label = &self.children[n].label;
        match serde_json::from_str(line) {
            Ok(Value::Object(mut object)) if self.json => {
                object.insert("device".into(), label.as_str().into());
                news(stdout, &Value::Object(object).to_string());
            }
            _ => self.say(n, line, json!({ "event": "news", "text": line })),
        }
    }

    /// Prints news of a child, as a line or as an object.
    fn say(&self, n: usize, text: &str, mut event: Value) {
        let label = &self.children[n].label;
        if self.json {
            event["device"] = label.as_str().into();
            news(true, &event.to_string());
        } else {
            news(false, &format!("[{label}] {text}"));
        }
    }

    /// The result of the whole command.
    fn verdict(&self, interrupted: bool) -> Result<()> {
        let is = |child: &&Child, next| matches!(child.state, State::Done(end) if end == next);
        let failed = self.children.iter().filter(|child| is(child, Next::Failed));
        let (failed, cures): (Vec<_>, Vec<_>) =
            failed.map(|child| (child.label.as_str(), child.cure())).unzip();
        let stopped = self.children.iter().any(|child| is(&child, Next::Stopped));
        if interrupted {
            bail!(Interrupted("the workers were stopped; the server was told"));
        }
        if !failed.is_empty() {
            let message = format!("not started again: the worker on {}", failed.join(", on "));
            bail!(match cures.into_iter().flatten().next() {
                Some(cure) => advised(message, cure),
                None => anyhow!(message),
            });
        }
        if stopped {
            bail!(Interrupted("a worker was stopped; the server was told"));
        }
        Ok(())
    }
}

/// A line about the end of a child.
fn ended(status: ExitStatus, next: Next) -> String {
    match next {
        Next::Over => "ended".into(),
        Next::Stopped => format!("was stopped ({status})"),
        Next::Again(wait) => format!("died ({status}); starts again in {wait:?}"),
        Next::Failed => format!("died ({status}); it is not started again"),
    }
}
