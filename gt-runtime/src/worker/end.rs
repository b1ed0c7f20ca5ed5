//! The worker's end of its connection. It takes packets of the dispatcher and reports of the
//! executor, and gives jobs for the executor and packets for the dispatcher.
//!
//! It dials, registers the worker, passes messages to the [`Core`], and gives credit back at once.
//! It is pure: it owns no socket and no thread and reads no clock. The embedded system, the worker
//! in a process of its own and the simulation share it. Values that other workers need go to them
//! directly (`siblings`) where the dispatcher says how.

use smallvec::SmallVec;
#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::job::Job;
use super::progress::Noted;
use super::siblings::{Action, Given, Road, Siblings};
use crate::assembly::Travel;
use crate::capture::{Capture, interval};
use crate::clock::Time;
use crate::connection::{Connection, ConnectionConfig, Ending, Incoming};
#[cfg(test)]
use crate::dispatcher::holdings::Holding;
use crate::identity::Identity;
use crate::ids::Incarnation;
#[cfg(test)]
use crate::ids::SessionId;
use crate::spans::Words;
use crate::wire::{
    Capacity, Doing, Door, FromWorker, Hello, Message, Moment, Packet, Parcel, Role, Stream,
    ToWorker, Weight as _, Welcome,
};

/// One registration of a worker, from the first packet to the last.
pub(crate) struct WorkerEnd {
    connection: Connection,
    core: Core,
    travel: Travel,
    siblings: Siblings,
    /// Values of sessions that the dispatcher has not opened yet. Their credit is not given back,
    /// so their senders' windows limit them.
    early: VecDeque<(Road, Parcel)>,
    /// When what was noted of performances is said, although they are not over.
    news: Option<Time>,
    /// What the worker does, for a tracer of the server.
    capture: Arc<Capture>,
}

/// How long something that is noted of a performance may wait for its end.
const PATIENCE: Duration = Duration::from_secs(1);

/// News of the connection for the shell.
pub(crate) enum News {
    /// The dispatcher has answered.
    Opened(Welcome),
    /// The connection is over. The last news.
    Ended(Ending),
}

impl WorkerEnd {
    /// Connects as a worker of this identity and capacity.
    pub(crate) fn dial(
        now: Time,
        incarnation: Incarnation,
        identity: Identity,
        capacity: Capacity,
        config: ConnectionConfig,
        travel: Travel,
    ) -> WorkerEnd {
        let door = capacity.door.clone();
        let siblings = Siblings::new(identity.clone(), incarnation, config, travel, door);
        let hello = Hello::new(Role::Worker, identity);
        let connection = Connection::dial(now, incarnation, hello, config);
        let (core, early) = (Core::new(), VecDeque::new());
        let capture = Arc::default();
        let mut end = WorkerEnd { connection, core, travel, siblings, early, news: None, capture };
        end.report(now, FromWorker::Register(Box::new(capacity)));
        end
    }

    /// The same end of a worker whose executor notes here what it does.
    pub(crate) fn noted(self, capture: Arc<Capture>) -> WorkerEnd {
        WorkerEnd { capture, ..self }
    }

    /// Takes a packet of the dispatcher. Adds jobs to `jobs`, and passes news to `tell`.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        packet: Packet,
        jobs: &mut Vec<Job>,
        mut tell: impl FnMut(News),
    ) {
        let mut arrived: SmallVec<[Incoming; 2]> = SmallVec::new();
        self.connection.receive(now, packet, &mut |incoming| arrived.push(incoming));
        for incoming in arrived {
            match incoming {
                Incoming::Opened(welcome) => tell(News::Opened(*welcome)),
                Incoming::Ended(ending) => tell(News::Ended(ending)),
                Incoming::Message(stream, message) => self.message(now, stream, message, jobs),
            }
        }
    }

    fn message(&mut self, now: Time, stream: Stream, message: Message, jobs: &mut Vec<Job>) {
        let weight = message.weight();
        match message {
            Message::ToWorker(ToWorker::Watch) => {
                let moments = Box::new(self.capture.take(now));
                self.report_up(now, FromWorker::Moments(moments));
            }
            Message::ToWorker(message) => self.core.handle(stream, message, weight, jobs),
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::FromWorker(_)
            | Message::Parcel(_) => {}
        }
        self.connection.release(stream, weight);
        for (road, parcel) in std::mem::take(&mut self.early) {
            self.arrive(road, parcel, jobs);
        }
    }

    /// Takes a packet of another worker. Adds jobs to `jobs`, and work for the shell to `actions`.
    pub(crate) fn receive_from(
        &mut self,
        now: Time,
        road: &Road,
        packet: Packet,
        jobs: &mut Vec<Job>,
        actions: &mut Vec<Action>,
    ) {
        let mut arrived: SmallVec<[Parcel; 2]> = SmallVec::new();
        self.siblings.receive(now, road, packet, actions, &mut |parcel| arrived.push(parcel));
        arrived.into_iter().for_each(|parcel| self.arrive(road.clone(), parcel, jobs));
    }

    fn arrive(&mut self, road: Road, parcel: Parcel, jobs: &mut Vec<Job>) {
        let weight = parcel.weight();
        match self.core.arrive(parcel, jobs) {
            Some(parcel) => self.early.push_back((road, parcel)),
            None => self.siblings.release(&road, weight),
        }
    }

    /// Collects the packets for other workers, and queues the reports on what they have received.
    /// Called before [`transmit`](WorkerEnd::transmit).
    pub(crate) fn transmit_values(&mut self, now: Time, actions: &mut Vec<Action>) {
        let mut reports = Vec::new();
        let capture = &self.capture;
        self.siblings.transmit(now, actions, &mut reports, |given| {
            if capture.is_on() {
                let Given { to, session, bytes, began } = given;
                let given = interval(Doing::Give, began, now);
                let given =
                    Moment { of: Some((session, 0)), n: bytes, to: Some(to.tag()), ..given };
                capture.add_of(now, given, None, 0, Words::None);
            }
        });
        reports.into_iter().for_each(|report| self.report_up(now, report));
    }

    /// Notes that the transport could not reach the other end of a road.
    pub(crate) fn road_unreachable(&mut self, now: Time, road: &Road) {
        self.siblings.unreachable(now, road);
    }

    /// Notes that the road to another worker cannot be opened.
    pub(crate) fn impassable(&mut self, door: &Door) {
        self.siblings.impassable(door);
    }

    /// Passes the packets to send now to `out`. Returns the reason if the connection is over.
    pub(crate) fn transmit(&mut self, now: Time, out: &mut impl FnMut(Packet)) -> Option<Ending> {
        let mut over = None;
        if self.news.take_if(|due| *due <= now).is_some() {
            let mut news = Vec::new();
            self.core.news(&mut news);
            news.into_iter().for_each(|report| self.say(now, report));
        }
        self.connection.transmit(now, out, &mut |incoming| {
            if let Incoming::Ended(ending) = incoming {
                over = Some(ending);
            }
        });
        over
    }

    /// Queues a report, or sends the value that it carries to the worker that needs it.
    pub(crate) fn report(&mut self, now: Time, report: FromWorker) {
        let report = match report {
            FromWorker::Chunk { session, request, chunk } => {
                let back = match self.core.route(session, request) {
                    Some(to) => self.siblings.send(now, (session, request), chunk, &to),
                    None => Some(chunk),
                };
                let Some(chunk) = back else { return };
                FromWorker::Chunk { session, request, chunk }
            }
            FromWorker::Failed { session, request, .. } => {
                drop(self.core.route(session, request));
                report
            }
            other => other,
        };
        self.report_up(now, report);
    }

    /// Queues a report for the dispatcher. What is part of a performance is said at its end, except
    /// that the dispatcher passes on errors and values.
    fn report_up(&mut self, now: Time, report: FromWorker) {
        let noted = self.core.note(&report);
        let is_said_later = matches!(report, FromWorker::Done { .. } | FromWorker::Sent { .. });
        if noted == Noted::Foreign || !is_said_later {
            self.say(now, report);
        }
        match noted {
            Noted::Foreign => {}
            Noted::Kept => {
                self.news.get_or_insert(now + PATIENCE);
            }
            Noted::Over(performed) => self.say(now, performed),
        }
    }

    /// Sends a report. A tensor is split into pieces if the transport needs pieces.
    fn say(&mut self, now: Time, report: FromWorker) {
        if let FromWorker::Chunk { session, request, chunk } = report {
            for chunk in self.travel.pieces(chunk) {
                let message = Message::FromWorker(FromWorker::Chunk { session, request, chunk });
                self.connection.send(now, Stream::Bulk, message);
            }
        } else {
            self.connection.send(now, Stream::Control, Message::FromWorker(report));
        }
    }

    /// Notes that the transport could not reach the dispatcher. The connection ends unless the
    /// dispatcher is heard from within the grace.
    pub(crate) fn unreachable(&mut self, now: Time) {
        self.connection.unreachable(now);
    }

    /// When to call [`transmit`](WorkerEnd::transmit), unless a packet arrives before.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let connections = [self.connection.next_deadline(), self.siblings.next_deadline()];
        connections.into_iter().chain([self.news]).flatten().min()
    }

    /// Closes the connection. The returned packet tells the dispatcher the reason.
    pub(crate) fn close(&mut self, reason: String) -> Packet {
        self.connection.close(reason)
    }

    /// The templates and uploads that it holds of each session.
    #[cfg(test)]
    pub(crate) fn holdings(&self) -> BTreeMap<SessionId, Holding> {
        self.core.holdings()
    }

    /// Whether no value is on its way to another worker.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.siblings.is_idle() && self.early.is_empty()
    }

    /// Ends every session, because the dispatcher that opened them is gone.
    pub(crate) fn end_all(&mut self, jobs: &mut Vec<Job>) {
        self.core.end_all(jobs);
    }
}
