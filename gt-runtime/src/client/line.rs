//! The line of a session to its server: the session, the sockets, and the threads that serve them.
//!
//! Whoever holds the sockets serves the line: it takes packets, sends packets, and sleeps until
//! there are more. A thread of the program that waits for an answer serves the line itself, because
//! to wake another thread and to be woken by it takes longer than many steps. At all other times
//! the line has a thread of its own ([`Line::keep`]). That thread rests for a moment after each
//! such wait, because the next one often follows.
//!
//! Guarantees: while a thread waits, some thread serves the line, after the length of a rest at
//! most. A task that waits for an answer, and a message that leaves alone, are served at once.
//! Foreign code (the wakers of tasks) runs without the sockets and without the session.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker as Task;
use std::time::Duration;

use gt_ir::backend::{ErrorKind, RunError};

use super::Session;
use crate::clock::{self, Time};
use crate::profile::Call;
use crate::slot::Slot;
use crate::zmq::{Sent, Uplink, UplinkError, Waker, Wakeups};

/// The timeout of an orderly end.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
/// The most packets taken from the sockets before queued packets are sent.
const BATCH: usize = 64;
/// How long the line's own thread leaves it alone after a thread of the program has waited.
const REST: Duration = Duration::from_millis(2);

pub(super) struct Line {
    session: Mutex<Session>,
    sockets: Mutex<Sockets>,
    /// Ends the sleep of the thread that serves the line.
    waker: Waker,
    /// Notified when the session has room again, or is over.
    moved: Condvar,
    pub(super) opened: Slot<Result<(), RunError>>,
    /// Filled when the line's own thread ends.
    pub(super) gone: Slot<()>,
    /// The threads of the program that wait.
    n_waiting: AtomicUsize,
    /// When one of them last began or ended to wait, in nanoseconds.
    waited: AtomicU64,
    /// Whether the line's own thread must not rest.
    is_called: Mutex<bool>,
    called: Condvar,
}

struct Sockets {
    uplink: Uplink,
    wakeups: Wakeups,
    /// When the line ends although its last messages have not left.
    end: Option<Time>,
}

/// What a turn of service has left.
struct Turn {
    /// Whether there may be more packets.
    more: bool,
    /// Whether the line is over.
    over: bool,
    deadline: Option<Time>,
    /// The tasks whose answers have come.
    tasks: Vec<Task>,
}

/// Why a thread stopped serving.
#[derive(PartialEq, Eq)]
enum Served {
    Enough,
    /// Tasks were woken, without the sockets.
    Interrupted,
    Over,
}

impl Line {
    pub(super) fn new(
        session: Session,
        uplink: Uplink,
        (waker, wakeups): (Waker, Wakeups),
    ) -> Line {
        let uplink = uplink.heard_by(wakeups.bell());
        Line {
            session: Mutex::new(session),
            sockets: Mutex::new(Sockets { uplink, wakeups, end: None }),
            waker,
            moved: Condvar::new(),
            opened: Slot::new(),
            gone: Slot::new(),
            n_waiting: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            is_called: Mutex::new(false),
            called: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Session> {
        // After a panic the session is still consistent enough to fail the requests of other
        // threads.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` on the session, and wakes the tasks whose answers it brought.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        let mut session = self.lock();
        let result = act(&mut session);
        let tasks = session.take_tasks();
        drop(session);
        tasks.into_iter().for_each(Task::wake);
        result
    }

    /// As [`with`](Line::with), after waiting until the session has room. The wait is no recording,
    /// though the call that waits hands over work.
    pub(super) fn when_roomy(&self, act: impl FnOnce(&mut Session)) {
        let mut session = self.lock();
        let full = session.is_full().then(|| session.capture.clone());
        let waits = full.as_ref().map(|capture| (Call::wait(), capture.waits()));
        while session.is_full() {
            drop(session);
            let _waiting = self.waiting();
            self.serve_until(|| !self.lock().is_full());
            let room = self.moved.wait_while(self.lock(), |session| session.is_full());
            session = room.unwrap_or_else(PoisonError::into_inner);
        }
        drop(session);
        drop(waits);
        self.with(act);
    }

    /// Waits for the answer that `ask` asks for. None if another thread has taken it.
    pub(super) fn wait<T>(&self, ask: impl FnOnce(&mut Session) -> Slot<T>) -> Option<T> {
        let _waiting = self.waiting();
        let slot = self.with(ask);
        self.serve_until(|| slot.is_filled());
        slot.wait()
    }

    /// Lets queued messages leave.
    pub(super) fn push(&self) {
        if !self.pushed() {
            self.waker.wake();
            // The other thread may have left the sockets just before.
            self.pushed();
        }
    }

    /// Wakes the line's own thread, for an answer that no thread waits for.
    pub(super) fn call(&self) {
        *lock(&self.is_called) = true;
        self.called.notify_one();
        self.waker.wake();
    }

    /// The work of the line's own thread, until the line is over.
    pub(super) fn keep(&self) {
        let _leaving = Leaving(self);
        while self.kept(&|| self.may_rest()) {}
        // Gives the good-bye time to leave. The sockets close when the line is dropped.
        let _ = lock(&self.sockets).uplink.set_linger(Duration::from_millis(200));
    }

    /// Serves the line until it may rest, and rests. False if the line is over.
    fn kept(&self, may_rest: &impl Fn() -> bool) -> bool {
        match self.serve(lock(&self.sockets), may_rest) {
            Served::Enough => self.rest(),
            Served::Interrupted => {}
            Served::Over => return false,
        }
        true
    }

    /// Rests while threads of the program wait again and again, until it is called. A thread that
    /// waits need not serve the line: the sockets may have been taken when it began to.
    fn rest(&self) {
        let mut is_called = lock(&self.is_called);
        let has_deputy = || self.has_waited() || self.free_sockets().is_none();
        while !std::mem::take(&mut *is_called) && has_deputy() {
            let rested = self.called.wait_timeout(is_called, REST);
            is_called = rested.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn has_waited(&self) -> bool {
        let waited = Duration::from_nanos(self.waited.load(Ordering::Relaxed));
        clock::now().saturating_sub(waited) < REST
    }

    /// Whether the line may be left alone for a moment.
    fn may_rest(&self) -> bool {
        self.n_waiting.load(Ordering::SeqCst) == 0 && self.has_waited() && !self.lock().is_asking()
    }

    fn waiting(&self) -> Waiting<'_> {
        self.n_waiting.fetch_add(1, Ordering::SeqCst);
        self.note_wait();
        Waiting(self)
    }

    fn note_wait(&self) {
        let now = u64::try_from(clock::now().as_nanos()).unwrap_or(u64::MAX);
        self.waited.store(now, Ordering::Relaxed);
    }

    /// Serves the line until `done`, or leaves it to the thread that serves it.
    fn serve_until(&self, done: impl Fn() -> bool) {
        if !self.served(&done) {
            self.waker.wake();
            // The other thread may have left the sockets just before.
            self.served(&done);
        }
    }

    /// Serves the line until `done`. False if another thread serves it.
    fn served(&self, done: &impl Fn() -> bool) -> bool {
        loop {
            let Some(sockets) = self.free_sockets() else { return false };
            match self.serve(sockets, done) {
                Served::Interrupted if !done() => {}
                served => {
                    self.leave(&served);
                    return true;
                }
            }
        }
    }

    /// Serves the line once. False if another thread serves it.
    fn pushed(&self) -> bool {
        let Some(mut sockets) = self.free_sockets() else { return false };
        let Turn { more, over, tasks, .. } = self.turn(&mut sockets);
        drop(sockets);
        tasks.into_iter().for_each(Task::wake);
        self.leave(if more || over { &Served::Over } else { &Served::Enough });
        true
    }

    fn free_sockets(&self) -> Option<MutexGuard<'_, Sockets>> {
        match self.sockets.try_lock() {
            Ok(sockets) => Some(sockets),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Leaves the line alone if nobody needs it, or else to its own thread.
    fn leave(&self, served: &Served) {
        let others = self.n_waiting.load(Ordering::SeqCst) > 1 || self.waker.is_pending();
        if *served == Served::Over || others || self.lock().is_asking() {
            self.call();
        }
    }

    fn serve<'a>(
        &'a self,
        mut sockets: MutexGuard<'a, Sockets>,
        done: &impl Fn() -> bool,
    ) -> Served {
        loop {
            let Turn { more, over, deadline, tasks } = self.turn(&mut sockets);
            if !tasks.is_empty() {
                drop(sockets);
                tasks.into_iter().for_each(Task::wake);
                return if over { Served::Over } else { Served::Interrupted };
            }
            if over {
                return Served::Over;
            }
            if done() {
                return Served::Enough;
            }
            if !more {
                let Sockets { uplink, wakeups, end } = &mut *sockets;
                let due = deadline.into_iter().chain(*end).min();
                let slept = uplink.wait(wakeups, due.map(|at| at.saturating_sub(clock::now())));
                if let Err(error) = slept {
                    self.broken(&error.into());
                }
            }
        }
    }

    /// Takes what has come, and sends what is queued.
    fn turn(&self, sockets: &mut Sockets) -> Turn {
        let more = self.receive(&sockets.uplink).unwrap_or_else(|error| {
            self.broken(&error);
            false
        });
        let mut packets = Vec::new();
        let mut session = self.lock();
        let now = clock::now();
        session.transmit(now, &mut |packet| packets.push(packet));
        if session.is_closed() {
            let end = *sockets.end.get_or_insert(now + FAREWELL);
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
        let tasks = session.take_tasks();
        drop(session);
        if let Err(error) = self.send(now, &sockets.uplink, &packets) {
            self.broken(&error);
        }
        Turn { more, over, deadline, tasks }
    }

    fn send(
        &self,
        now: Time,
        uplink: &Uplink,
        packets: &[crate::wire::Packet],
    ) -> Result<(), UplinkError> {
        let mut stuck = false;
        for packet in packets {
            stuck |= uplink.send(packet)? != Sent::Queued;
        }
        if stuck {
            // There is no connection, or the server takes no packets. It is lost unless it is heard
            // from within the grace.
            self.lock().connection.unreachable(now);
        }
        Ok(())
    }

    /// Takes packets of the server, a batch at most. Says whether there may be more.
    fn receive(&self, uplink: &Uplink) -> Result<bool, UplinkError> {
        for _ in 0..BATCH {
            match uplink.receive() {
                Ok(None) => return Ok(false),
                Ok(Some(packet)) => self.lock().receive(clock::now(), packet),
                // No packet of this version. The session ends if it is the first message.
                Err(UplinkError::Wire(error)) => self.lock().misunderstood(&error),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The session ends, because its sockets failed.
    fn broken(&self, error: &UplinkError) {
        self.lock().fail(ErrorKind::Internal, format!("the sockets failed: {error}"));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The sockets and a flag are whole at all times.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread of the program that waits.
struct Waiting<'a>(&'a Line);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.note_wait();
        self.0.n_waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers everyone who waits when the line's own thread ends, also by a panic.
struct Leaving<'a>(&'a Line);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let why = self.0.with(|session| {
            session.fail(ErrorKind::Internal, "the thread that serves the line ended".into());
            session.over().cloned()
        });
        if let Some(why) = why {
            self.0.opened.put(Err(why));
        }
        self.0.moved.notify_all();
        self.0.gone.put(());
    }
}
