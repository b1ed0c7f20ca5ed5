//! Whether a session that asks for a plan is spread over workers at all.
//!
//! Such a session begins on one worker. When a segment of it comes again, the plan for all workers
//! says whether they are faster together. If so, the session becomes a gang's, which begins with
//! that plan. If not, the session stays as it is and pays nothing for workers that it does not use.
//!
//! Guarantees: what a client says on the control stream while the plan is made is handled
//! afterwards, in order, so the work is spread from the same segment on in each run. The answer is
//! kept with the template, and asked for again when there are more or fewer workers.

use std::collections::VecDeque;
use std::sync::Arc;

use gt_compiler::shard::{self, Partition};
use gt_ir::canonical::Bindings;
use gt_ir::shape::Type;

use super::Made;
use super::core::Dispatcher;
use super::gang::{Job, auto, rates};
use super::party::{Owed, Worker};
use super::session::{Question, Session};
use crate::ids::{SessionId, WorkerId};
use crate::wire::{Capacity, FromClient, Order, Stream};

impl Dispatcher {
    /// Keeps a message of a client back until a question about its session is answered. Returns the
    /// message if there is none.
    pub(super) fn hold(
        &mut self,
        id: SessionId,
        (stream, owed): (Stream, Owed),
        message: FromClient,
    ) -> Option<FromClient> {
        let asking = self.sessions.get_mut(&id).and_then(|session| session.asking.as_mut());
        match (asking, message) {
            // These do not belong to the order of the session's work.
            (_, message @ (FromClient::Close | FromClient::Moments(_))) => Some(message),
            (Some(question), message) if stream == Stream::Control => {
                question.held.push_back((owed, message));
                None
            }
            (_, message) => Some(message),
        }
    }

    /// Asks whether a session is to be spread, before a launch. Says whether the launch has to wait
    /// for the answer.
    pub(super) fn asks_first(
        &mut self,
        id: SessionId,
        (number, bindings): (u32, &Arc<Bindings>),
        owed: Owed,
    ) -> bool {
        let n_workers = self.n_fitting(id);
        let Some(job) = self.question(id, number, bindings, n_workers) else { return false };
        if job.weight() <= self.config.small_partition {
            // A segment without a partition fails where it is spread.
            let made = job.make().ok();
            self.advise(id, (number, n_workers), &job, made);
            self.form_gang(id);
            return false;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let (template, job) = (number, Arc::new(job));
        let order = Order::Launch { template, bindings: Arc::clone(bindings) };
        let held = VecDeque::from([(owed, FromClient::Order(order))]);
        session.asking = Some(Question { job: Arc::clone(&job), template, n_workers, held });
        self.want(id, job);
        true
    }

    /// The question about a template, if there is one and it has no answer.
    fn question(
        &self,
        id: SessionId,
        number: u32,
        bindings: &Bindings,
        n_workers: usize,
    ) -> Option<Job> {
        let session = self.sessions.get(&id).filter(|session| session.may_stay())?;
        // A user who has used up the time for compiling goes on without an answer.
        if self.compile_from(session) > self.now {
            return None;
        }
        let held = session.templates.get(number).filter(|held| held.stays != n_workers)?;
        if n_workers < 2 || bindings.inputs.len() != held.template.n_inputs {
            return None;
        }
        let types = bindings.inputs.iter().map(|value| session.ty(*value));
        let types: Vec<Type> = types.collect::<Option<_>>()?;
        let inputs = types.into_iter().map(|ty| (ty, shard::at(0))).collect();
        let uploads = vec![shard::at(0); held.footprint.uploads.len()];
        let members = self.fitting(id).take(n_workers).filter_map(capacity);
        let members: Vec<&Capacity> = members.collect();
        let plan = (auto(&members, 0), rates(&members, self.config.machine));
        let (template, signals) = (held.template.as_ref().clone(), Arc::clone(&session.signals));
        let how = (signals, Some(plan), n_workers as u32);
        Some(Job::new(template, (inputs, uploads), how))
    }

    /// Handles what the client of a broken session has said since a question. Nobody waits for the
    /// answer any more.
    pub(super) fn answer_held(&mut self, id: SessionId) {
        let asking = self.sessions.get_mut(&id).and_then(|session| session.asking.take());
        for (owed, message) in asking.into_iter().flat_map(|question| question.held) {
            self.client_says(id, Stream::Control, owed.weight, message);
        }
    }

    /// Handles what a client has said since a question, if this is the answer to it.
    pub(super) fn answered(&mut self, made: &Made) -> bool {
        let id = made.session;
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let Some(question) = session.asking.take_if(|question| question.job == made.job) else {
            return false;
        };
        let partition = made.partition.clone().ok();
        self.advise(id, (question.template, question.n_workers), &made.job, partition);
        for (owed, message) in question.held {
            self.client_says(id, Stream::Control, owed.weight, message);
        }
        true
    }

    /// Notes whether workers are faster together on a template. Its partition is the first of the
    /// gang.
    fn advise(
        &mut self,
        id: SessionId,
        (number, n_workers): (u32, usize),
        job: &Job,
        partition: Option<Partition>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match partition.filter(Partition::is_spread) {
            Some(partition) => session.spreads = Some(Box::new((job.clone(), partition))),
            None => session.templates.stays(number, n_workers),
        }
    }
}

fn capacity((_, worker): (WorkerId, &Worker)) -> Option<&Capacity> {
    worker.capacity.as_ref()
}

impl Session {
    /// Whether it asks for a plan and nothing else spreads it yet.
    fn may_stay(&self) -> bool {
        self.asks && self.spreads.is_none() && self.gang.is_none() && self.broken.is_none()
    }
}
