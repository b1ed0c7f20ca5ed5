//! A gang: the workers that one session lives on, and which part of which value each of them holds.
//!
//! The dispatcher partitions each segment of such a session ([`gt_compiler::shard`]). It keeps the
//! partitions of segments that come again. A member sees an ordinary session: its own tapes,
//! templates and uploads. What one member sends another is an upload of the other. It goes from
//! worker to worker where they reach each other; otherwise the dispatcher reads it on the one and
//! passes it on to the other (`exchange`).
//!
//! This file keeps the books. It sends nothing.

mod check;
mod exchange;
mod learn;
mod orders;
mod partitions;
mod performances;
mod roads;
mod routines;
mod uploads;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gt_compiler::shard::{self, Auto, Local, Partition, Rates};
use gt_ir::backend::{Demand, WorkerStats};
use gt_ir::canonical::Bindings;
use gt_ir::layout::Layout;
use gt_ir::shape::Type;
use gt_ir::signal::Signals;
use gt_ir::tape::{Tape, ValueId};

use super::party::Owed;
use crate::ids::{RequestId, SessionId, WorkerId};
use crate::machine::Machine;
use crate::wire::{Capacity, Destination, Door, Order, RESERVED, Traffic, Work};
use exchange::{Transfer, Transfers};
pub(super) use orders::{Ordered, Orders};
pub use partitions::Job;
use partitions::Partitions;
use performances::{Performances, Underway};
pub(super) use roads::MAX_ROADS;
use roads::Roads;
use uploads::Uploads;

/// The most warnings of which a client is told. Each is told once, so all of them are kept.
const MAX_WARNED: usize = 256;

/// The workers of one session.
#[derive(Debug, Default)]
pub(super) struct Gang {
    /// The members. The first one is the session's home.
    pub(super) seats: Vec<Seat>,
    /// Which member each worker is.
    members: BTreeMap<WorkerId, usize>,
    /// Where each live value is.
    places: BTreeMap<ValueId, Place>,
    partitions: Partitions,
    uploads: Uploads,
    n_names: u64,
    n_requests: u64,
    /// Values on their way from one member to another, by the request that reads them. Those of
    /// performances are not among them, unless they go through the dispatcher.
    transfers: Transfers,
    performances: Performances,
    roads: Roads,
    /// The credit of segments that not all members have run, and the number of those before them.
    unpaid: VecDeque<Unpaid>,
    n_paid: u64,
    /// What the program says about its signals.
    signals: Arc<Signals>,
    /// What signals asked for and did not get, as the client has been told.
    warned: Vec<String>,
}

/// One member.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) worker: WorkerId,
    /// The session as the worker knows it.
    pub(super) session: SessionId,
    /// The number of sessions that had been opened on the worker, with this one.
    pub(super) opened: u64,
    /// Segments that were ordered.
    pub(super) n_segments: u64,
    /// Segments that ran.
    pub(super) n_done: u64,
    /// The number of the session's segments of which it has run its part.
    pub(super) n_met: u64,
    /// What the worker is, and the machine that it runs on.
    pub(super) capacity: Capacity,
    pub(super) host: String,
    /// What ran there for the session.
    pub(super) ran: WorkerStats,
}

/// The credit of a segment. It goes back when the last member has run its part, so a client gets no
/// further ahead of a slow member than its credit allows.
#[derive(Debug)]
struct Unpaid {
    owed: Owed,
    /// What each member has to have run.
    n_segments: Vec<u64>,
    /// The number of members that have not.
    n_left: usize,
}

/// Where a value is.
#[derive(Clone, Debug)]
struct Place {
    ty: Type,
    layout: Layout,
    /// What it is called on each member of the layout's mesh.
    names: Arc<[ValueId]>,
}

/// Seconds that an exchange between processes takes, however small: the two ends of a connection,
/// and a kernel that could have gone on.
const ROUND: f64 = 800e-6;
/// Bytes a second between processes of a machine.
const ROAD: f64 = 2.5e9;

/// How work on members of these capacities is planned. Members of one process share its memory.
/// Plans leave a tenth of the memory for what estimates do not count.
pub(super) fn auto(members: &[&Capacity], zero: u8) -> Auto {
    let memory = members.iter().map(|capacity| capacity.memory).min().unwrap_or(0);
    let memory = if is_one_process(members) { memory / members.len() as u64 } else { memory };
    Auto { zero, memory: memory - memory / 10 }
}

fn is_one_process(members: &[&Capacity]) -> bool {
    !members.is_empty() && members.iter().all(|capacity| capacity.door.is_none())
}

/// What members of these capacities and their exchanges cost. Members of one process share its
/// processor, of which the process knows what it can do.
pub(super) fn rates(members: &[&Capacity], here: Option<Machine>) -> Rates {
    if members.iter().all(|capacity| capacity.device.starts_with("cuda")) {
        return Rates::GPU;
    }
    let n = members.len().max(1) as f64;
    let threads = members.iter().map(|capacity| capacity.threads).min().unwrap_or(1).max(1);
    let least = |of: fn(&Capacity) -> u64| members.iter().map(|c| of(c)).min().unwrap_or(0) as f64;
    if is_one_process(members) {
        let usual = Rates { alone: n, ..Rates::threads(f64::from(threads) / n) };
        return here.map_or(usual, |here| usual.reaching(here.flops / n, here.bytes / n));
    }
    let usual = Rates::threads(f64::from(threads)).reaching(least(|c| c.flops), least(|c| c.bytes));
    Rates { latency: ROUND, exchange: ROAD, ..usual }
}

impl Seat {
    /// A seat on a worker that knows the session under this number.
    pub(super) fn new(
        worker: WorkerId,
        (session, opened): (SessionId, u64),
        capacity: Capacity,
        host: String,
    ) -> Seat {
        let (n_segments, n_done, n_met, ran) = (0, 0, 0, WorkerStats::default());
        Seat { worker, session, opened, n_segments, n_done, n_met, capacity, host, ran }
    }
}

impl Place {
    /// A value that the first member holds under its own name.
    fn at_home(value: ValueId, ty: Type) -> Place {
        Place { ty, layout: shard::at(0), names: [value].into() }
    }
}

impl Gang {
    /// A gang without members, of a session that holds these values and says this about its
    /// signals. A partition may be there already.
    pub(super) fn new(
        live: impl Iterator<Item = (ValueId, Type)>,
        signals: Arc<Signals>,
        first: Option<(Job, Partition)>,
    ) -> Gang {
        let places = live.map(|(value, ty)| (value, Place::at_home(value, ty))).collect();
        let mut gang = Gang { places, signals, ..Gang::default() };
        first.into_iter().for_each(|(job, partition)| gang.made(&job, partition));
        gang
    }

    /// The member that a worker is.
    pub(super) fn member(&self, worker: WorkerId) -> Option<usize> {
        self.members.get(&worker).copied()
    }

    /// Adds a member.
    pub(super) fn sit(&mut self, seat: Seat) {
        self.members.insert(seat.worker, self.seats.len());
        let n_met = self.n_paid + self.unpaid.len() as u64;
        self.seats.push(Seat { n_met, ..seat });
    }

    /// Every member is gone, with all values. Returns the members and the credit of what they have
    /// not run.
    pub(super) fn clear(&mut self) -> (Vec<Seat>, Vec<Owed>) {
        let seats = std::mem::take(&mut self.seats);
        let unpaid = std::mem::take(&mut self.unpaid).into_iter().map(|unpaid| unpaid.owed);
        *self = Gang {
            n_names: self.n_names,
            n_requests: self.n_requests,
            warned: std::mem::take(&mut self.warned),
            ..Gang::default()
        };
        (seats, unpaid.collect())
    }

    /// Notes the credit of the segment that members were ordered last.
    pub(super) fn owe(&mut self, owed: Owed) {
        let n_segments = self.seats.iter().map(|seat| seat.n_segments).collect();
        self.unpaid.push_back(Unpaid { owed, n_segments, n_left: self.seats.len() });
        (0..self.seats.len()).for_each(|member| self.meet(member));
    }

    /// Notes that a member has run all segments below a number, and what they cost. A number that
    /// is not new to it, or that it was not ordered, is a late or wrong report.
    pub(super) fn ran(&mut self, member: usize, n_done: u64, work: Work) {
        let Some(seat) = self.seats.get_mut(member) else { return };
        if seat.n_done < n_done && n_done <= seat.n_segments {
            seat.n_done = n_done;
            seat.ran.segments = seat.ran.segments.saturating_add(work.segments);
            seat.ran.instructions = seat.ran.instructions.saturating_add(work.instructions);
            self.meet(member);
        }
    }

    /// Notes of which segments a member has run its part. Each segment is looked at once for each
    /// member, however many reports come.
    fn meet(&mut self, member: usize) {
        let Gang { seats, unpaid, n_paid, .. } = self;
        let Some(seat) = seats.get_mut(member) else { return };
        while let Some(next) = unpaid.get_mut((seat.n_met - *n_paid) as usize)
            && next.n_segments.get(member).is_none_or(|n| *n <= seat.n_done)
        {
            next.n_left -= 1;
            seat.n_met += 1;
        }
    }

    /// The credit of the next segment that all members have run.
    pub(super) fn paid(&mut self) -> Option<Owed> {
        let first = self.unpaid.pop_front_if(|first| first.n_left == 0)?;
        self.n_paid += 1;
        Some(first.owed)
    }

    /// The credit of segments that not all members have run.
    pub(super) fn unpaid(&self) -> impl Iterator<Item = &Owed> {
        self.unpaid.iter().map(|unpaid| &unpaid.owed)
    }

    /// The program says this about its signals from now on.
    pub(super) fn heed(&mut self, signals: &Arc<Signals>) {
        if !Arc::ptr_eq(&self.signals, signals) {
            self.signals = Arc::clone(signals);
            self.partitions.clear();
        }
    }

    /// Takes a partition that was made.
    pub(super) fn made(&mut self, job: &Job, made: Partition) {
        self.partitions.add(job, made);
    }

    /// Whether a session asks for a plan, and for nothing that needs several workers in any case.
    pub(super) fn asks(signals: &Signals, demand: &Demand) -> bool {
        demand.plans() == Some(0) && Gang::wished(signals, &Demand::default()) <= 1
    }

    /// How many workers a session asks for, whether they are there or not.
    pub(super) fn wished(signals: &Signals, demand: &Demand) -> usize {
        let mut shards = signals.iter().filter_map(|(_, config)| config.shard.as_ref());
        if demand.plans().is_some() || shards.any(|shard| shard.named().is_none()) {
            return usize::MAX;
        }
        signals.last_worker().map_or(0, |last| last as usize + 1)
    }

    /// The member for which the others wait: it has work to do or a value to send, and waits for no
    /// value itself.
    pub(super) fn late(&self) -> Option<WorkerId> {
        let underway = || self.performances.values().flat_map(Underway::ends);
        let ends = || self.transfers.values().map(Transfer::ends).chain(underway());
        let late = |(member, seat): &(usize, &Seat)| {
            let busy = seat.n_done < seat.n_segments || ends().any(|(from, _)| from == *member);
            busy && ends().all(|(_, to)| to != *member)
        };
        self.seats.iter().enumerate().find(late).map(|(_, seat)| seat.worker)
    }

    /// So many new names.
    fn names(&mut self, n: u32) -> u64 {
        let first = RESERVED + self.n_names;
        self.n_names += u64::from(n);
        first
    }

    fn request(&mut self) -> RequestId {
        self.requests(1)
    }

    /// The first of so many new requests.
    fn requests(&mut self, n: u32) -> RequestId {
        let first = RESERVED + self.n_requests + 1;
        self.n_requests += u64::from(n);
        RequestId(first)
    }

    /// What members have brought each other without the dispatcher.
    pub(super) fn traffic(&self) -> impl Iterator<Item = ((WorkerId, WorkerId), Traffic)> + '_ {
        let worker = |member: usize| self.seats.get(member).map(|seat| seat.worker);
        let roads = self.roads.iter();
        roads.filter_map(move |((from, to), traffic)| Some(((worker(from)?, worker(to)?), traffic)))
    }

    /// How the members' work is planned.
    fn auto(&self, zero: u8) -> Auto {
        auto(&self.seats.iter().map(|seat| &seat.capacity).collect::<Vec<_>>(), zero)
    }

    /// What the members and their exchanges cost.
    fn rates(&self, here: Option<Machine>) -> Rates {
        rates(&self.seats.iter().map(|seat| &seat.capacity).collect::<Vec<_>>(), here)
    }

    /// How one member reaches another, if it can.
    fn road(&self, from: usize, to: usize) -> Option<Arc<Door>> {
        let (from, to) = (self.seats.get(from)?, self.seats.get(to)?);
        let door = to.capacity.door.as_ref()?;
        (!door.local || from.host == to.host).then(|| Arc::clone(door))
    }

    /// The order that sends a value of a member on its way.
    fn sending(&mut self, transfer: Transfer) -> Order {
        let ((from, to), value) = (transfer.ends(), transfer.value());
        let request = self.request();
        let destination = self.road(from, to).zip(self.seats.get(to)).map(|(door, seat)| {
            let (session, opened, value) = (seat.session, seat.opened, transfer.received());
            Arc::new(Destination { door, session, opened, value })
        });
        self.transfers.insert(request, transfer);
        match destination {
            Some(to) => Order::Send { request, value, to },
            None => Order::Fetch { request, value },
        }
    }

    /// What a value is called on a member.
    fn name_of(&self, value: ValueId, member: usize) -> Option<ValueId> {
        let place = self.places.get(&value)?;
        let rank = place.layout.mesh.rank_of(member as u32)?;
        place.names.get(rank).copied()
    }

    /// Notes where values are after a segment.
    fn settle(&mut self, bound: &Bound<'_>, partition: &Partition, tape: &Tape) {
        for kept in &partition.kept {
            let Some(value) = bound.value(kept.value) else { continue };
            let members = kept.layout.mesh.members().iter();
            let names = members.zip(&kept.names);
            let names = names.filter_map(|(&m, local)| bound.local(self, *local, m as usize));
            let place = Place { ty: kept.ty, layout: kept.layout.clone(), names: names.collect() };
            self.places.insert(value, place);
        }
        for entry in &tape.entries {
            if let gt_ir::Entry::Free(number) = entry
                && let Some(value) = bound.value(number.0 as u32)
            {
                self.places.remove(&value);
            }
        }
    }
}

/// A segment's values by their numbers, and the names that members give to what they make.
struct Bound<'a> {
    bindings: &'a Bindings,
    n_inputs: usize,
    /// The name of the first value that each member makes.
    first: Vec<u64>,
}

impl Bound<'_> {
    /// A value of the segment.
    fn value(&self, number: u32) -> Option<ValueId> {
        match (number as usize).checked_sub(self.n_inputs) {
            None => self.bindings.inputs.get(number as usize).copied(),
            Some(k) => self.bindings.defined.get(k),
        }
    }

    /// The first name that is given.
    fn origin(&self) -> u64 {
        self.first.first().copied().unwrap_or(RESERVED)
    }

    /// The place of a member's first name among those that are given.
    fn offset(&self, member: usize) -> u32 {
        self.first.get(member).map_or(0, |first| (first - self.origin()) as u32)
    }

    /// The name of a value on a member.
    fn local(&self, gang: &Gang, local: Local, member: usize) -> Option<ValueId> {
        match local {
            Local::Made(made) => Some(ValueId(self.first.get(member)? + u64::from(made))),
            Local::Given(number) => gang.name_of(self.value(number)?, member),
        }
    }
}
