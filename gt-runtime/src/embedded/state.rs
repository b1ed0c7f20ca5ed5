//! Dispatcher, sessions and worker cores as passive state. An event is handled with all packets
//! that follow from it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crate::client::Session;
use crate::clock::{self, Time};
use crate::dispatcher::{Action, Config, Dispatcher, Event};
use crate::ids::PeerId;
use crate::log::Log;
use crate::modifier::{self, Place};
use crate::spans;
use crate::wire::{Body, Capacity, Packet, Refusal, Stream};
use crate::worker::end::News;
use crate::worker::jobs::Jobs;
use crate::worker::{Job, WorkerEnd};

use super::ONLY;
use super::post::Post;

pub(super) struct State {
    pub(super) dispatcher: Dispatcher,
    pub(super) sessions: BTreeMap<PeerId, Session>,
    pub(super) workers: BTreeMap<PeerId, Worker>,
    /// The post of the only worker, if threads that wait may do its jobs.
    pub(super) post: Option<Arc<Post>>,
    next_peer: u64,
    /// Peers whose connections may have something to send.
    stirred: VecDeque<PeerId>,
    actions: Vec<Action>,
    packets: Vec<Packet>,
    jobs: Vec<Job>,
    /// The number of threads that wait until a session has room.
    pub(super) n_waiting: usize,
    /// Tasks whose answers have arrived, to be woken without the lock.
    pub(super) tasks: Vec<Waker>,
    log: Log,
}

pub(super) struct Worker {
    pub(super) end: WorkerEnd,
    pub(super) queue: Arc<Jobs>,
    pub(super) name: String,
    pub(super) capacity: Capacity,
}

impl State {
    pub(super) fn new(log: Log) -> State {
        State {
            dispatcher: Dispatcher::new(Config { notes: log.is_on(), ..Config::embedded() }),
            sessions: BTreeMap::new(),
            workers: BTreeMap::new(),
            post: None,
            next_peer: 0,
            stirred: VecDeque::new(),
            actions: Vec::new(),
            packets: Vec::new(),
            jobs: Vec::new(),
            n_waiting: 0,
            tasks: Vec::new(),
            log,
        }
    }

    pub(super) fn new_peer(&mut self) -> PeerId {
        self.next_peer += 1;
        PeerId(self.next_peer)
    }

    /// Delivers the packets of a peer, and all packets that follow from them.
    pub(super) fn settle(&mut self, peer: PeerId) {
        self.stirred.push_back(peer);
        let now = clock::now();
        while let Some(peer) = self.stirred.pop_front() {
            let mut packets = std::mem::take(&mut self.packets);
            self.transmit(now, peer, &mut packets);
            for mut packet in packets.drain(..) {
                if modifier::is_at(Place::Dispatcher) {
                    self.modify(now, peer, &mut packet);
                }
                self.bring(now, Event::Packet(peer, packet));
            }
            self.packets = packets;
        }
    }

    /// Passes a packet through the dispatcher's modifiers. A refusal ends the session.
    fn modify(&mut self, now: Time, peer: PeerId, packet: &mut Packet) {
        if let Err(why) = modifier::arrive(peer, &self.log, packet) {
            let body = Body::Refused(Refusal::Fault(why.clone()));
            self.deliver(now, peer, Packet { stream: Stream::Control, body, ..packet.clone() });
            packet.body = Body::Bye { reason: why };
        }
    }

    fn transmit(&mut self, now: Time, peer: PeerId, packets: &mut Vec<Packet>) {
        let mut say = |packet| packets.push(packet);
        if let Some(session) = self.sessions.get_mut(&peer) {
            session.transmit(now, &mut say);
            self.tasks.append(&mut session.take_tasks());
        } else if let Some(worker) = self.workers.get_mut(&peer) {
            let _ = worker.end.transmit(now, &mut say);
        }
    }

    /// Gives an event to the dispatcher, and performs its actions.
    pub(super) fn bring(&mut self, now: Time, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        self.dispatcher.handle(now, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Send(peer, packet) => self.deliver(now, peer, packet),
                Action::Note(note) => self.log.note(now, &note),
                Action::Report(report) => self.log.report(&report),
                // Nobody can ask for a trace, and partitions are made in the dispatcher's turn.
                Action::Forget(_)
                | Action::Trace { .. }
                | Action::Moments { .. }
                | Action::Partition { .. } => {}
            }
        }
        self.actions = actions;
    }

    fn deliver(&mut self, now: Time, peer: PeerId, packet: Packet) {
        if let Some(session) = self.sessions.get_mut(&peer) {
            session.receive(now, packet);
            self.tasks.append(&mut session.take_tasks());
        } else if let Some(worker) = self.workers.get_mut(&peer) {
            let Worker { end, queue, name, .. } = worker;
            end.receive(now, packet, &mut self.jobs, |news| match news {
                News::Opened(welcome) => *name = welcome.name,
                News::Ended(_) => queue.close(),
            });
            let since = if spans::exporter().is_some() { now } else { Time::ZERO };
            for mut job in self.jobs.drain(..) {
                job.since(since);
                worker.queue.add(ONLY, job);
            }
        }
        if self.stirred.back() != Some(&peer) {
            self.stirred.push_back(peer);
        }
    }
}
