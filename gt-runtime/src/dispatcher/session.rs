//! The state of a session: the types of its live values, its lost values, its uploads and its open
//! requests.
//!
//! A tape is admitted entry by entry (`admission`). A tape that is not well formed breaks its
//! session and no other. A value above the quota fails alone (`quota`). After the loss of a worker
//! its values are lost, each with the cause, and so are values computed from them. Their entries
//! are removed from tapes, so a worker sees only values that it has. Unfinished uploads
//! (`uploads`), segments that have not run (`flight`) and open requests (`requests`) are tracked.
//! This module sends nothing and knows no peers.

mod admission;
mod flight;
mod lost;
mod quota;
mod requests;
mod uploads;

pub(super) use admission::Launched;
pub(super) use flight::{Flight, Share};
use lost::Lost;
pub(super) use requests::{Request, Requests};
use uploads::Uploads;

use super::Config;
use super::gang::{Gang, Job};
use super::party::Owed;
use super::templates::Templates;
use crate::clock::Time;
use crate::ids::{PeerId, SessionId, WorkerId};
use crate::priority::Priority;
use crate::wire::{self, FromClient, Order};
use gt_compiler::shard::Partition;
use gt_ir::backend::{Demand, ErrorKind, RunError, WorkerStats};
use gt_ir::canonical::Template;
use gt_ir::shape::Type;
use gt_ir::signal::Signals;
use gt_ir::tape::{Tape, ValueId};
use gt_ir::verify::Verifier;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The most workers that a session has left in its statistics.
const MAX_LEFT: usize = 64;

/// One client's session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: PeerId,
    /// The worker that holds its values. None before the first order, and from the loss of a worker
    /// until the next order.
    pub(super) home: Option<WorkerId>,
    /// The number of sessions that had been opened on its home, with this one.
    pub(super) opened: u64,
    /// What its home calls it. A session that has given up a home is called otherwise on the next
    /// one, so that nothing late of an earlier life is taken for the present one.
    pub(super) name: SessionId,
    /// Whether it has given up a home.
    pub(super) moved: bool,
    /// The workers that its program asks for.
    pub(super) demand: Demand,
    /// How much of its workers' time it gets.
    pub(super) priority: Priority,
    /// Its workers, once signals have asked for several.
    pub(super) gang: Option<Box<Gang>>,
    /// The segment whose partition is being made. Later ones wait.
    pub(super) parked: Option<Parked>,
    /// Whether it is spread only if that is faster, as a plan says.
    pub(super) asks: bool,
    /// The plan that is made to find out.
    pub(super) asking: Option<Question>,
    /// The plan that says so, until it is carried out.
    pub(super) spreads: Option<Box<(Job, Partition)>>,
    /// The number of workers that it has lost.
    pub(super) attempt: u32,
    /// Orders that wait for a home, for earlier segments to run, or for the client to take what
    /// it has read. With a home the first is a segment or a read.
    pub(super) waiting: VecDeque<Work>,
    /// The segments that have not run.
    pub(super) flight: Flight,
    /// The number of segments taken from the client, and how many of them ran.
    pub(super) n_segments: u64,
    pub(super) n_done: u64,
    pub(super) requests: Requests,
    /// When its worker last sent a report about it.
    pub(super) progress: Time,
    /// Statistics of its home, from the worker's reports, and of the workers that it has left or
    /// lost.
    pub(super) ran: WorkerStats,
    pub(super) ran_elsewhere: Vec<WorkerStats>,
    /// Why the session is broken, if it is.
    pub(super) broken: Option<Arc<RunError>>,
    verifier: Verifier,
    /// One above the highest number of a value it has defined.
    above: u64,
    pub(super) templates: Templates,
    /// The client's configuration of its signals.
    pub(super) signals: Arc<Signals>,
    /// How many workers its signals ask for.
    pub(super) wished: usize,
    /// Whether its signals ask for micro-batches, for which one worker is a gang, too.
    pub(super) takes_turns: bool,
    /// What it has used.
    pub(super) spent: Spent,
    /// When it was opened.
    pub(super) since: Time,
    /// The end of the delay of which its client knows.
    pub(super) told_delay: Time,
    /// Whether the client knows that there is one worker only.
    pub(super) warned: bool,
    /// Whether the client knows that there are only other workers than it asks for.
    pub(super) told_unfit: bool,
    /// The templates that its home knows.
    pub(super) at_home: BTreeMap<u32, Arc<Tape>>,
    /// The number of launches verified in full.
    pub(super) n_verified: u64,
    /// Bytes of live values. 128 bits, because the quota is checked at the end of a tape, and the
    /// sum may exceed 64 bits within it.
    pub(super) live_bytes: u128,
    pub(super) lost: Lost,
    pub(super) uploads: Uploads,
    /// When its client last brought data or got credit to bring more, or its first unfinished
    /// upload began.
    pub(super) brought: Time,
}

/// An order on its way to a worker.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Work {
    pub(super) order: Order,
    /// The number of the session's segments before the order. For a read, the number of those that
    /// it needs.
    pub(super) seq: u64,
    /// The credit that the client gets back when the worker has the order.
    pub(super) owed: Owed,
    /// The template of a launch, as defined at the time of the launch.
    pub(super) template: Option<Arc<Template>>,
    /// Whether a worker may have to compile a program for it.
    pub(super) is_new: bool,
    /// What the program said about its signals before it.
    pub(super) signals: Arc<Signals>,
}

/// A segment whose partition is being made.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) work: Work,
    pub(super) job: Arc<Job>,
}

/// The plan that says whether a session is to be spread, while it is made.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) job: Arc<Job>,
    /// The template that comes again, and the number of workers that may share its work.
    pub(super) template: u32,
    pub(super) n_workers: usize,
    /// What the client has said since, with its credit.
    pub(super) held: VecDeque<(Owed, FromClient)>,
}

/// What a session has used.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Spent {
    /// What its workers have done.
    pub(super) work: wire::Work,
    /// The programs that were compiled for it, and the nanoseconds of compiling them.
    pub(super) plans: u64,
    pub(super) compile: u64,
    /// The bytes of tensors that it has sent, and that it has read.
    pub(super) up: u64,
    pub(super) down: u64,
}

impl Work {
    /// Whether it is a segment.
    pub(super) fn is_segment(&self) -> bool {
        matches!(self.order, Order::Run(_) | Order::Launch { .. })
    }

    /// Its place among the orders of its session: behind a segment are the orders that need it. A
    /// template belongs to the segments that follow.
    pub(super) fn place(&self) -> (u64, bool) {
        (self.seq, self.is_segment() || self.is_new)
    }
}

impl Session {
    pub(super) fn new(
        peer: PeerId,
        id: SessionId,
        demand: Demand,
        priority: Priority,
        now: Time,
    ) -> Session {
        let wished = Gang::wished(&Signals::new(), &demand);
        Session {
            peer,
            home: None,
            opened: 0,
            name: id,
            moved: false,
            gang: None,
            parked: None,
            asks: Gang::asks(&Signals::new(), &demand),
            asking: None,
            spreads: None,
            demand,
            priority,
            attempt: 0,
            waiting: VecDeque::new(),
            flight: Flight::default(),
            n_segments: 0,
            n_done: 0,
            requests: Requests::default(),
            progress: now,
            ran: WorkerStats::default(),
            ran_elsewhere: Vec::new(),
            broken: None,
            verifier: Verifier::new(),
            above: 0,
            templates: Templates::default(),
            signals: Arc::default(),
            wished,
            takes_turns: false,
            spent: Spent::default(),
            since: now,
            told_delay: Time::ZERO,
            warned: false,
            told_unfit: false,
            at_home: BTreeMap::new(),
            n_verified: 0,
            live_bytes: 0,
            lost: Lost::default(),
            uploads: Uploads::default(),
            brought: now,
        }
    }

    /// The type of a readable value, or the reason why the value cannot be read.
    pub(super) fn readable(&self, value: ValueId, config: &Config) -> Result<Type, Arc<RunError>> {
        if let Some(why) = self.unanswerable(config) {
            return Err(why);
        }
        if let Some(cause) = self.lost.cause(value) {
            return Err(Arc::new(RunError { value: Some(value), ..RunError::clone(cause) }));
        }
        self.verifier.ty(value).ok_or_else(|| {
            let message = format!("cannot read {value}: it was freed, or never computed");
            Arc::new(RunError { value: Some(value), ..error(ErrorKind::Internal, message) })
        })
    }

    /// Why the session can take no further request now.
    pub(super) fn unanswerable(&self, config: &Config) -> Option<Arc<RunError>> {
        let full = self.requests.len() >= config.max_requests;
        let message = || format!("the session already waits for {} answers", self.requests.len());
        self.broken
            .clone()
            .or_else(|| full.then(|| Arc::new(error(ErrorKind::Resource, message()))))
    }

    /// Marks all live values as lost with the session's home. Returns the open requests.
    pub(super) fn lose_home(&mut self, cause: &Arc<RunError>) -> Requests {
        self.home = None;
        self.attempt += 1;
        self.at_home.clear();
        self.flight.clear();
        self.n_done = self.n_segments;
        let gone = self.verifier.live().into_iter().chain(self.uploads.lose_all());
        for value in gone {
            self.lost.add(value, self.verifier.ty(value), cause);
        }
        std::mem::take(&mut self.requests)
    }

    /// Breaks the session. Returns the open requests.
    pub(super) fn fail(&mut self, cause: &Arc<RunError>) -> Requests {
        self.broken = Some(Arc::clone(cause));
        (self.home, self.gang) = (None, None);
        self.flight.clear();
        self.lost = Lost::default();
        self.uploads.clear();
        self.live_bytes = 0;
        self.verifier = Verifier::new();
        self.templates.clear();
        self.at_home.clear();
        std::mem::take(&mut self.requests)
    }

    /// The bytes of the live values by counting, for `check`.
    pub(super) fn count_live(&self) -> u128 {
        self.verifier
            .live()
            .into_iter()
            .filter_map(|value| self.verifier.ty(value))
            .map(|ty| ty.bytes() as u128)
            .sum()
    }

    /// The type of a live value.
    pub(super) fn ty(&self, value: ValueId) -> Option<Type> {
        self.verifier.ty(value)
    }

    pub(super) fn n_live(&self) -> usize {
        self.verifier.n_live()
    }

    /// The live values that are not lost, with their types.
    pub(super) fn live(&self) -> impl Iterator<Item = (ValueId, Type)> + '_ {
        let live = self.verifier.live().into_iter();
        let live = live.filter(|value| !self.lost.contains(*value));
        live.filter_map(|value| Some((value, self.verifier.ty(value)?)))
    }

    /// Whether its values may be on a worker.
    pub(super) fn lives_on(&self, worker: WorkerId) -> bool {
        let member = |gang: &Gang| gang.member(worker).is_some();
        self.home == Some(worker) || self.gang.as_deref().is_some_and(member)
    }

    /// Whether it lives on one worker, which holds nothing of it and has nothing to do for it.
    pub(super) fn is_idle(&self) -> bool {
        let nothing = self.n_live() == 0 && self.uploads.is_empty() && self.requests.is_empty();
        self.home.is_some() && self.gang.is_none() && nothing && self.n_done == self.n_segments
    }

    /// Adds what a worker has run to the statistics of workers that it has left.
    pub(super) fn ran_on(&mut self, name: String, ran: WorkerStats) {
        self.ran_elsewhere.push(WorkerStats { name, ..ran });
        let n_above = self.ran_elsewhere.len().saturating_sub(MAX_LEFT);
        self.ran_elsewhere.drain(..n_above);
    }

    /// Takes the number of the next segment, of this weight and this tape.
    pub(super) fn number(&mut self, weight: u64, tape: Option<Arc<Tape>>) -> u64 {
        let seq = self.n_segments;
        self.n_segments += 1;
        self.flight.add(seq, weight, self.above, tape);
        seq
    }

    /// The number of segments that a read of a value needs.
    pub(super) fn needed(&self, value: ValueId) -> u64 {
        self.flight.needed(value.0, self.n_segments)
    }
}

/// An error of the dispatcher's own.
pub(super) fn error(kind: ErrorKind, message: String) -> RunError {
    RunError::new(kind, crate::wire::codec::cut(message))
}
