//! The workers that sessions ask for, by engine and device, and how many.
//!
//! Guarantees: a session lives only on workers that it asks for. While there are only others, its
//! orders wait as they do without any worker, and its client is told once which workers there are.
//! A session that asks for what can never join fails.

use super::core::Dispatcher;
use super::party::Worker;
use super::session::error;
use crate::ids::{SessionId, WorkerId};
use crate::wire::Capacity;
use crate::wire::codec::cut;
use gt_ir::backend::{Demand, ErrorKind, RunError};

/// The most workers that a message names.
const MAX_NAMED: usize = 8;

impl Dispatcher {
    /// The workers that a session asks for, by number.
    pub(super) fn fitting(&self, id: SessionId) -> impl Iterator<Item = (WorkerId, &Worker)> {
        let demand = self.sessions.get(&id).map(|session| &session.demand);
        let fits = move |worker: &Worker| match (demand, &worker.capacity) {
            (Some(demand), Some(capacity)) => demand.fits(&capacity.engine, &capacity.device),
            _ => false,
        };
        self.ready().filter(move |(_, worker)| fits(worker))
    }

    /// The number of workers over which a session may be spread.
    pub(super) fn n_fitting(&self, id: SessionId) -> usize {
        let most = self.sessions.get(&id).and_then(|session| session.demand.workers);
        self.fitting(id).count().min(most.unwrap_or(usize::MAX))
    }

    /// Tells a client that asks for more workers than there are.
    pub(super) fn warn_few(&mut self, id: SessionId) {
        let wanted = self.sessions.get(&id).and_then(|session| session.demand.workers);
        let n_there = self.fitting(id).count();
        if let Some(wanted) = wanted.filter(|wanted| *wanted > n_there) {
            let text = format!("{wanted} workers were asked for, and {n_there} of them are there");
            self.tell_warning(id, text);
        }
    }

    /// Lets a session without a home wait for a worker, or fails it if none can join that it asks
    /// for. Says whether it failed.
    pub(super) fn miss_home(&mut self, id: SessionId) -> bool {
        let Some(session) = self.sessions.get(&id).filter(|session| !session.told_unfit) else {
            return false;
        };
        let asked = wanted(&session.demand);
        let Some(why) = self.unfit(id) else { return false };
        if !self.config.may_grow {
            self.fail_session(id, why);
            return true;
        }
        let there = self.there();
        self.sessions.entry(id).and_modify(|session| session.told_unfit = true);
        let text = format!("the program waits for a worker with {asked}: the workers are {there}");
        self.tell_warning(id, text);
        false
    }

    /// Why a session has found no home, if there are workers.
    pub(super) fn unfit(&self, id: SessionId) -> Option<RunError> {
        let demand = &self.sessions.get(&id)?.demand;
        if self.n_workers() == 0 || self.fitting(id).next().is_some() {
            return None;
        }
        let (asked, there, waited) = (wanted(demand), self.there(), self.config.wait_worker);
        let waited = format!(", and none came within {} s", waited.as_secs());
        let waited = if self.config.may_grow { waited } else { String::new() };
        let message = cut(format!("no worker has {asked}{waited}: the workers are {there}"));
        let hint =
            format!("start one with `gt-cli worker{}`, or ask for one of these", flags(demand));
        Some(error(ErrorKind::Resource, message).hint(cut(hint)))
    }

    /// The workers that there are, for a message.
    fn there(&self) -> String {
        let there = self.ready().filter_map(|(id, worker)| {
            let Capacity { engine, device, threads, .. } = worker.capacity.as_ref()?;
            Some(format!("{} ({engine} on {device}, {threads} threads)", self.worker_name(id)))
        });
        let mut there: Vec<String> = there.take(MAX_NAMED).collect();
        let n_more = self.n_workers() - there.len();
        there.extend((n_more > 0).then(|| format!("{n_more} more")));
        there.join(", ")
    }
}

/// A demand, for a message.
fn wanted(demand: &Demand) -> String {
    let engine = demand.engine.iter().map(|engine| format!("engine {engine}"));
    let device = demand.device.iter().map(|device| format!("device {device}"));
    engine.chain(device).collect::<Vec<String>>().join(" and ")
}

/// The flags that start a worker which meets a demand.
fn flags(demand: &Demand) -> String {
    let engine = demand.engine.iter().map(|engine| format!(" --engine {engine}"));
    engine.chain(demand.device.iter().map(|device| format!(" --device {device}"))).collect()
}
