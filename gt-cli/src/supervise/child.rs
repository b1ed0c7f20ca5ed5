//! One supervised process: its start, its output and its end.
//!
//! Its standard input is a pipe that only the supervisor holds. The process ends when the pipe is
//! closed: by the supervisor, or by the supervisor's own end. No process outlives its supervisor,
//! and no signals are needed.

use super::policy::{Deaths, Ending, Next};
use crate::args::{LogArgs, WorkerArgs};
use anyhow::{Context, Result};
use gt_runtime::choice::Choice;
use gt_runtime::clock::{self, Time};
use gt_runtime::log;
use gt_runtime::worker::serve::REGISTERED;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

/// An event for the supervisor.
pub(super) enum Event {
    /// A line of a child's output, and whether it came on standard output.
    Line(usize, bool, String),
    /// One of a child's two streams ended.
    Closed(usize),
    /// The user has requested the end.
    Interrupt,
}

/// The state of a child.
pub(super) enum State {
    Running(Box<process::Child>),
    /// It is started again at this time.
    Waiting(Time),
    Done(Next),
}

/// A supervised process.
pub(super) struct Child {
    /// The mark of its lines: its device.
    pub(super) label: String,
    pub(super) state: State,
    /// The program, unless it is this one.
    program: Option<OsString>,
    words: Vec<OsString>,
    /// The number of its streams that are open.
    n_open: usize,
    started: Time,
    worked: bool,
    deaths: Deaths,
    /// Its last exit status. None before the first end, and if a signal ended it.
    code: Option<i32>,
}

impl Child {
    /// A child for the n-th device, before its start.
    pub(super) fn new(args: &WorkerArgs, choice: &Choice, n: usize, json: bool) -> Child {
        let label = label(choice, n);
        let words = words(args, choice, n, &label, json);
        Child::of(label, None, words)
    }

    /// A worker on another machine, which a remote shell such as ssh starts there, before its
    /// start. It ends when the shell does, because its standard input is then closed.
    pub(super) fn remote(args: &WorkerArgs, shell: &[OsString], host: &str, json: bool) -> Child {
        let mut words = ["worker", "--connect", &args.connect, "--one-of", "1", "--name", host]
            .into_iter()
            .chain(json.then_some("--json"))
            .map(OsString::from)
            .collect::<Vec<_>>();
        words.extend(["--reconnect".into(), args.reconnect.to_string().into()]);
        if let Some(threads) = args.threads {
            words.extend(["--threads".into(), threads.to_string().into()]);
        }
        words.extend(args.insecure.then(|| "--insecure".into()));
        let (engine, device) = (args.compute.engine, &args.compute.device);
        words.extend(engine.iter().flat_map(|it| ["--engine".into(), it.to_string().into()]));
        words.extend(device.iter().flat_map(|it| ["--device".into(), it.to_string().into()]));
        let (program, flags) = shell.split_first().map_or((None, &[][..]), |(p, f)| (Some(p), f));
        let there = flags.iter().cloned().chain([host.into(), "gt-cli".into()]);
        Child::of(host.to_owned(), program.cloned(), there.chain(words).collect())
    }

    fn of(label: String, program: Option<OsString>, words: Vec<OsString>) -> Child {
        Child {
            label,
            state: State::Waiting(Time::ZERO),
            program,
            words,
            n_open: 0,
            started: Time::ZERO,
            worked: false,
            deaths: Deaths::default(),
            code: None,
        }
    }

    /// Starts the child. Returns its process id.
    pub(super) fn start(&mut self, n: usize, tell: &Sender<Event>) -> Result<u32> {
        let program = match &self.program {
            Some(program) => program.into(),
            None => std::env::current_exe()
                .context("cannot find the path of this program, to start it again")?,
        };
        let mut command = Command::new(program);
        command.args(&self.words).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a worker")?;
        listen(n, true, child.stdout.take(), tell)?;
        listen(n, false, child.stderr.take(), tell)?;
        (self.n_open, self.started, self.worked) = (2, clock::now(), false);
        let pid = child.id();
        self.state = State::Running(Box::new(child));
        Ok(pid)
    }

    /// Notes a line of its output.
    pub(super) fn heard(&mut self, line: &str) {
        self.worked |= line.contains(REGISTERED);
    }

    /// Notes that one of its streams has ended. When both have ended, waits for its end, and
    /// returns the status and what follows.
    pub(super) fn closed(&mut self, stopping: bool) -> Result<Option<(ExitStatus, Next)>> {
        self.n_open = self.n_open.saturating_sub(1);
        let State::Running(child) = &mut self.state else { return Ok(None) };
        if self.n_open > 0 {
            return Ok(None);
        }
        let status = child.wait().context("cannot wait for a worker")?;
        let lived = clock::now().saturating_sub(self.started);
        self.code = status.code();
        let ending = Ending { code: self.code, lived, worked: self.worked };
        let next = match self.deaths.after(ending) {
            Next::Again(_) if stopping => Next::Stopped,
            next => next,
        };
        self.state = match next {
            Next::Again(wait) => State::Waiting(clock::now() + wait),
            over => State::Done(over),
        };
        Ok(Some((status, next)))
    }

    /// The cure, if a remote shell could not start it or the server does not know its key.
    pub(super) fn cure(&self) -> Option<String> {
        let shell = self.program.as_ref()?.to_string_lossy();
        let host = &self.label;
        Some(match self.code? {
            255 => format!("`{shell} {host} true` has to succeed without a password"),
            126 | 127 => format!(
                "install gt-cli on {host}, in the path of commands: `{shell} {host} gt-cli doctor`"
            ),
            _ if self.worked => return None,
            _ => format!(
                "if {host} has keys of its own: `{shell} {host} gt-cli keys trust` as its line \
                 says, and here `gt-cli keys add worker KEY {host}` with the KEY that \
                 `{shell} {host} gt-cli keys show` prints"
            ),
        })
    }

    /// Requests its end, or cancels its next start.
    pub(super) fn stop(&mut self) {
        match &mut self.state {
            State::Running(child) => drop(child.stdin.take()),
            State::Waiting(_) => self.state = State::Done(Next::Stopped),
            State::Done(_) => {}
        }
    }

    /// Kills it, if it still runs.
    pub(super) fn kill(&mut self) {
        if let State::Running(child) = &mut self.state {
            // An error means that it has just ended by itself.
            let _ = child.kill();
        }
    }
}

/// Starts a thread that passes on the lines of a child's stream.
fn listen(
    n: usize,
    stdout: bool,
    stream: Option<impl Read + Send + 'static>,
    tell: &Sender<Event>,
) -> Result<()> {
    let (stream, tell) = (stream.context("a worker without output")?, tell.clone());
    let work = move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            // Without a supervisor the line is lost, and the child ends too.
            let _ = tell.send(Event::Line(n, stdout, line));
        }
        let _ = tell.send(Event::Closed(n));
    };
    std::thread::Builder::new().spawn(work).context("cannot start a thread")?;
    Ok(())
}

/// The device of a child, with a number if several children share the device.
fn label(choice: &Choice, n: usize) -> String {
    let device = choice.device(n);
    match choice.devices.iter().take(n).filter(|other| **other == device).count() {
        0 => device.to_string(),
        before => format!("{device}#{}", before + 1),
    }
}

/// The command line of a child.
fn words(args: &WorkerArgs, choice: &Choice, n: usize, label: &str, json: bool) -> Vec<OsString> {
    let short = |name: &String| name.chars().take(48).collect::<String>();
    let name = args.name.as_ref().map_or_else(|| label.into(), |n| format!("{} {label}", short(n)));
    let (device, of) = (choice.device(n).to_string(), choice.devices.len().to_string());
    let mut words = ["worker", "--connect", &args.connect, "--engine", choice.engine.name()]
        .into_iter()
        .chain(["--device", &device, "--one-of", &of, "--name", &name])
        .chain(json.then_some("--json"))
        .map(OsString::from)
        .collect::<Vec<_>>();
    words.extend(["--reconnect".into(), args.reconnect.to_string().into()]);
    if let Some(threads) = args.threads {
        words.extend(["--threads".into(), threads.to_string().into()]);
    }
    if let Some(listen) = &args.listen {
        // Each process takes a free port.
        let host = listen.rsplit_once(':').map_or(&**listen, |(host, _)| host);
        words.extend(["--listen".into(), format!("{host}:0").into()]);
    }
    words.extend(args.insecure.then(|| "--insecure".into()));
    // Each process gets a log file of its own.
    let named = args.log.log_file.clone().map(OsString::from);
    let log = named.or_else(|| gt_settings::var_os(log::VARIABLE));
    if let Some(mut file) = log.filter(|file| !file.is_empty()) {
        file.push(format!(".{}", label.replace([':', '#'], "-")));
        words.extend(["--log-file".into(), file]);
    }
    // The form, the size and the detail of the log may be in the environment, which they inherit.
    let LogArgs { log_format, log_size, log_detail, .. } = &args.log;
    let flags = [
        log_format.map(|format| ("--log-format", format.to_string())),
        log_size.map(|size| ("--log-size", size.0.to_string())),
        log_detail.map(|detail| ("--log-detail", detail.to_string())),
    ];
    words.extend(flags.into_iter().flatten().flat_map(|(flag, value)| [flag.into(), value.into()]));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn parsed(line: &str) -> (WorkerArgs, Choice) {
        let cli = crate::args::Cli::try_parse_from(line.split(' ')).unwrap();
        let crate::args::Command::Worker(args) = cli.command else { panic!("no worker") };
        let choice = Choice::make(&args.compute.wish()).unwrap();
        (args, choice)
    }

    #[test]
    fn a_worker_on_another_machine_is_started_by_a_remote_shell() {
        let line = "gt-cli worker --connect head:1 --threads 3 --device cuda:0,cuda:1";
        let crate::args::Command::Worker(args) =
            crate::args::Cli::try_parse_from(line.split(' ')).unwrap().command
        else {
            panic!("no worker")
        };
        let child = Child::remote(&args, &["ssh".into(), "-x".into()], "node7", false);
        let words = child.words.join(&OsString::from(" "));
        assert_eq!(child.program, Some("ssh".into()));
        assert_eq!(
            words,
            "-x node7 gt-cli worker --connect head:1 --one-of 1 --name node7 --reconnect 60 \
             --threads 3 --device cuda:0,cuda:1"
        );
    }

    #[test]
    fn the_cure_of_a_worker_that_ssh_does_not_start_is_named() {
        let (args, _) = parsed("gt-cli worker --connect head:1");
        let mut child = Child::remote(&args, &["ssh".into()], "node7", false);
        assert_eq!(child.cure(), None);
        for (code, cure) in [(255, "`ssh node7 true`"), (127, "install"), (1, "keys add worker")] {
            child.code = Some(code);
            assert!(child.cure().unwrap().contains(cure), "{code}");
        }
        let here = Child { code: Some(255), ..Child::of("cpu".into(), None, Vec::new()) };
        assert_eq!(here.cure(), None);
    }

    #[test]
    fn a_child_gets_one_device_a_name_of_its_own_and_what_was_asked_for() {
        let line = "gt-cli worker --connect pi:1 --device cpu,cpu --name a --threads 3 \
                    --log-file gt.log --log-format json";
        let (args, choice) = parsed(line);
        let label = label(&choice, 1);
        let words = words(&args, &choice, 1, &label, true).join(&OsString::from(" "));
        assert_eq!(
            words,
            "worker --connect pi:1 --engine native --device cpu --one-of 2 --name a cpu#2 --json \
             --reconnect 60 --threads 3 --log-file gt.log.cpu-2 --log-format json"
        );
    }
}
