//! What a partition costs and why: the layouts of values, the exchanges between members and their
//! causes, for people and for tests. Times are estimates by [`Rates`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gt_ir::layout::{Layout, Spread};
use gt_ir::{OperandType, Type, ValueId};

use super::lanes::{Item, Lane, Lanes};
use super::phases::Needed;
use super::{Partition, Rates};

/// What a partition costs, and what signals asked for and did not get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes that members send each other.
    pub bytes: u64,
    /// Messages that members send each other.
    pub messages: u64,
    /// How many exchanges follow each other.
    pub rounds: u32,
    /// What signals asked for and did not get, each once.
    pub warnings: Vec<String>,
}

/// A partition with the reasons for its exchanges.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The partition.
    pub partition: Partition,
    /// The values from outside and those that the segment defines, by their numbers.
    pub values: Vec<Placed>,
    /// The changes of layout for which members send each other something, in the order of the
    /// segment.
    pub exchanges: Vec<Exchange>,
    /// The layouts that were possible for the instruction in question, if there was a question.
    pub options: Vec<super::Candidate>,
    /// Seconds until all members are done.
    pub seconds: f64,
}

/// A value of a segment, and where it is.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its type.
    pub ty: Type,
    /// The layouts it is there in, the first one first. Empty if members make it where they use it.
    pub layouts: Vec<Layout>,
}

/// A change of layout for which members send each other something.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The field's word for it.
    pub kind: Kind,
    /// The value's number in the segment; none for a value inside the expansion of an instruction.
    pub value: Option<u32>,
    /// Whether the value comes from outside, or is an upload.
    pub given: bool,
    /// The value's type.
    pub ty: Type,
    /// The layout before.
    pub from: Layout,
    /// The layout after.
    pub to: Layout,
    /// The value whose instruction or upload it happens for; none at the end of the segment.
    pub cause: Option<u32>,
    /// The innermost configured signal there.
    pub signal: Option<Arc<str>>,
    /// Bytes that members send each other.
    pub bytes: u64,
    /// Messages that members send each other.
    pub messages: u64,
    /// The first and the last round of messages that it takes part in, from 1 on.
    pub rounds: (u32, u32),
    /// Seconds that it takes if nothing else travels.
    pub seconds: f64,
}

/// A change of layout, in the words of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Addends become their sum on each member (or the largest, or the smallest).
    AllReduce,
    /// Addends become parts of their sum.
    ReduceScatter,
    /// Addends become their sum on other members.
    Reduce,
    /// Parts become the whole on each member.
    AllGather,
    /// Parts become the whole on one member.
    Gather,
    /// Parts of one dimension become parts of another, or other parts.
    AllToAll,
    /// The whole of one member comes to many.
    Broadcast,
    /// The whole of one member becomes parts on many.
    Scatter,
    /// A value comes to other members.
    Move,
}

/// A change of layout as the walk notes it.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) value: ValueId,
    pub(super) ty: Type,
    pub(super) from: Layout,
    pub(super) to: Layout,
    pub(super) cause: Option<u32>,
    pub(super) signal: Option<Arc<str>>,
    /// The items that it takes on each lane.
    pub(super) items: Vec<Range<usize>>,
}

impl Report {
    pub(super) fn new(lanes: &Lanes, needed: &Needed, warnings: Vec<String>) -> Report {
        let mut traffic = Traffic::default();
        lanes.all.iter().for_each(|lane| traffic.add(lane, 0..lane.items.len(), needed));
        let (bytes, messages) = (traffic.bytes, traffic.messages);
        let rounds = traffic.received.keys().map(|(level, _)| level + 1).max().unwrap_or(0);
        Report { bytes, messages, rounds, warnings }
    }
}

impl Exchange {
    /// The exchange of a change; none if nobody needs what would be sent.
    pub(super) fn new(
        change: &Change,
        (value, given): (Option<u32>, bool),
        (lanes, needed): (&Lanes, &Needed),
        rates: &Rates,
    ) -> Option<Exchange> {
        let mut traffic = Traffic::default();
        for (lane, items) in lanes.all.iter().zip(&change.items) {
            traffic.add(lane, items.clone(), needed);
        }
        let (first, _) = *traffic.received.keys().next()?;
        let (last, _) = *traffic.received.keys().next_back()?;
        Some(Exchange {
            kind: Kind::of(&change.from, &change.to),
            value,
            given,
            ty: change.ty,
            from: change.from.clone(),
            to: change.to.clone(),
            cause: change.cause,
            signal: change.signal.clone(),
            bytes: traffic.bytes,
            messages: traffic.messages,
            rounds: (first + 1, last + 1),
            seconds: traffic.seconds(rates),
        })
    }
}

impl Kind {
    fn of(from: &Layout, to: &Layout) -> Kind {
        if from.mesh == to.mesh {
            return Kind::within(from, to);
        }
        match (from.mesh.len(), to.mesh.len()) {
            _ if from.is_partial() => Kind::Reduce,
            (1, 2..) if to.is_whole() => Kind::Broadcast,
            (1, 2..) => Kind::Scatter,
            (2.., 1) if !from.is_whole() => Kind::Gather,
            _ => Kind::Move,
        }
    }

    /// On the same mesh: the first axis along which anything changes names the exchange.
    fn within(from: &Layout, to: &Layout) -> Kind {
        let changes = from.spreads.iter().zip(&to.spreads).filter(|(from, to)| from != to);
        let kinds = changes.filter_map(|change| match change {
            (Spread::Partial(_), Spread::Split { .. }) => Some(Kind::ReduceScatter),
            (Spread::Partial(_), _) => Some(Kind::AllReduce),
            (Spread::Split { .. }, Spread::Split { .. }) => Some(Kind::AllToAll),
            (Spread::Split { .. }, Spread::Whole | Spread::Partial(_)) => Some(Kind::AllGather),
            (Spread::Whole, _) => None,
        });
        kinds.into_iter().next().unwrap_or(Kind::Move)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::AllReduce => "all-reduce",
            Kind::ReduceScatter => "reduce-scatter",
            Kind::Reduce => "reduce",
            Kind::AllGather => "all-gather",
            Kind::Gather => "gather",
            Kind::AllToAll => "all-to-all",
            Kind::Broadcast => "broadcast",
            Kind::Scatter => "scatter",
            Kind::Move => "move",
        })
    }
}

/// What travels.
#[derive(Default)]
struct Traffic {
    bytes: u64,
    messages: u64,
    /// The bytes that each member receives after each level.
    received: BTreeMap<(u32, u32), u64>,
}

impl Traffic {
    /// Adds what a lane sends with some of its items and somebody needs.
    fn add(&mut self, lane: &Lane, items: Range<usize>, needed: &Needed) {
        for item in &lane.items[items] {
            if let Item::Send { value, to, received } = item
                && needed.contains(*to as usize, *received)
            {
                let local = lane.local(*value);
                let bytes = local.ty.bytes() as u64;
                (self.bytes, self.messages) = (self.bytes + bytes, self.messages + 1);
                *self.received.entry((local.level, *to)).or_default() += bytes;
            }
        }
    }

    /// Rounds follow each other; in a round, all members receive at the same time.
    fn seconds(&self, rates: &Rates) -> f64 {
        let mut most: BTreeMap<u32, u64> = BTreeMap::new();
        for ((level, _), bytes) in &self.received {
            let most = most.entry(*level).or_default();
            *most = (*most).max(*bytes);
        }
        most.values().map(|bytes| rates.latency + *bytes as f64 / rates.exchange).sum()
    }
}

/// Seconds until all members are done: in each round the slowest member computes, then all
/// exchange.
pub(super) fn seconds(lanes: &Lanes, needed: &Needed, rates: &Rates) -> f64 {
    let (mut traffic, mut slowest) = (Traffic::default(), BTreeMap::<u32, f64>::new());
    for (member, lane) in lanes.all.iter().enumerate() {
        traffic.add(lane, 0..lane.items.len(), needed);
        for (level, seconds) in compute(lane, member, needed, rates) {
            let slowest = slowest.entry(level).or_default();
            *slowest = slowest.max(seconds);
        }
    }
    slowest.values().sum::<f64>() + traffic.seconds(rates)
}

/// Seconds that a member computes at each level.
fn compute(lane: &Lane, member: usize, needed: &Needed, rates: &Rates) -> BTreeMap<u32, f64> {
    let mut seconds = BTreeMap::new();
    for item in &lane.items {
        let Item::Instr { op, args, out, .. } = item else { continue };
        if needed.contains(member, *out) {
            let types: Vec<OperandType> = args.iter().map(|arg| lane.operand_type(arg)).collect();
            let local = lane.local(*out);
            *seconds.entry(local.level).or_default() += rates.compute(op, &types, &local.ty, 1.0);
        }
    }
    seconds
}
