//! One segment as the work of many members: signals place what is brought in and created, the
//! factors of ops carry the layouts on, and members exchange what the layouts make them lack.
//!
//! [`partition`] takes a segment in canonical form, where the values from outside are, and what the
//! signals say. It gives each member's work as ordinary tapes, with the values that members send
//! each other between them. A tape of a member needs no other engine, verifier or plan than any
//! tape: a value that a member receives is an input, and an all-reduce is a few inputs, additions
//! and values to send.
//!
//! Guarantees: pure and deterministic. All members together compute what the segment computes:
//! integers, pointwise ops and movement to the bit, sums of floats within rounding, and the same
//! bits each time. Where a signal pins sums, they have the bits of one worker too, if the engine's
//! products and sums do not depend on the other dimensions. A value that the segment leaves is
//! whole or split, never partial.
//!
//! Unless a plan is asked for, a layout is chosen op by op, by the least cost there (`choose`), and
//! open signals alone are judged by the whole segment (`wishes`). A plan chooses the layouts that
//! signals leave open by the cost of the whole segment (`auto`).

mod auto;
mod blocks;
mod choose;
mod cost;
mod dot;
mod duration;
mod future;
mod lanes;
mod memory;
mod needed;
mod phases;
mod places;
mod plan;
mod print;
mod report;
mod reshard;
mod scopes;
mod sharder;
mod sink;
mod sums;
mod traffic;
mod turns;
mod wishes;
mod work;

use std::sync::Arc;

use gt_ir::canonical::Template;
use gt_ir::layout::{Layout, Mesh};
use gt_ir::signal::Signals;
use gt_ir::{OpError, Scalar, Type};

use scopes::Dropped;
use sharder::{Sharder, Sums};

pub use choose::Candidate;
pub use cost::Rates;
pub use report::{Alternative, Exchange, Explained, Kind, Placed, Report, Wish};

/// What is to be partitioned.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The segment.
    pub template: &'a Template,
    /// The types of the values from outside and where they are, in the order of their numbers.
    pub inputs: &'a [(Type, Layout)],
    /// What the program says about its signals; workers are numbered as members are.
    pub signals: &'a Signals,
    /// Where the segment's uploads come, in their order. Uploads that are not listed come to
    /// member 0.
    pub uploads: &'a [Layout],
    /// How many members there are.
    pub n_members: u32,
    /// How the layouts that signals leave open are planned. None: each instruction by itself.
    pub auto: Option<Auto>,
    /// What exchanges and computation cost.
    pub rates: Rates,
}

/// A plan of the layouts that signals leave open, by the least cost of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Auto {
    /// What members share out instead of repeating it (ZeRO): from 1 on the state of optimizers and
    /// their updates, from 3 on the parameters too.
    pub zero: u8,
    /// The most bytes of values that each member is to have. 0 if there is no limit.
    pub memory: u64,
}

/// A segment as the work of many members.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Each member's work.
    pub parts: Vec<Part>,
    /// Where values are at the end, if they were not there before: what the segment defines and
    /// leaves, and what has moved.
    pub kept: Vec<Kept>,
    /// The layouts in which uploads are needed, in their order.
    pub uploads: Vec<Layout>,
    /// What it costs, and what signals asked for and did not get.
    pub report: Report,
}

impl Partition {
    /// Whether any member but the first has something to do.
    #[must_use]
    pub fn is_spread(&self) -> bool {
        self.parts.iter().skip(1).any(|part| !part.steps.is_empty())
    }
}

/// One member's work, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// What it does.
    pub steps: Vec<Step>,
    /// How many values it defines, received ones included.
    pub n_made: u32,
}

/// One thing that a member does.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Runs a tape, once what it receives is there.
    Run(Arc<Phase>),
    /// Sends a value to another member, under a number of that member's own.
    Send {
        /// The value here.
        value: Local,
        /// The member that receives it.
        to: u32,
        /// The number there, as in [`Local::Made`].
        made: u32,
    },
}

/// A tape of a member, in canonical form, and what its values and literals are.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The tape; its inputs are received from other members.
    pub template: Template,
    /// The values from outside the tape.
    pub inputs: Vec<Local>,
    /// The number of the first value that the tape defines; the others follow.
    pub first: u32,
    /// The literals.
    pub literals: Vec<Literal>,
    /// The micro-batch that it is for, if there are any.
    pub turn: Option<u32>,
}

/// A value on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Local {
    /// The member's part of a value of the segment, by its number there: one from outside, or an
    /// upload.
    Given(u32),
    /// A value that the member has made or received, numbered from 0 on.
    Made(u32),
}

/// A literal of a member's tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// A literal of the segment, by its number there.
    Slot(u32),
    /// A number.
    Number(Scalar),
}

/// Where a value is at the end of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its number in the segment.
    pub value: u32,
    /// Its type.
    pub ty: Type,
    /// Which part of it each member has.
    pub layout: Layout,
    /// What it is on each member of the layout's mesh.
    pub names: Vec<Local>,
}

/// The layout of a value that a single member holds.
#[must_use]
pub fn at(member: u32) -> Layout {
    Layout::whole(Arc::new(Mesh::single(member)))
}

/// Partitions a segment.
///
/// # Errors
/// The segment is not well formed on inputs of these types. One that was verified is.
pub fn partition(request: &Request<'_>) -> Result<Partition, OpError> {
    let (dropped, _) = wishes::decide(request)?;
    walk(request, &dropped)?.0.run()
}

/// Partitions a segment, and says where its values are, what members exchange and why, and what
/// became of open signals. Also gives the layouts that were possible for the instruction that
/// defines the value `asked`.
///
/// # Errors
/// As [`partition`].
pub fn explain(request: &Request<'_>, asked: Option<u32>) -> Result<Explained, OpError> {
    let (dropped, wishes) = wishes::decide(request)?;
    let (walk, plans) = walk(request, &dropped)?;
    Ok(Explained { wishes, plans, ..walk.explain(asked)? })
}

/// The walk that makes the partition: along the plan, if the request asks for one. Also the plans
/// that were compared.
fn walk<'a>(
    request: &'a Request<'a>,
    dropped: &'a Dropped,
) -> Result<(Sharder<'a>, Vec<Alternative>), OpError> {
    let (plan, plans) = match request.auto {
        Some(auto) => auto::decide(request, auto, dropped)?,
        None => (None, Vec::new()),
    };
    let walk = match plan {
        Some(plan) => Sharder::new(request, dropped, Sums::Repeated)?.follow(plan),
        None => Sharder::new(request, dropped, sums::decide(request, dropped)?)?,
    };
    Ok((walk, plans))
}

/// Brings a value together at member 0. Its number is 0, and that of the result 1.
///
/// # Errors
/// Never on a layout within its limits.
pub fn gather(ty: &Type, layout: &Layout, n_members: u32) -> Result<Partition, OpError> {
    let mut lanes = lanes::Lanes::new(n_members, turns::Turns::NONE, u64::MAX);
    let held = lanes.hold(0, ty, layout);
    let whole = lanes.reshard(&held, &at(0), ty)?;
    let kept = [(1, *ty, whole)];
    let needed = needed::Needed::new(&lanes, &kept);
    let report = Report::new(&lanes, &needed, Vec::new());
    let (parts, kept) = phases::cut(&lanes, &needed, &[], &kept);
    Ok(Partition { parts, kept, uploads: Vec::new(), report })
}

/// The bytes from which on an upload goes straight to the members that need its parts.
pub const LARGE_UPLOAD: u64 = 1 << 20;

/// Whether several members of a layout hold rows that lie together in memory, at least one each.
#[must_use]
pub fn is_by_rows(layout: &Layout, ty: &Type) -> bool {
    let sizes = ty.shape.sizes();
    let rows = |rank: usize| {
        let region = layout.region(rank, &ty.shape);
        region.iter().all(|(first, end)| first < end)
            && region.iter().zip(sizes).skip(1).all(|(&region, &size)| region == (0, size))
    };
    layout.mesh.len() > 1
        && !sizes.is_empty()
        && !layout.is_partial()
        && (0..layout.mesh.len()).all(rows)
}
