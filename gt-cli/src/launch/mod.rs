//! `gt-cli launch`: a server, its workers and a program in one terminal.
//!
//! The server is a thread of this process, the workers are processes that it supervises, and the
//! program is a process that connects to the server. Lines of the server and the workers go to
//! standard error, each with its origin in front. Standard input, output and error of the program
//! are those of this command, so that it can be part of a pipe.
//!
//! Guarantees: when the program ends, everything ends, and the exit status is the program's. When
//! this process ends, however it ends, so do the workers. Every wait has a deadline.

mod program;

use crate::args::{LaunchArgs, LogArgs, WorkerArgs};
use crate::fault::{Interrupted, advised};
use crate::news::tell;
use crate::serve::exposure;
use crate::signals::Interrupt;
use crate::supervise::{Crew, Team};
use anyhow::{Context, Result, bail, ensure};
use gt_runtime::Shutdown;
use gt_runtime::choice::Choice;
use gt_runtime::clock;
use gt_runtime::dispatcher::Config;
use gt_runtime::log::Log;
use gt_runtime::server::{Observer, Server, ServerConfig};
use gt_runtime::zmq::{Address, SocketError};
use program::Program;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long workers may take to join.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often what runs is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// News of this process.
enum Event {
    /// Ctrl-C or SIGTERM.
    Interrupt,
}

pub(crate) fn launch(args: &LaunchArgs, json: bool) -> Result<()> {
    let (send, events) = channel();
    let interrupt = Interrupt::watch(move || {
        // An error means that the launch is over.
        let _ = send.send(Event::Interrupt);
    })?;
    let hub = Hub::start(args, json)?;
    let team = start_workers(args, &hub.address, json);
    let done = team.and_then(|team| {
        let ran = run(args, &hub, &team, &events, json);
        // Why a worker failed is worth more than that the program then failed.
        team.stop().and(ran)
    });
    hub.stop()?;
    match (done?, interrupt.asked()) {
        (Some(0), _) => Ok(()),
        (Some(status), _) => bail!(crate::fault::Silent(status)),
        (None, _) => bail!(Interrupted("the server and its workers were stopped")),
    }
}

/// Runs the program, or waits for Ctrl-C without one. Returns the program's exit status.
fn run(
    args: &LaunchArgs,
    hub: &Hub,
    team: &Team,
    events: &Receiver<Event>,
    json: bool,
) -> Result<Option<i32>> {
    let n = usize::from(args.workers) * usize::from(args.hosts.is_empty()) + args.hosts.len();
    if !hub.joined(n, team, events)? {
        return Ok(None);
    }
    let Some((name, words)) = args.program.split_first() else {
        tell(json, &format!("ready: GT_CONNECT={} PROGRAM; Ctrl-C ends it", hub.address));
        while !team.is_over() {
            match events.recv_timeout(GLANCE) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Interrupt) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
        bail!("all workers have ended");
    };
    let mut program = Program::start((name, words), &hub.address, args.insecure)?;
    loop {
        if let Some(status) = program.ended()? {
            return Ok(Some(status));
        }
        match events.recv_timeout(GLANCE) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::Interrupt) | Err(RecvTimeoutError::Disconnected) => program.stop(),
        }
    }
}

fn start_workers(args: &LaunchArgs, address: &Address, json: bool) -> Result<Team> {
    let worker = WorkerArgs {
        connect: address.to_string(),
        name: None,
        threads: args.threads,
        compute: args.compute.clone(),
        listen: None,
        reconnect: WorkerArgs::RECONNECT,
        insecure: args.insecure,
        log: LogArgs::default(),
        one_of: None,
    };
    if !args.hosts.is_empty() {
        // The other machines choose devices for themselves, by the same flags.
        let shell = args.ssh.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        ensure!(!shell.is_empty(), "--ssh names no program");
        return Team::start(&worker, Crew::There(&shell, &args.hosts), json);
    }
    let wished = Choice::make(&args.compute.wish())?;
    // More workers than devices share them.
    let devices = wished.devices.iter().cycle().take(args.workers.into()).copied().collect();
    Team::start(&worker, Crew::Here(&Choice { devices, ..wished }), json)
}

/// The server, on a thread of its own.
struct Hub {
    address: Address,
    shutdown: Shutdown,
    observer: Observer,
    thread: JoinHandle<Result<(), SocketError>>,
}

impl Hub {
    fn start(args: &LaunchArgs, json: bool) -> Result<Hub> {
        let address = Address { host: args.host.clone(), port: args.port };
        ensure!(
            args.hosts.is_empty() || !address.is_loopback(),
            advised(
                format!("other machines cannot reach a server at {}", args.host),
                "--host NAME, the name by which they reach this machine"
            )
        );
        let server = Server::bind(ServerConfig {
            address,
            exposure: exposure(args.insecure),
            dispatcher: Config::remote(),
            log: Log::from_environment(),
        })?;
        let (shutdown, observer) = (server.shutdown(), server.observer());
        let address = server.address().clone();
        let serve = move || server.run(|line| tell(json, &mark(json, line))).map(drop);
        let thread = std::thread::Builder::new().name("gt-server".into()).spawn(serve)?;
        tell(json, &mark(json, &format!("listening at {address}")));
        Ok(Hub { address, shutdown, observer, thread })
    }

    /// Waits until so many workers have joined. False after an interruption.
    fn joined(&self, n: usize, team: &Team, events: &Receiver<Event>) -> Result<bool> {
        let end = clock::now() + PATIENCE;
        loop {
            let (send, told) = channel();
            self.observer.ask(move |status| {
                // Whoever asked waits no longer than a moment.
                let _ = send.send(status.workers.len());
            });
            if told.recv_timeout(GLANCE).is_ok_and(|there| there >= n) {
                return Ok(true);
            }
            ensure!(!team.is_over(), "the workers have ended before the program began");
            ensure!(
                clock::now() < end,
                "{n} workers have not joined within {} s",
                PATIENCE.as_secs()
            );
            match events.recv_timeout(GLANCE) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Interrupt) | Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
    }

    fn stop(self) -> Result<()> {
        self.shutdown.shut_down("the launch is over");
        match self.thread.join() {
            Ok(ended) => ended.context("the server failed"),
            Err(_) => bail!("the server panicked"),
        }
    }
}

/// A line with its origin.
fn mark(json: bool, line: &str) -> String {
    if json { line.to_owned() } else { format!("[server] {line}") }
}
