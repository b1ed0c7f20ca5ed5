//! A session with a server in another process.
//!
//! Threads that submit and read queue their messages in the [`Session`] and serve its [`Line`].
//! Answers come through slots. If the server cannot be reached, connecting fails within two
//! seconds. A server on another machine that was reached has ten seconds for its answer. If the
//! server is lost later, every read fails with the reason.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gt_ir::backend::{Backend, Demand, ErrorKind, Fetching, RunError, Stats};
use gt_ir::signal::Signals;
use gt_ir::{Entry, HostTensor, Tape, ValueId};

use super::line::{FAREWELL, Line};
use super::{Session, Submitter};
use crate::assembly::Travel;
use crate::capture::Capture;
use crate::clock;
use crate::connection::{Connection, ConnectionConfig};
use crate::doors::random;
use crate::identity::{Identity, program};
use crate::ids::Incarnation;
use crate::log::Log;
use crate::modifier::{self, Place};
use crate::priority::Priority;
use crate::profile::{self, Call};
use crate::tier::{TemplateConfig, Tiers};
use crate::wire::{Hello, Role};
use crate::zmq::{Address, SocketError, Uplink, context, wake_pair};

/// The timeout of connection and handshake together.
const PATIENCE: Duration = Duration::from_millis(1_900);

/// Opens a new session with the server at `HOST:PORT`.
///
/// # Errors
/// The address is invalid, no server answers within two seconds, or the server refuses.
pub fn connect(address: &str) -> Result<Arc<dyn Backend>, RunError> {
    connect_asking(address, &Demand::default())
}

/// As [`connect`], and asks for certain workers.
///
/// # Errors
/// As [`connect`].
pub fn connect_asking(address: &str, demand: &Demand) -> Result<Arc<dyn Backend>, RunError> {
    let address: Address = address
        .parse()
        .map_err(|e: crate::zmq::AddressError| RunError::of(ErrorKind::Connection, &e))?;
    let templates = Tiers::from_environment()?.templates;
    connect_with(&address, ConnectionConfig::remote(), templates, demand)
}

/// As [`connect`], with a configuration of the connection.
///
/// # Errors
/// As [`connect`].
pub fn connect_to(
    address: &Address,
    config: ConnectionConfig,
) -> Result<Arc<dyn Backend>, RunError> {
    connect_with(address, config, Tiers::from_environment()?.templates, &Demand::default())
}

/// As [`connect_to`], with a configuration of templates and a demand for workers.
///
/// # Errors
/// As [`connect`].
pub fn connect_with(
    address: &Address,
    config: ConnectionConfig,
    templates: TemplateConfig,
    demand: &Demand,
) -> Result<Arc<dyn Backend>, RunError> {
    profile::from_environment();
    let began = clock::now();
    let session_error = |e: SocketError| RunError::of(ErrorKind::Connection, &e);
    let ctx = context();
    let uplink = Uplink::open(&ctx, address, PATIENCE, &crate::zmq::Entry::from_environment())
        .map_err(session_error)?;
    let wake = wake_pair().map_err(|e| session_error(e.into()))?;
    let left = address.patience(PATIENCE).saturating_sub(clock::now() - began);
    let left = left.max(Duration::from_millis(100));
    let answer = config.answer.map_or(left, |answer| address.patience(answer).min(left));
    let config = ConnectionConfig { answer: Some(answer), ..config };
    let hello = Hello::new(Role::Client, Identity::here(program())).asking(demand.clone());
    let hello = Hello { secret: random(), ..hello }.at(Priority::from_environment()?);
    let connection =
        Connection::dial(clock::now(), Incarnation(clock::wall_nanos()), hello, config);
    let session = Session::new(
        connection,
        format!("the server at {address}"),
        Travel::REMOTE,
        Log::from_environment(),
    );
    let capture = session.capture.clone();
    let line = Arc::new(Line::new(session, uplink, wake));
    let of_thread = line.clone();
    let thread = std::thread::Builder::new()
        .name("gt-client".into())
        .spawn(move || of_thread.keep())
        .map_err(|e| session_error(e.into()))?;
    let log = Log::from_environment();
    let submitter = Submitter::new(templates);
    let remote = Remote { line, capture, log, submitter, thread: Mutex::new(Some(thread)) };
    match remote.line.opened.wait() {
        Some(Ok(())) => Ok(Arc::new(remote)),
        Some(Err(why)) => Err(why),
        None => Err(RunError::new(ErrorKind::Internal, "the connection was never opened")),
    }
}

struct Remote {
    line: Arc<Line>,
    capture: Arc<Capture>,
    log: Log,
    submitter: Submitter,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn taken() -> RunError {
    RunError::new(ErrorKind::Internal, "the answer was taken twice")
}

impl Backend for Remote {
    fn submit(&self, segment: Tape) {
        let _calls = (Call::submit(), self.capture.submits());
        let segment = match modifier::is_at(Place::Client) {
            true => self.line.with(|session| session.modified(segment)),
            false => Some(segment),
        };
        let Some(segment) = segment else { return };
        if self.log.has_instructions() {
            self.line.lock().log_segment(&segment);
        }
        // A read of the output follows, and travels with the segment.
        let is_read = matches!(segment.entries.last(), Some(Entry::Output { .. }));
        self.submitter.submit(segment, |messages| {
            self.line.when_roomy(|session| session.submit(clock::now(), messages));
        });
        if !is_read {
            self.line.push();
        }
    }

    fn upload(&self, value: ValueId, data: HostTensor) {
        let _calls = (Call::submit(), self.capture.submits());
        self.line.when_roomy(|session| session.upload(clock::now(), value, data));
        self.line.push();
    }

    fn configure(&self, signals: Signals) {
        self.submitter.configure(signals.clone());
        self.line.when_roomy(|session| session.configure(clock::now(), signals));
        self.line.push();
    }

    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError> {
        let _calls = (Call::wait(), self.capture.waits());
        let answer = self.line.wait(|session| session.fetch(clock::now(), value));
        answer.unwrap_or_else(|| Err(taken()))
    }

    fn begin_fetch(&self, value: ValueId) -> Fetching {
        let _calls = (Call::submit(), self.capture.submits());
        let slot = self.line.with(|session| session.fetch(clock::now(), value));
        self.line.call();
        Box::pin(async move { slot.await.unwrap_or_else(|| Err(taken())) })
    }

    fn stats(&self) -> Result<Stats, RunError> {
        let _call = Call::wait();
        let stats = self.line.wait(|session| session.stats(clock::now()));
        let stats = stats.unwrap_or_else(|| Err(taken()));
        stats.map(|stats| self.submitter.complete(stats))
    }

    fn close(&self) {
        self.line.with(|session| session.close(clock::now()));
        self.line.call();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A task that is woken by that thread may be the last to hold the session.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && self.line.gone.wait_for(FAREWELL * 2).is_some()
        {
            // The thread has ended, so this does not wait. A panic of the thread was reported to
            // all reads.
            let _ = thread.join();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.close();
    }
}
