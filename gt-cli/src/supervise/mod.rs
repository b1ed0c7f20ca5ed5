//! `gt-cli worker` on several devices: a process for each, started, kept alive and ended by this
//! one.
//!
//! What the processes say is passed on, marked with their device. One that dies is started again,
//! as [`policy`] says; the others go on meanwhile. Ctrl-C and SIGTERM end all of them; so does the
//! death of this process.

mod child;
mod policy;

use crate::args::WorkerArgs;
use crate::fault::Interrupted;
use crate::news::news;
use crate::signals::{INTERRUPTED, Interrupt};
use anyhow::{Result, bail};
use child::{Child, Event, State};
use gt_runtime::Shutdown;
use gt_runtime::choice::Choice;
use gt_runtime::clock::{self, Time};
use policy::Next;
use serde_json::{Value, json};
use std::io::Read;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a process may take to wind down before it ends itself.
const GRACE: Duration = Duration::from_secs(10);
/// How much later its supervisor ends it.
const KILL_AFTER: Duration = Duration::from_secs(15);

/// Runs a worker on each device until all have ended.
pub(crate) fn supervise(args: &WorkerArgs, choice: &Choice, json: bool) -> Result<()> {
    let (tell, events) = channel();
    let asked = tell.clone();
    let interrupt = Interrupt::watch(move || {
        // The supervisor listens as long as it lives.
        let _ = asked.send(Event::Interrupt);
    })?;
    let children = (0..choice.devices.len()).map(|n| Child::new(args, choice, n, json)).collect();
    let mut supervisor = Supervisor { children, tell, json, stopping: None };
    let ran = supervisor.run(&events);
    supervisor.children.iter_mut().for_each(Child::kill);
    ran?;
    supervisor.verdict(interrupt.asked())
}

/// In a supervised process: ends it when its supervisor wants so or is no more.
pub(crate) fn end_with_supervisor(shutdown: Shutdown) {
    let watch = move || {
        let mut nothing = Vec::new();
        // Nothing is ever written: it ends when the other side is closed.
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
    /// Since when everybody is asked to end.
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

    /// How long nothing is to be done.
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

    /// Passes on what a child said, marked with its device.
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

    /// Says something of a child, for people or as an object.
    fn say(&self, n: usize, text: &str, mut event: Value) {
        let label = &self.children[n].label;
        if self.json {
            event["device"] = label.as_str().into();
            news(true, &event.to_string());
        } else {
            news(false, &format!("[{label}] {text}"));
        }
    }

    /// What all of it came to.
    fn verdict(&self, interrupted: bool) -> Result<()> {
        let is = |child: &&Child, next| matches!(child.state, State::Done(end) if end == next);
        let failed = self.children.iter().filter(|child| is(child, Next::Failed));
        let failed = failed.map(|child| child.label.as_str()).collect::<Vec<_>>();
        let stopped = self.children.iter().any(|child| is(&child, Next::Stopped));
        if interrupted {
            bail!(Interrupted("the workers were stopped; the server was told"));
        }
        if !failed.is_empty() {
            bail!("given up: the worker on {}", failed.join(", on "));
        }
        if stopped {
            bail!(Interrupted("a worker was stopped; the server was told"));
        }
        Ok(())
    }
}

/// How a child ended and what follows, for people.
fn ended(status: ExitStatus, next: Next) -> String {
    match next {
        Next::Over => "ended".into(),
        Next::Stopped => format!("was stopped ({status})"),
        Next::Again(wait) => format!("died ({status}); starts again in {wait:?}"),
        Next::Failed => format!("died ({status}); it is given up"),
    }
}
