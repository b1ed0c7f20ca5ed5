//! What a session holds: the types of its live values, what was lost with a worker, its uploads and
//! its unanswered questions.
//!
//! A tape is admitted entry by entry (`admission`); one that is not well formed breaks the session
//! and nobody else. A value there is no room for fails alone (`quota`). After a worker's loss the
//! values it held are lost, each with the cause, and so is what is computed from them: such entries
//! are taken out of the tape, so that a worker sees only values it has. Data on its way is kept in
//! mind until it is whole (`uploads`). It sends nothing and knows no peers.

mod admission;
mod quota;
mod uploads;

pub(super) use admission::Launched;
use uploads::Upload;

use super::Config;
use super::party::Owed;
use super::templates::Templates;
use crate::clock::Time;
use crate::ids::{PeerId, RequestId, WorkerId};
use crate::wire::Order;
use gt_ir::backend::{ErrorKind, RunError, WorkerStats};
use gt_ir::shape::Type;
use gt_ir::signal::Signals;
use gt_ir::tape::{Tape, ValueId};
use gt_ir::verify::Verifier;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One client's session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: PeerId,
    /// Where its values live; none before the first work, and between a worker's loss and the next
    /// work.
    pub(super) home: Option<WorkerId>,
    /// How many workers it has lost.
    pub(super) attempt: u32,
    /// Work for a worker, while there is none.
    pub(super) waiting: VecDeque<Work>,
    /// Segments taken from the client, and those of them that ran.
    pub(super) n_segments: u64,
    pub(super) n_done: u64,
    pub(super) requests: BTreeMap<RequestId, Request>,
    /// When its worker last reported anything of it.
    pub(super) progress: Time,
    /// What ran on its home, as far as reported, and on the workers it has lost.
    pub(super) ran: WorkerStats,
    pub(super) ran_elsewhere: Vec<WorkerStats>,
    /// Why nothing more of it runs.
    pub(super) broken: Option<Arc<RunError>>,
    verifier: Verifier,
    /// One above the highest number of a value it has defined.
    above: u64,
    pub(super) templates: Templates,
    /// What the client says about its signals; no other session's concern.
    pub(super) signals: Arc<Signals>,
    /// The templates its home knows.
    pub(super) at_home: BTreeMap<u32, Arc<Tape>>,
    /// Launches verified in full.
    pub(super) n_verified: u64,
    /// Bytes of live values. Within one tape they may exceed what 64 bits can count before its end
    /// is checked.
    pub(super) live_bytes: u128,
    /// Live values that a worker's loss took or there was no room for, and those computed from
    /// them.
    pub(super) lost: BTreeMap<ValueId, Arc<RunError>>,
    pub(super) uploads: BTreeMap<ValueId, Upload>,
    /// Bytes of uploads whose input is not declared yet.
    early_bytes: u64,
}

/// An order on its way to a worker.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Work {
    pub(super) order: Order,
    /// How many segments of the session were ordered before.
    pub(super) seq: u64,
    /// The credit the client gets back when the worker has the order.
    pub(super) owed: Owed,
    /// The template of a launch, as it was when it was launched.
    pub(super) template: Option<Arc<Tape>>,
}

/// A question not answered yet.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Request {
    pub(super) since: Time,
    /// What was asked for, with its type; none for the statistics.
    pub(super) value: Option<(ValueId, Type)>,
    /// How many bytes of the answer went to the client.
    pub(super) sent: u64,
}

impl Session {
    pub(super) fn new(peer: PeerId, now: Time) -> Session {
        Session {
            peer,
            home: None,
            attempt: 0,
            waiting: VecDeque::new(),
            n_segments: 0,
            n_done: 0,
            requests: BTreeMap::new(),
            progress: now,
            ran: WorkerStats::default(),
            ran_elsewhere: Vec::new(),
            broken: None,
            verifier: Verifier::new(),
            above: 0,
            templates: Templates::default(),
            signals: Arc::default(),
            at_home: BTreeMap::new(),
            n_verified: 0,
            live_bytes: 0,
            lost: BTreeMap::new(),
            uploads: BTreeMap::new(),
            early_bytes: 0,
        }
    }

    /// The type of a value that can be read, or why it cannot.
    pub(super) fn readable(&self, value: ValueId, config: &Config) -> Result<Type, Arc<RunError>> {
        if let Some(why) = self.unanswerable(config) {
            return Err(why);
        }
        if let Some(cause) = self.lost.get(&value) {
            return Err(Arc::new(RunError { value: Some(value), ..RunError::clone(cause) }));
        }
        self.verifier.ty(value).ok_or_else(|| {
            let message = format!("cannot read {value}: it was freed, or never computed");
            Arc::new(RunError { value: Some(value), ..error(ErrorKind::Internal, message) })
        })
    }

    /// Why no question of the session can be answered now.
    pub(super) fn unanswerable(&self, config: &Config) -> Option<Arc<RunError>> {
        let full = self.requests.len() >= config.max_requests;
        let message = || format!("the session waits for {} answers already", self.requests.len());
        self.broken
            .clone()
            .or_else(|| full.then(|| Arc::new(error(ErrorKind::Resource, message()))))
    }

    /// The worker that held everything is gone: nothing that was live comes back. Gives the
    /// questions nobody will answer.
    pub(super) fn lose_home(&mut self, cause: &Arc<RunError>) -> BTreeMap<RequestId, Request> {
        self.home = None;
        self.attempt += 1;
        self.at_home.clear();
        self.n_done = self.n_segments;
        for upload in self.uploads.values_mut() {
            upload.lost = true;
        }
        let early =
            self.uploads.iter().filter(|(_, upload)| !upload.declared).map(|(&value, _)| value);
        let gone = self.verifier.live().into_iter().chain(early);
        for value in gone {
            self.lost.entry(value).or_insert_with(|| Arc::clone(cause));
        }
        std::mem::take(&mut self.requests)
    }

    /// Nothing more of the session runs. Gives the questions nobody will answer.
    pub(super) fn fail(&mut self, cause: &Arc<RunError>) -> BTreeMap<RequestId, Request> {
        self.broken = Some(Arc::clone(cause));
        self.home = None;
        self.lost.clear();
        self.uploads.clear();
        (self.live_bytes, self.early_bytes) = (0, 0);
        self.verifier = Verifier::new();
        self.templates.clear();
        self.at_home.clear();
        std::mem::take(&mut self.requests)
    }

    /// What the books must say, for `check`.
    pub(super) fn count_live(&self) -> u128 {
        self.verifier
            .live()
            .into_iter()
            .filter_map(|value| self.verifier.ty(value))
            .map(|ty| ty.bytes() as u128)
            .sum()
    }

    pub(super) fn n_live(&self) -> usize {
        self.verifier.n_live()
    }

    pub(super) fn is_live(&self, value: ValueId) -> bool {
        self.verifier.is_live(value)
    }
}

/// An error of the dispatcher's own.
pub(super) fn error(kind: ErrorKind, message: String) -> RunError {
    RunError::new(kind, crate::wire::codec::cut(message))
}
