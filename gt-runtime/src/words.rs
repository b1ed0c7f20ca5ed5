//! What logs and traces say of messages: a command, a size and details. What comes with every step
//! has numbers for details ([`Facts`]), all other messages a text.

mod facts;

use std::time::Duration;

use gt_ir::{Tape, ValueId};

use crate::ids::{RequestId, SessionId};
use crate::wire::{
    Chunk, FromClient, FromWorker, Message, Moments, Order, Parcel, Performance, Planned, ToClient,
    ToWorker,
};
use facts::{Fact, Of};
pub(crate) use facts::{Facts, Part, put};

/// A message as a line of the log.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Words {
    pub(crate) command: &'static str,
    pub(crate) size: u64,
    /// The session that the message names, and the number of its segment or 0.
    pub(crate) of: Option<(SessionId, u64)>,
    /// How long it took, if it reports work.
    pub(crate) took: Duration,
    /// The bytes that values take on the worker, if it says so.
    pub(crate) live: u64,
    pub(crate) details: Said,
}

/// The details of a message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Said {
    Facts(Facts),
    Text(String),
}

impl Said {
    fn nothing() -> Said {
        Said::Text(String::new())
    }

    /// The details, of something.
    fn of(self, of: Of) -> Said {
        match self {
            Said::Facts(Facts { fact, .. }) => Said::Facts(Facts { of, fact }),
            Said::Text(text) => {
                let mut whole = String::new();
                of.put(&mut whole);
                Said::Text(whole + &text)
            }
        }
    }
}

impl From<Fact> for Said {
    fn from(fact: Fact) -> Said {
        Said::Facts(fact.alone())
    }
}

impl From<String> for Said {
    fn from(text: String) -> Said {
        Said::Text(text)
    }
}

/// The words for a message.
pub(crate) fn describe(message: &Message) -> Words {
    let size = message.chunk().map_or(0, |chunk| chunk.bytes.len() as u64);
    let (command, details) = match message {
        Message::FromClient(message) => from_client(message),
        Message::ToClient(message) => to_client(message),
        Message::ToWorker(message) => to_worker(message),
        Message::FromWorker(message) => from_worker(message),
        Message::Parcel(Parcel { session, chunk: piece, .. }) => {
            ("Parcel", chunk(None, piece).of(Of::Session(*session)))
        }
    };
    let (took, live) = match message {
        Message::FromWorker(FromWorker::Done { counts, .. }) => {
            (Duration::from_nanos(counts.nanos), counts.memory)
        }
        Message::FromWorker(FromWorker::Performed { performed, .. }) => {
            (Duration::from_nanos(performed.work.busy), performed.memory)
        }
        _ => (Duration::ZERO, 0),
    };
    Words { command, size, of: of(message), took, live, details }
}

fn of(message: &Message) -> Option<(SessionId, u64)> {
    match message {
        Message::ToWorker(ToWorker::Order { session, seq, .. })
        | Message::FromWorker(
            FromWorker::Done { session, seq, .. } | FromWorker::Performed { session, seq, .. },
        ) => Some((*session, *seq)),
        Message::ToWorker(ToWorker::Open { session, .. } | ToWorker::EndSession { session })
        | Message::FromWorker(
            FromWorker::Chunk { session, .. }
            | FromWorker::Sent { session, .. }
            | FromWorker::Failed { session, .. }
            | FromWorker::Stats { session, .. }
            | FromWorker::Planned { session, .. }
            | FromWorker::Note { session, .. },
        )
        | Message::Parcel(Parcel { session, .. }) => Some((*session, 0)),
        Message::FromClient(_)
        | Message::ToClient(_)
        | Message::ToWorker(ToWorker::Watch)
        | Message::FromWorker(FromWorker::Register(_) | FromWorker::Moments(_)) => None,
    }
}

fn from_client(message: &FromClient) -> (&'static str, Said) {
    match message {
        FromClient::Order(order) => words_of(order),
        FromClient::Configure(signals) => {
            ("Configure", format!("{} signals", signals.len()).into())
        }
        FromClient::Moments(moments) => ("Moments", count_of(moments)),
        FromClient::Close => ("Close", Said::nothing()),
    }
}

/// The command and the details of an order.
pub(crate) fn words_of(order: &Order) -> (&'static str, Said) {
    match order {
        Order::Run(tape) => ("Run", entries(tape).into()),
        Order::Define { template, tape, .. } => {
            ("Define", format!("template {template}: {}", entries(tape)).into())
        }
        Order::Launch { template, bindings } => {
            let (values, scalars) = (bindings.inputs.len(), bindings.scalars.len());
            ("Launch", Fact::Launch { template: *template, values, scalars }.into())
        }
        Order::Forget { template } => ("Forget", format!("template {template}").into()),
        Order::Chunk(piece) => ("Chunk", chunk(None, piece)),
        Order::Fail { value, error } => ("Fail", format!("{value}: {}", error.message).into()),
        &Order::Fetch { request, value } => ("Fetch", Fact::Value(request, value).into()),
        Order::Send { request, value, to } => {
            let there = format!("{} {} at {}", to.session, to.value, to.door.address);
            ("Send", format!("{request} {value} as {there}").into())
        }
        Order::Learn { routine, steps } => {
            let (n, others) = (steps.steps.len(), steps.receivers.len());
            ("Learn", format!("routine {routine}: {n} steps, values to {others} workers").into())
        }
        Order::Perform(performance) => {
            let Performance { routine, n_segments, given, scalars, .. } = &**performance;
            let (routine, n_segments) = (*routine, *n_segments);
            let (values, scalars) = (given.len(), scalars.len());
            ("Perform", Fact::Routine { routine, n_segments, values, scalars }.into())
        }
        &Order::Stats { request } => ("Stats", Fact::Request(request).into()),
    }
}

fn to_client(message: &ToClient) -> (&'static str, Said) {
    match message {
        ToClient::Chunk { request, chunk: piece } => ("Chunk", chunk(Some(*request), piece)),
        ToClient::Failed { request, error } => ("Failed", format!("{request} {error}").into()),
        ToClient::Stats { request, .. } => ("Stats", Fact::Request(*request).into()),
        ToClient::Planned(planned) => ("Planned", news(planned)),
        ToClient::Note(text) => ("Note", text.to_string().into()),
        ToClient::Warning(text) => ("Warning", text.to_string().into()),
        ToClient::Watch => ("Watch", Said::nothing()),
    }
}

fn to_worker(message: &ToWorker) -> (&'static str, Said) {
    match message {
        ToWorker::Open { session, client, .. } => ("Open", format!("{session} of {client}").into()),
        ToWorker::Order { session, attempt, seq, order } => {
            let (command, details) = words_of(order);
            let of = match order {
                Order::Run(_) | Order::Launch { .. } | Order::Perform(_) => {
                    Of::Attempt(*session, *seq, *attempt)
                }
                Order::Define { .. }
                | Order::Forget { .. }
                | Order::Chunk(_)
                | Order::Fail { .. }
                | Order::Fetch { .. }
                | Order::Send { .. }
                | Order::Learn { .. }
                | Order::Stats { .. } => Of::Session(*session),
            };
            (command, details.of(of))
        }
        ToWorker::EndSession { session } => ("EndSession", session.to_string().into()),
        ToWorker::Watch => ("Watch", Said::nothing()),
    }
}

fn from_worker(message: &FromWorker) -> (&'static str, Said) {
    let (command, details, of) = match message {
        FromWorker::Register(capacity) => {
            let (engine, device, threads) = (&capacity.engine, &capacity.device, capacity.threads);
            let text = format!("{engine} on {device} with {threads} threads");
            return ("Register", text.into());
        }
        FromWorker::Moments(moments) => return ("Moments", count_of(moments)),
        FromWorker::Done { session, seq, attempt, counts } => {
            let of = Of::Attempt(*session, *seq, *attempt);
            ("Done", Fact::Instructions(counts.instructions).into(), of)
        }
        FromWorker::Performed { session, seq, attempt, performed } => {
            let (is_over, n_ran) = (performed.is_over, performed.n_ran.into());
            let of = Of::Attempt(*session, *seq, *attempt);
            ("Performed", Fact::Performed { is_over, n_ran }.into(), of)
        }
        FromWorker::Chunk { session, request, chunk: piece } => {
            ("Chunk", chunk(Some(*request), piece), Of::Session(*session))
        }
        &FromWorker::Sent { session, request, bytes } => {
            ("Sent", Fact::Sent { request, bytes }.into(), Of::Session(session))
        }
        FromWorker::Failed { session, request, error } => {
            ("Failed", format!("{request} {error}").into(), Of::Session(*session))
        }
        FromWorker::Stats { session, request, .. } => {
            ("Stats", Fact::Request(*request).into(), Of::Session(*session))
        }
        FromWorker::Planned { session, planned } => {
            ("Planned", news(planned), Of::Session(*session))
        }
        FromWorker::Note { session, text } => {
            ("Note", text.to_string().into(), Of::Session(*session))
        }
    };
    (command, details.of(of))
}

fn count_of(moments: &Moments) -> Said {
    format!("{} moments", moments.list.len()).into()
}

fn chunk(request: Option<RequestId>, chunk: &Chunk) -> Said {
    let Chunk { value, offset, total, bytes, .. } = chunk;
    let (value, offset, total, bytes): (ValueId, _, _, _) = (*value, *offset, *total, bytes.len());
    Fact::Chunk { request, value, bytes, offset, total }.into()
}

/// The number of a tape's entries, and the line of the user's program where it begins.
fn entries(tape: &Tape) -> String {
    let n = tape.entries.len();
    tape.instrs().next().map_or_else(
        || format!("[{n} entries]"),
        |first| format!("[{n} entries from {} at {}]", first.out, first.loc),
    )
}

/// The outcome of compiling a template.
fn news(planned: &Planned) -> Said {
    let became = planned.failed.as_deref().unwrap_or("a plan");
    format!("{:032x} of {} instructions: {became}", planned.key, planned.instructions).into()
}
