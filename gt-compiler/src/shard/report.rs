//! What a partition costs and why: the layouts of values, the exchanges between members and their
//! causes, for people and for tests. Times are estimates by [`Rates`].

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gt_ir::layout::{Layout, Spread};
use gt_ir::{Type, ValueId};

use super::lanes::Lanes;
use super::needed::Needed;
use super::traffic::Traffic;
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
    /// The part of these seconds that members wait, on average: the bubble of a pipeline.
    pub waiting: f64,
    /// The most bytes of values that each member has at a time.
    pub peaks: Vec<u64>,
    /// What became of open signals.
    pub wishes: Vec<Wish>,
    /// The plans between which the estimate decided.
    pub plans: Vec<Alternative>,
}

/// An open signal of a segment, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// The signals that are tried together; usually one.
    pub signals: Vec<Arc<str>>,
    /// Whether they are heard.
    pub granted: bool,
    /// Seconds of the segment with them, without the journeys of values from before it.
    pub with: f64,
    /// Seconds of the segment without them.
    pub without: f64,
}

/// A way to spread a segment, and what it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The way, in words.
    pub name: String,
    /// Seconds of the segment, without the journeys of values from before it.
    pub seconds: f64,
    /// The most bytes of values that any member has at a time, if members may not have enough.
    pub peak: Option<u64>,
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

impl Change {
    /// Whether each member gets all of a large sum.
    pub(super) fn repeats(&self, rates: &Rates) -> bool {
        let Change { from, to, ty, .. } = self;
        let pairs = from.spreads.iter().zip(&to.spreads).enumerate();
        let mut axes = pairs.filter(|(_, (from, _))| matches!(from, Spread::Partial(_)));
        from.mesh == to.mesh
            && axes.any(|(axis, (_, to))| {
                *to == Spread::Whole && rates.shared(from, axis, ty).is_some()
            })
    }
}

impl Report {
    pub(super) fn new(lanes: &Lanes, needed: &Needed, warnings: Vec<String>) -> Report {
        let mut traffic = Traffic::default();
        for (member, lane) in lanes.all.iter().enumerate() {
            traffic.add((lanes, member), 0..lane.items.len(), needed);
        }
        let (bytes, messages) = (traffic.bytes, traffic.messages);
        let rounds = traffic.levels().last().map_or(0, |level| level + 1);
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
        for (member, items) in change.items.iter().enumerate() {
            traffic.add((lanes, member), items.clone(), needed);
        }
        let levels = traffic.levels();
        let (&first, &last) = (levels.first()?, levels.last()?);
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

/// `open signal "batch" is dropped: 6.9 us without it, 47.8 us with it`.
impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.signals.iter().map(|name| format!("{name:?}")).collect();
        let (noun, is, them) =
            if names.len() > 1 { ("signals", "are", "them") } else { ("signal", "is", "it") };
        let done = if self.granted { "granted" } else { "dropped" };
        let [with, without] = [self.with, self.without].map(|seconds| seconds * 1e6);
        write!(f, "open {noun} {} {is} {done}: ", names.join(", "))?;
        if self.with == self.without {
            return write!(f, "{with:.1} us with or without {them}");
        }
        write!(f, "{without:.1} us without {them}, {with:.1} us with {them}")
    }
}
