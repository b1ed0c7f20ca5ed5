//! The worker's end of its connection: packets of the dispatcher in, jobs for the executor and
//! packets of its reports out.
//!
//! It dials, registers the worker, weighs what arrives, feeds the [`Core`] and gives credit back,
//! at once or when a job is done. Pure: it owns no socket and no thread and reads no clock. The
//! embedded system, the worker in a process of its own and the simulation run the same one.

use smallvec::SmallVec;

use super::core::Core;
use super::job::Job;
use crate::assembly::Travel;
use crate::clock::Time;
use crate::connection::{Connection, ConnectionConfig, Ending, Incoming};
use crate::identity::Identity;
use crate::ids::Incarnation;
use crate::wire::{
    Capacity, FromWorker, Hello, Message, Packet, Role, Stream, Weight as _, Welcome,
};

/// One registration of a worker, from its first word to its last.
pub(crate) struct WorkerEnd {
    connection: Connection,
    core: Core,
    travel: Travel,
}

/// What a shell is to know of its connection.
pub(crate) enum News {
    /// The dispatcher has answered.
    Opened(Welcome),
    /// The connection is over: last, and once.
    Ended(Ending),
}

impl WorkerEnd {
    /// A worker that says who it is and what it offers.
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

    /// Takes a packet of the dispatcher: jobs are added to `jobs`, news are handed to `tell`.
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

    /// Hands out what is to be sent now; gives the reason when the connection is over.
    pub(crate) fn transmit(&mut self, now: Time, out: &mut impl FnMut(Packet)) -> Option<Ending> {
        let mut over = None;
        self.connection.transmit(now, out, &mut |incoming| {
            if let Incoming::Ended(ending) = incoming {
                over = Some(ending);
            }
        });
        over
    }

    /// A job is done: the sender of its message gets this credit back.
    pub(crate) fn release(&mut self, owed: u64) {
        self.connection.release(Stream::Control, owed);
    }

    /// Queues a report; a tensor in pieces where the transport wants them.
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

    /// The transport could not reach the dispatcher: it has the grace to be heard of again.
    pub(crate) fn unreachable(&mut self, now: Time) {
        self.connection.unreachable(now);
    }

    /// When [`transmit`](WorkerEnd::transmit) has something to do, if nothing arrives before.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.connection.next_deadline()
    }

    /// Ends the connection from this side; the packet tells the dispatcher why.
    pub(crate) fn close(&mut self, reason: String) -> Packet {
        self.connection.close(reason)
    }

    /// Ends every session: the dispatcher that knew them is gone.
    pub(crate) fn end_all(&mut self, jobs: &mut Vec<Job>) {
        self.core.end_all(jobs);
    }
}
