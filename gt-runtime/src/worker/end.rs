//! The worker's end of its connection. It takes packets of the dispatcher and reports of the
//! executor, and gives jobs for the executor and packets for the dispatcher.
//!
//! It dials, registers the worker, passes messages to the [`Core`], and gives credit back, at once
//! or when a job is done. It is pure: it owns no socket and no thread and reads no clock. The
//! embedded system, the worker in a process of its own and the simulation share it.

use smallvec::SmallVec;
#[cfg(test)]
use std::collections::BTreeMap;

use super::core::Core;
use super::job::Job;
use crate::assembly::Travel;
use crate::clock::Time;
use crate::connection::{Connection, ConnectionConfig, Ending, Incoming};
#[cfg(test)]
use crate::dispatcher::holdings::Holding;
use crate::identity::Identity;
use crate::ids::Incarnation;
#[cfg(test)]
use crate::ids::SessionId;
use crate::wire::{
    Capacity, FromWorker, Hello, Message, Packet, Role, Stream, Weight as _, Welcome,
};

/// One registration of a worker, from the first packet to the last.
pub(crate) struct WorkerEnd {
    connection: Connection,
    core: Core,
    travel: Travel,
}

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
        let hello = Hello::new(Role::Worker, identity);
        let connection = Connection::dial(now, incarnation, hello, config);
        let mut end = WorkerEnd { connection, core: Core::new(), travel };
        end.report(now, FromWorker::Register(capacity));
        end
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
                Incoming::Opened(welcome) => tell(News::Opened(welcome)),
                Incoming::Ended(ending) => tell(News::Ended(ending)),
                Incoming::Message(stream, message) => self.message(stream, message, jobs),
            }
        }
    }

    fn message(&mut self, stream: Stream, message: Message, jobs: &mut Vec<Job>) {
        let weight = message.weight();
        let free = match message {
            Message::ToWorker(message) => self.core.handle(stream, message, weight, jobs),
            Message::FromClient(_) | Message::ToClient(_) | Message::FromWorker(_) => weight,
        };
        self.connection.release(stream, free);
    }

    /// Passes the packets to send now to `out`. Returns the reason if the connection is over.
    pub(crate) fn transmit(&mut self, now: Time, out: &mut impl FnMut(Packet)) -> Option<Ending> {
        let mut over = None;
        self.connection.transmit(now, out, &mut |incoming| {
            if let Incoming::Ended(ending) = incoming {
                over = Some(ending);
            }
        });
        over
    }

    /// Gives back the credit of a job that is done.
    pub(crate) fn release(&mut self, owed: u64) {
        self.connection.release(Stream::Control, owed);
    }

    /// Queues a report. A tensor is split into pieces if the transport needs pieces.
    pub(crate) fn report(&mut self, now: Time, report: FromWorker) {
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
        self.connection.next_deadline()
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

    /// Ends every session, because the dispatcher that opened them is gone.
    pub(crate) fn end_all(&mut self, jobs: &mut Vec<Job>) {
        self.core.end_all(jobs);
    }
}
