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

pub(super) struct State {
    pub(super) dispatcher: Dispatcher,
    pub(super) sessions: BTreeMap<PeerId, Session>,
    pub(super) workers: BTreeMap<PeerId, Worker>,
    next_peer: u64,
    /// Peers whose connections may have something to send.
    stirred: VecDeque<PeerId>,
    actions: Vec<Action>,
    packets: Vec<Packet>,
    jobs: Vec<Job>,
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
            next_peer: 0,
            stirred: VecDeque::new(),
            actions: Vec::new(),
            packets: Vec::new(),
            jobs: Vec::new(),
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
        while let Some(peer) = self.stirred.pop_front() {
            let mut packets = std::mem::take(&mut self.packets);
            self.transmit(peer, &mut packets);
            for mut packet in packets.drain(..) {
                if modifier::is_at(Place::Dispatcher) {
                    self.modify(peer, &mut packet);
                }
                self.bring(Event::Packet(peer, packet));
            }
            self.packets = packets;
        }
    }

    /// Passes a packet through the dispatcher's modifiers. A refusal ends the session.
    fn modify(&mut self, peer: PeerId, packet: &mut Packet) {
        if let Err(why) = modifier::arrive(&peer, &self.log, packet) {
            let body = Body::Refused(Refusal::Fault(why.clone()));
            self.deliver(peer, Packet { stream: Stream::Control, body, ..packet.clone() });
            packet.body = Body::Bye { reason: why };
        }
    }

    fn transmit(&mut self, peer: PeerId, packets: &mut Vec<Packet>) {
        let (now, mut say) = (clock::now(), |packet| packets.push(packet));
        if let Some(session) = self.sessions.get_mut(&peer) {
            session.transmit(now, &mut say);
            self.tasks.append(&mut session.take_tasks());
        } else if let Some(worker) = self.workers.get_mut(&peer) {
            let _ = worker.end.transmit(now, &mut say);
        }
    }

    /// Gives an event to the dispatcher, and performs its actions.
    pub(super) fn bring(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        let now = clock::now();
        self.dispatcher.handle(now, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Send(peer, packet) => self.deliver(peer, packet),
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

    fn deliver(&mut self, peer: PeerId, packet: Packet) {
        let now = clock::now();
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
