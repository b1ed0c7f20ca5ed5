//! A session with a server in another process.
//!
//! One thread owns the sockets. Threads that submit and read lock the [`Session`], queue their
//! messages and wake that thread. Answers come through slots. If the server cannot be reached,
//! connecting fails within two seconds. If it is lost later, every read fails with the reason.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker as Task;
use std::thread::JoinHandle;
use std::time::Duration;

use gt_ir::backend::{Backend, Demand, ErrorKind, Fetching, RunError, Stats};
use gt_ir::signal::Signals;
use gt_ir::{Entry, HostTensor, Tape, ValueId};

use super::{Fetched, Session, Submitter};
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
use crate::slot::Slot;
use crate::tier::{TemplateConfig, Tiers};
use crate::wire::{Hello, Role};
use crate::zmq::{
    Address, Sent, SocketError, Uplink, UplinkError, Waker, Wakeups, context, wake_pair,
};

/// The timeout of connection and handshake together.
const PATIENCE: Duration = Duration::from_millis(1_900);
/// The timeout of an orderly end.
const FAREWELL: Duration = Duration::from_secs(1);
/// The most packets taken from the sockets before queued packets are sent.
const BATCH: usize = 64;

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
    let (waker, wakeups) = wake_pair().map_err(|e| session_error(e.into()))?;
    let left = PATIENCE.saturating_sub(clock::now() - began).max(Duration::from_millis(100));
    let config = ConnectionConfig {
        answer: Some(config.answer.map_or(left, |answer| answer.min(left))),
        ..config
    };
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
    let shared = Arc::new(Shared {
        capture: session.capture.clone(),
        session: Mutex::new(session),
        log: Log::from_environment(),
        moved: Condvar::new(),
        waker,
        opened: Slot::new(),
        gone: Slot::new(),
    });
    let other = shared.clone();
    let thread = std::thread::Builder::new()
        .name("gt-client".into())
        .spawn(move || other.run(&uplink, &wakeups))
        .map_err(|e| session_error(e.into()))?;
    let submitter = Submitter::new(templates);
    let remote = Remote { shared, submitter, thread: Mutex::new(Some(thread)) };
    match remote.shared.opened.wait() {
        Some(Ok(())) => Ok(Arc::new(remote)),
        Some(Err(why)) => Err(why),
        None => Err(RunError::new(ErrorKind::Internal, "the connection was never opened")),
    }
}

struct Remote {
    shared: Arc<Shared>,
    submitter: Submitter,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    session: Mutex<Session>,
    capture: Arc<Capture>,
    log: Log,
    /// Notified when the session has room again, or is over.
    moved: Condvar,
    waker: Waker,
    opened: Slot<Result<(), RunError>>,
    /// Filled when the thread that owns the sockets ends.
    gone: Slot<()>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Session> {
        // After a panic the session is still consistent enough to fail the requests of other
        // threads.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the lock, and wakes the tasks whose answers have arrived.
    fn release(mut session: MutexGuard<'_, Session>) {
        let tasks = session.take_tasks();
        drop(session);
        tasks.into_iter().for_each(Task::wake);
    }

    /// Calls `act` on the session.
    fn with<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        let mut session = self.lock();
        let result = act(&mut session);
        Shared::release(session);
        result
    }

    /// As [`with`](Shared::with), after waiting until the session has room.
    fn when_roomy(&self, act: impl FnOnce(&mut Session)) {
        let mut session = self
            .moved
            .wait_while(self.lock(), |s| s.is_full())
            .unwrap_or_else(PoisonError::into_inner);
        act(&mut session);
        Shared::release(session);
    }

    /// The thread that owns the sockets.
    fn run(&self, uplink: &Uplink, wakeups: &Wakeups) {
        let _leaving = Leaving(self);
        if let Err(error) = self.exchange(uplink, wakeups) {
            let why = format!("the sockets failed: {error}");
            self.with(|session| session.fail(ErrorKind::Internal, why));
        }
        // Gives the good-bye time to leave. The sockets close when the uplink is dropped.
        let _ = uplink.set_linger(Duration::from_millis(200));
    }

    fn exchange(&self, uplink: &Uplink, wakeups: &Wakeups) -> Result<(), UplinkError> {
        let mut closing = None;
        loop {
            let mut packets = Vec::new();
            let more = self.receive(uplink)?;
            let mut session = self.lock();
            let now = clock::now();
            session.transmit(now, &mut |packet| packets.push(packet));
            if session.is_closed() {
                let end = *closing.get_or_insert(now + FAREWELL);
                if session.connection.is_ended() || session.has_sent_all() || now >= end {
                    packets.push(session.connection.close("the client closed its session".into()));
                }
            }
            let over = session.connection.is_ended() || session.is_over() && !session.is_closed();
            let deadline = session.connection.next_deadline();
            if !session.is_full() {
                self.moved.notify_all();
            }
            if session.connection.is_open() {
                self.opened.put(Ok(()));
            } else if let Some(why) = session.over() {
                self.opened.put(Err(why.clone()));
            }
            Shared::release(session);
            let mut stuck = false;
            for packet in &packets {
                stuck |= uplink.send(packet)? != Sent::Queued;
            }
            if stuck {
                // There is no connection, or the server takes no packets. It is lost unless it is
                // heard from within the grace.
                self.lock().connection.unreachable(now);
            }
            if over {
                return Ok(());
            }
            if !more {
                let deadline = deadline.into_iter().chain(closing).min();
                uplink.wait(wakeups, deadline.map(|at| at.saturating_sub(clock::now())))?;
            }
        }
    }

    /// Takes packets of the server, a batch at most. Says whether there may be more.
    fn receive(&self, uplink: &Uplink) -> Result<bool, UplinkError> {
        for _ in 0..BATCH {
            match uplink.receive() {
                Ok(None) => return Ok(false),
                Ok(Some(packet)) => self.with(|session| session.receive(clock::now(), packet)),
                // No packet of this version. The session ends if it is the first message.
                Err(UplinkError::Wire(error)) => self.with(|session| session.misunderstood(&error)),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Answers everyone who waits when the thread ends, also by a panic.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut session = self.0.lock();
        session.fail(ErrorKind::Internal, "the thread that owns the sockets ended".into());
        let why = session.over().cloned();
        Shared::release(session);
        if let Some(why) = why {
            self.0.opened.put(Err(why));
        }
        self.0.moved.notify_all();
        self.0.gone.put(());
    }
}

impl Remote {
    /// Asks for a value.
    fn ask(&self, value: ValueId) -> Fetched {
        let slot = self.shared.lock().fetch(clock::now(), value);
        self.shared.waker.wake();
        slot
    }
}

fn taken() -> RunError {
    RunError::new(ErrorKind::Internal, "the answer was taken twice")
}

impl Backend for Remote {
    fn submit(&self, segment: Tape) {
        let _calls = (Call::submit(), self.shared.capture.submits());
        let segment = match modifier::is_at(Place::Client) {
            true => self.shared.with(|session| session.modified(segment)),
            false => Some(segment),
        };
        let Some(segment) = segment else { return };
        if self.shared.log.has_instructions() {
            self.shared.lock().log_segment(&segment);
        }
        // A read of the output follows, and travels with the segment. Without one the segment waits
        // for the next sign of life.
        let is_read = matches!(segment.entries.last(), Some(Entry::Output { .. }));
        self.submitter.submit(segment, |messages| {
            self.shared.when_roomy(|session| session.submit(clock::now(), messages));
        });
        if !is_read {
            self.shared.waker.wake();
        }
    }

    fn upload(&self, value: ValueId, data: HostTensor) {
        let _calls = (Call::submit(), self.shared.capture.submits());
        self.shared.when_roomy(|session| session.upload(clock::now(), value, data));
        self.shared.waker.wake();
    }

    fn configure(&self, signals: Signals) {
        self.submitter.configure(signals.clone());
        self.shared.when_roomy(|session| session.configure(clock::now(), signals));
        self.shared.waker.wake();
    }

    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError> {
        let _calls = (Call::wait(), self.shared.capture.waits());
        self.ask(value).wait().unwrap_or_else(|| Err(taken()))
    }

    fn begin_fetch(&self, value: ValueId) -> Fetching {
        let _calls = (Call::submit(), self.shared.capture.submits());
        let slot = self.ask(value);
        Box::pin(async move { slot.await.unwrap_or_else(|| Err(taken())) })
    }

    fn stats(&self) -> Result<Stats, RunError> {
        let _call = Call::wait();
        let slot = self.shared.lock().stats(clock::now());
        self.shared.waker.wake();
        let stats = slot.wait().unwrap_or_else(|| Err(taken()));
        stats.map(|stats| self.submitter.complete(stats))
    }

    fn close(&self) {
        self.shared.with(|session| session.close(clock::now()));
        self.shared.waker.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A task that is woken by that thread may be the last to hold the session.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && self.shared.gone.wait_for(FAREWELL * 2).is_some()
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
