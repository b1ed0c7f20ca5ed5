//! The texts of messages in the log: a command, a size and details.

use std::time::Duration;

use gt_ir::Tape;
use gt_ir::canonical::Bindings;

use crate::ids::SessionId;
use crate::wire::{
    Chunk, FromClient, FromWorker, Message, Order, Parcel, Performance, Planned, ToClient, ToWorker,
};

/// A message as a line of the log.
pub(super) struct Words {
    pub(super) command: &'static str,
    pub(super) size: u64,
    /// The session that the message names, and the number of its segment or 0.
    pub(super) of: Option<(SessionId, u64)>,
    /// How long it took, if it reports work.
    pub(super) took: Duration,
    /// The bytes that values take on the worker, if it says so.
    pub(super) live: u64,
    pub(super) details: String,
}

/// The words for a message.
pub(super) fn describe(message: &Message) -> Words {
    let size = message.chunk().map_or(0, |chunk| chunk.bytes.len() as u64);
    let (command, details) = match message {
        Message::FromClient(message) => from_client(message),
        Message::ToClient(message) => to_client(message),
        Message::ToWorker(message) => to_worker(message),
        Message::FromWorker(message) => from_worker(message),
        Message::Parcel(Parcel { session, chunk: piece, .. }) => {
            ("Parcel", format!("{session} {}", chunk(piece)))
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

fn from_client(message: &FromClient) -> (&'static str, String) {
    match message {
        FromClient::Order(order) => words_of(order),
        FromClient::Configure(signals) => ("Configure", format!("{} signals", signals.len())),
        FromClient::Moments(moments) => ("Moments", format!("{} moments", moments.list.len())),
        FromClient::Close => ("Close", String::new()),
    }
}

/// The command and the details of an order.
pub(crate) fn words_of(order: &Order) -> (&'static str, String) {
    match order {
        Order::Run(tape) => ("Run", entries(tape)),
        Order::Define { template, tape, .. } => {
            ("Define", format!("template {template}: {}", entries(tape)))
        }
        Order::Launch { template, bindings } => {
            ("Launch", format!("template {template} on {}", bound(bindings)))
        }
        Order::Forget { template } => ("Forget", format!("template {template}")),
        Order::Chunk(piece) => ("Chunk", chunk(piece)),
        Order::Fail { value, error } => ("Fail", format!("{value}: {}", error.message)),
        Order::Fetch { request, value } => ("Fetch", format!("{request} {value}")),
        Order::Send { request, value, to } => {
            let there = format!("{} {} at {}", to.session, to.value, to.door.address);
            ("Send", format!("{request} {value} as {there}"))
        }
        Order::Learn { routine, steps } => {
            let (n, others) = (steps.steps.len(), steps.receivers.len());
            ("Learn", format!("routine {routine}: {n} steps, values to {others} workers"))
        }
        Order::Perform(Performance { routine, n_segments, given, scalars, .. }) => {
            let bound = format!("{} values, {} scalars", given.len(), scalars.len());
            ("Perform", format!("routine {routine} of {n_segments} segments on {bound}"))
        }
        Order::Stats { request } => ("Stats", request.to_string()),
    }
}

fn to_client(message: &ToClient) -> (&'static str, String) {
    match message {
        ToClient::Chunk { request, chunk: piece } => {
            ("Chunk", format!("{request} {}", chunk(piece)))
        }
        ToClient::Failed { request, error } => ("Failed", format!("{request} {error}")),
        ToClient::Stats { request, .. } => ("Stats", request.to_string()),
        ToClient::Planned(planned) => ("Planned", news(planned)),
        ToClient::Note(text) => ("Note", text.to_string()),
        ToClient::Warning(text) => ("Warning", text.to_string()),
        ToClient::Watch => ("Watch", String::new()),
    }
}

fn to_worker(message: &ToWorker) -> (&'static str, String) {
    match message {
        ToWorker::Open { session, client, .. } => ("Open", format!("{session} of {client}")),
        ToWorker::Order { session, attempt, seq, order } => {
            let (command, details) = words_of(order);
            let details = match order {
                Order::Run(_) | Order::Launch { .. } | Order::Perform(_) => {
                    format!("{session} segment {seq} attempt {attempt}: {details}")
                }
                Order::Define { .. }
                | Order::Forget { .. }
                | Order::Chunk(_)
                | Order::Fail { .. }
                | Order::Fetch { .. }
                | Order::Send { .. }
                | Order::Learn { .. }
                | Order::Stats { .. } => format!("{session} {details}"),
            };
            (command, details)
        }
        ToWorker::EndSession { session } => ("EndSession", session.to_string()),
        ToWorker::Watch => ("Watch", String::new()),
    }
}

fn from_worker(message: &FromWorker) -> (&'static str, String) {
    match message {
        FromWorker::Register(capacity) => (
            "Register",
            format!("{} on {} with {} threads", capacity.engine, capacity.device, capacity.threads),
        ),
        FromWorker::Done { session, seq, attempt, counts } => {
            let segment = format!("{session} segment {seq} attempt {attempt}");
            ("Done", format!("{segment}: {} instructions", counts.instructions))
        }
        FromWorker::Performed { session, seq, attempt, performed } => {
            let segment = format!("{session} segment {seq} attempt {attempt}");
            let n_ran = performed.n_ran;
            let over = if performed.is_over { "all" } else { "some" };
            ("Performed", format!("{segment}: {over} of a routine, {n_ran} segments"))
        }
        FromWorker::Chunk { session, request, chunk: piece } => {
            ("Chunk", format!("{session} {request} {}", chunk(piece)))
        }
        FromWorker::Sent { session, request, bytes } => {
            ("Sent", format!("{session} {request} {bytes} bytes"))
        }
        FromWorker::Failed { session, request, error } => {
            ("Failed", format!("{session} {request} {error}"))
        }
        FromWorker::Stats { session, request, .. } => ("Stats", format!("{session} {request}")),
        FromWorker::Planned { session, planned } => {
            ("Planned", format!("{session} {}", news(planned)))
        }
        FromWorker::Note { session, text } => ("Note", format!("{session} {text}")),
        FromWorker::Moments(moments) => ("Moments", format!("{} moments", moments.list.len())),
    }
}

fn chunk(chunk: &Chunk) -> String {
    let (bytes, of) = (chunk.bytes.len(), chunk.total);
    format!("{}: {bytes} bytes from {} of {of}", chunk.value, chunk.offset)
}

/// The number of a tape's entries, and the line of the user's program where it begins.
fn entries(tape: &Tape) -> String {
    let n = tape.entries.len();
    tape.instrs().next().map_or_else(
        || format!("[{n} entries]"),
        |first| format!("[{n} entries from {} at {}]", first.out, first.loc),
    )
}

/// The numbers of values and scalars that a launch binds.
fn bound(bindings: &Bindings) -> String {
    format!("{} values, {} scalars", bindings.inputs.len(), bindings.scalars.len())
}

/// The outcome of compiling a template.
fn news(planned: &Planned) -> String {
    let became = planned.failed.as_deref().unwrap_or("a plan");
    format!("{:032x} of {} instructions: {became}", planned.key, planned.instructions)
}
