//! Spans for OpenTelemetry: what programs, workers and servers did, for a collector that gathers
//! them of many systems. `GT_OTEL=http://localhost:4318` turns them on, in a build with the feature
//! `otel`.
//!
//! A span is a moment (`capture`) with the session, program, segment, signals and plan that it was
//! for. All spans of a session are of one trace, whichever process they come from: the numbers of
//! the trace and of its first span follow from the [`Incarnation`] of the program's connection,
//! which all of them know. A program that was started within a trace (`TRACEPARENT`) links to it.
//!
//! A span costs the program the time to put it into a bounded queue. A thread of its own sends what
//! is in the queue once in a second (`export`). A collector that is slow, gone or hostile costs
//! spans, which are counted, and nothing else. Without the feature nothing of this is compiled in.

#[cfg(feature = "otel")]
mod endpoint;
#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
#[doc(hidden)]
pub mod testing;

use std::sync::Arc;
use std::time::Duration;

#[cfg(any(test, feature = "otel"))]
use gt_ir::philox::philox4x32;

use crate::clock::Time;
use crate::ids::Incarnation;
#[cfg(feature = "otel")]
pub use endpoint::{STANDARD, VARIABLE, endpoint};
#[cfg(feature = "otel")]
pub(crate) use export::Exporter;

/// The exporter of this process, if a setting names a collector. Started at the first call.
#[cfg(feature = "otel")]
pub(crate) fn exporter() -> Option<&'static Exporter> {
    export::of_process()
}

/// What a build without the feature has in the place of an exporter: nothing.
#[cfg(not(feature = "otel"))]
#[derive(Debug)]
pub(crate) enum Exporter {}

#[cfg(not(feature = "otel"))]
impl Exporter {
    pub(crate) fn add(&self, _: Span) {
        match *self {}
    }
}

/// There is none in a build without the feature.
#[cfg(not(feature = "otel"))]
pub(crate) fn exporter() -> Option<&'static Exporter> {
    None
}

/// Whose spans they are: a session, or a worker on its server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Origin {
    life: Incarnation,
    /// The session, as its server names it: `s1`. Empty for a worker.
    session: String,
    /// The program, or the worker.
    name: String,
}

impl Origin {
    /// The origin of a connection's life.
    pub(crate) fn new(life: Incarnation, session: &str, name: &str) -> Origin {
        Origin { life, session: session.to_owned(), name: name.to_owned() }
    }

    /// The origin of a session by the name of its client: `s1 digits (pi, pid 123)`.
    pub(crate) fn of_client(life: Incarnation, client: &str) -> Origin {
        let (session, rest) = client.split_once(' ').unwrap_or((client, ""));
        let name = rest.rsplit_once(" (").map_or("", |(name, _)| name);
        Origin::new(life, session, name)
    }

    /// The number of the trace, and that of its first span. The bits are even, as those of random
    /// numbers are, because collectors choose traces by them.
    #[cfg(any(test, feature = "otel"))]
    fn ids(&self) -> (u128, u64) {
        let [low, high] = [self.life.0, self.life.0 >> 32].map(|bits| bits as u32);
        let words = |n| philox4x32([n, 0, 0, 0], [low, high]).map(u128::from);
        let ([a, b, c, d], [e, f, ..]) = (words(0), words(1));
        let root = (e << 32 | f) as u64;
        ((a << 96 | b << 64 | c << 32 | d).max(1), root.max(1))
    }
}

/// How far a span has come from the first span of its trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// The first span itself: the program's session.
    First,
    /// A part of it.
    Part,
}

/// How much of something a span is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    /// Nothing that can be counted.
    Nothing,
    /// Instructions of a segment or a plan.
    Instructions(u64),
    /// Bytes of a value.
    Bytes(u64),
}

/// An interval in which somebody did something.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "without the feature none is made"))]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) rank: Rank,
    pub(crate) origin: Arc<Origin>,
    pub(crate) began: Time,
    pub(crate) took: Duration,
    pub(crate) amount: Amount,
    /// The number of the segment, or 0.
    pub(crate) segment: u64,
    /// The key of the plan, or 0.
    pub(crate) plan: u128,
    /// The signals of the segment, or how something ended.
    pub(crate) words: Words,
}

/// What a span says in words.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "without the feature none is made"))]
pub(crate) enum Words {
    /// Nothing.
    None,
    /// The signals of a segment.
    Signals(Arc<[String]>),
    /// Why it ended.
    End(String),
}

impl Span {
    /// A span of a whole connection, to its end.
    pub(crate) fn life(
        name: &'static str,
        rank: Rank,
        origin: Arc<Origin>,
        (began, end): (Time, Time),
        why: &str,
    ) -> Span {
        let (took, words) = (end.saturating_sub(began), Words::End(why.to_owned()));
        let (amount, segment, plan) = (Amount::Nothing, 0, 0);
        Span { name, rank, origin, began, took, amount, segment, plan, words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processes_know_the_trace_of_a_session() {
        let life = Incarnation(1_790_000_000_000_000_000);
        let there = Origin::of_client(life, "s1 digits (pi, pid 7)");
        assert_eq!(there, Origin::new(life, "s1", "digits"));
        assert_eq!(Origin::of_client(life, "s1 (pi, pid 7)"), Origin::new(life, "s1", ""));
        // A member of a gang knows the session by another name.
        assert_eq!(there.ids(), Origin::new(life, "s9", "digits").ids());
        let other = Origin::new(Incarnation(life.0 + 1), "s1", "digits");
        assert_ne!(there.ids().0, other.ids().0);
        assert_ne!(there.ids().1, other.ids().1);
    }
}
