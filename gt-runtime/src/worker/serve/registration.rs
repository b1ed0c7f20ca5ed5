//! One registration of a worker with a server: the loop of the thread that owns the sockets.
//!
//! Reports of an earlier registration are dropped, because its sessions are over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use super::hands::{Told, locked, run};
use super::{REGISTERED, Stopped, Worker, WorkerError};
use crate::capture::Capture;
use crate::clock::{self, Time};
use crate::connection::Ending;
use crate::identity::Identity;
use crate::log::{Source, What};
use crate::shutdown::Manner;
use crate::wire::{Packet, Refusal};
use crate::worker::end::{News, WorkerEnd};
use crate::worker::executor::Executor;
use crate::worker::faults::panic_text;
use crate::worker::job::Job;
use crate::worker::jobs::Jobs;
use crate::worker::queue::Fifo;
use crate::worker::roads::{Roads, Trouble};
use crate::worker::siblings::{Action, Road};
use crate::zmq::{Sent, Uplink, UplinkError};

/// The most packets or reports taken before queued packets are sent.
const BATCH: usize = 256;

/// How one registration ended.
pub(super) enum Broken {
    Over(Stopped),
    Lost(String),
}

/// What the registrations of a worker share.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) worker: &'a Worker,
    pub(super) executor: &'a Mutex<Executor>,
    pub(super) orders: &'a Jobs,
    pub(super) told: &'a Fifo<Told>,
    pub(super) capture: &'a Arc<Capture>,
}

/// One registration with a server.
pub(super) struct Registration<'a> {
    parts: Parts<'a>,
    /// Its number. Reports of an earlier one are dropped.
    n: u64,
    end: WorkerEnd,
    roads: Roads<'a>,
    jobs: Vec<Job>,
    opened: bool,
    ending: Option<Ending>,
}

impl<'a> Registration<'a> {
    pub(super) fn new(parts: Parts<'a>, n: u64, end: WorkerEnd, roads: Roads<'a>) -> Self {
        let end = end.noted(parts.capture.clone());
        Registration { parts, n, end, roads, jobs: Vec::new(), opened: false, ending: None }
    }

    /// Serves from the first packet to the last. Then its sessions are over.
    pub(super) fn serve(
        mut self,
        uplink: &Uplink,
        watch: &mut impl FnMut(&str),
    ) -> Result<Broken, WorkerError> {
        let broken = self.exchange(uplink, watch);
        self.end.end_all(&mut self.jobs);
        self.hand_over();
        broken
    }

    fn exchange(
        &mut self,
        uplink: &Uplink,
        watch: &mut impl FnMut(&str),
    ) -> Result<Broken, WorkerError> {
        loop {
            let more =
                self.receive(uplink, watch)? | self.receive_values()? | self.report(uplink)?;
            let now = clock::now();
            if let Some(asked) = self.parts.worker.shutdown.asked() {
                if let Manner::Politely(reason) = &asked {
                    send(uplink, &self.end.close(reason.clone()))?;
                }
                return Ok(Broken::Over(Stopped::ShutDown(asked.reason())));
            }
            self.transmit_values(now);
            let mut packets = Vec::new();
            let ending = self.end.transmit(now, &mut |packet| packets.push(packet));
            for packet in &packets {
                if send(uplink, packet)? != Sent::Queued {
                    // There is no connection, or the server takes no packets. It is lost unless it
                    // is heard from within the grace.
                    self.end.unreachable(now);
                }
            }
            if let Some(ending) = ending.or(self.ending.take()) {
                return self.ended(ending);
            }
            if !more {
                let due = self.end.next_deadline().map(|at| at.saturating_sub(now));
                self.roads.wait(uplink, &self.parts.worker.wakeups, due)?;
            }
        }
    }

    /// Takes packets of the server, a batch at most. Says whether there may be more.
    fn receive(
        &mut self,
        uplink: &Uplink,
        watch: &mut impl FnMut(&str),
    ) -> Result<bool, WorkerError> {
        for _ in 0..BATCH {
            let packet = match uplink.receive() {
                Ok(None) => return Ok(false),
                Ok(Some(packet)) => packet,
                Err(UplinkError::Wire(error)) if self.opened => {
                    watch(&format!("a message was dropped: {error}"));
                    continue;
                }
                Err(UplinkError::Wire(error)) => {
                    return Err(WorkerError::Protocol(
                        self.parts.worker.config.address.clone(),
                        error,
                    ));
                }
                Err(UplinkError::Socket(error)) => return Err(error.into()),
            };
            let mut news = SmallVec::<[News; 1]>::new();
            self.end.receive(clock::now(), packet, &mut self.jobs, |new| news.push(new));
            self.hand_over();
            for new in news {
                match new {
                    News::Opened(welcome) => self.opened(&welcome.name, watch),
                    News::Ended(ending) => self.ending = Some(ending),
                }
            }
        }
        Ok(true)
    }

    /// Takes packets of other workers, a batch at most. Says whether there may be more.
    fn receive_values(&mut self) -> Result<bool, WorkerError> {
        let mut actions = Vec::new();
        for _ in 0..BATCH {
            let Some((road, packet)) = self.roads.receive()? else { return Ok(false) };
            self.end.receive_from(clock::now(), &road, packet, &mut self.jobs, &mut actions);
            self.hand_over();
            actions.drain(..).for_each(|action| self.act(action));
        }
        Ok(true)
    }

    /// Sends what other workers are to get. Ending a road may give values back, which go to the
    /// server.
    fn transmit_values(&mut self, now: Time) {
        let mut actions = Vec::new();
        self.end.transmit_values(now, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Close(road) => self.roads.close(&road),
            Action::Send(road, packet) => match (self.roads.send(&road, &packet), road) {
                (Ok(()), _) => {}
                (Err(Trouble::Impassable), Road::To(door)) => self.end.impassable(&door),
                // A link sends packets again that were dropped.
                (Err(Trouble::Impassable | Trouble::Unreachable), road) => {
                    self.end.road_unreachable(clock::now(), &road);
                }
            },
        }
    }

    fn opened(&mut self, name: &str, watch: &mut impl FnMut(&str)) {
        let config = &self.parts.worker.config;
        watch(&format!("{REGISTERED} {} as {name}", config.address));
        let details = format_args!("{REGISTERED} {}", config.address);
        config.log.line(What::Connect, Source::Worker(name), "Welcome", 0, details);
        self.opened = true;
        let name = Identity::here(config.name.clone()).known_as(name);
        locked(self.parts.executor).set_name(&name);
    }

    /// Hands jobs to the executor's thread. A quick job is done here if that thread is idle,
    /// because waking it and being woken by it would take longer.
    fn hand_over(&mut self) {
        let (Parts { executor, orders, told, .. }, life) = (self.parts, self.n);
        let since = self.parts.capture.now().unwrap_or_default();
        for mut job in self.jobs.drain(..) {
            job.since(since);
            if !job.is_quick() {
                orders.add(life, job);
            } else if let Some(job) = orders.try_begin(life, job) {
                match catch_unwind(AssertUnwindSafe(|| run(executor, orders, told, life, job))) {
                    Ok(ran) => orders.settle(life, ran),
                    Err(panic) => told.push(Told::Panic(panic_text(&*panic))),
                }
            }
        }
    }

    /// Passes the executor's reports on, a batch at most. Says whether there may be more.
    fn report(&mut self, uplink: &Uplink) -> Result<bool, WorkerError> {
        for _ in 0..BATCH {
            match self.parts.told.try_pop() {
                None => return Ok(false),
                Some(Told::Failure(why)) => {
                    send(uplink, &self.end.close(format!("its device failed: {why}")))?;
                    return Err(WorkerError::Device(why));
                }
                Some(Told::Panic(why)) => {
                    send(uplink, &self.end.close(format!("its engine panicked: {why}")))?;
                    return Err(WorkerError::Panic(why));
                }
                Some(Told::Report(life, reports)) if life == self.n => {
                    let now = clock::now();
                    reports.into_iter().for_each(|report| self.end.report(now, report));
                }
                Some(Told::Planned) => self.parts.orders.add(self.n, Job::Planned),
                Some(Told::Answer(life, answer)) if life == self.n => {
                    self.end.report(clock::now(), answer);
                }
                Some(Told::Report(..) | Told::Answer(..)) => {} // Of an earlier registration.
            }
        }
        Ok(true)
    }

    fn ended(&self, ending: Ending) -> Result<Broken, WorkerError> {
        let worker = locked(self.parts.executor).name().to_owned();
        let log = &self.parts.worker.config.log;
        log.line(What::Disconnect, Source::Worker(&worker), "Ended", 0, format_args!("{ending}"));
        let address = || self.parts.worker.config.address.clone();
        match ending {
            Ending::Bye(reason) => Ok(Broken::Over(Stopped::Server(reason))),
            Ending::Refused(
                refusal @ (Refusal::Protocol { .. }
                | Refusal::Ops
                | Refusal::Full { .. }
                | Refusal::Forbidden(_)
                | Refusal::Plain
                | Refusal::Encrypted),
            ) => Err(WorkerError::Refused(address(), refusal)),
            ending if self.opened => Ok(Broken::Lost(ending.to_string())),
            ending => Err(WorkerError::Lost(address(), ending.to_string())),
        }
    }
}

fn send(uplink: &Uplink, packet: &Packet) -> Result<Sent, WorkerError> {
    match uplink.send(packet) {
        Ok(sent) => Ok(sent), // If it was not queued, its link sends it again.
        Err(UplinkError::Socket(error)) => Err(error.into()),
        Err(UplinkError::Wire(error)) => {
            Err(WorkerError::Panic(format!("a report cannot be encoded: {error}")))
        }
    }
}
