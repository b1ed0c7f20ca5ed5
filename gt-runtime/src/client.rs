//! Clients: the program's side of a session. The embedded and the remote system share it.
//!
//! `Session` turns calls into messages, and delivered messages into answers. It is passive: its
//! owner (the embedded system, or the thread that serves the line) gives it the packets that
//! arrive and transmits the messages that it queues. Each request gets exactly one answer. When the
//! connection ends, every open and every later request is answered with the reason.

#[cfg(feature = "cluster")]
mod line;
#[cfg(feature = "cluster")]
mod remote;
mod submit;
mod templates;
mod verbose;

#[cfg(feature = "cluster")]
pub use remote::{connect, connect_asking, connect_to, connect_with};
pub(crate) use submit::Submitter;
#[cfg(test)]
pub(crate) use templates::Templates;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use gt_ir::backend::{ErrorKind, RunError, Stats};
use gt_ir::signal::Signals;
use gt_ir::{HostTensor, Tape, ValueId};

use crate::assembly::{Assembly, Travel, whole};
use crate::capture::{Capture, interval};
use crate::clock::Time;
use crate::connection::{Connection, Ending, Incoming};
use crate::identity::program;
use crate::ids::RequestId;
use crate::log::{Line, Log, Source, What};
use crate::messages::{self, Area, Rank};
use crate::modifier::{self, Place};
use crate::slot::Slot;
use crate::spans::Origin;
use crate::wire::codec::WireError;
use crate::wire::{Doing, FromClient, Message, Moment, Order, Packet, Stream, ToClient, Weight};
use crate::words::{Facts, words_of};
use smallvec::SmallVec;
use templates::Messages;

/// The answer to a read.
pub(crate) type Fetched = Slot<Result<HostTensor, RunError>>;
/// The answer to a request for statistics.
pub(crate) type Answered = Slot<Result<Stats, RunError>>;

/// The queued weight above which a session is full, so that submits and uploads wait.
const MAX_QUEUED: u64 = 64 << 20;

/// The most news kept for the statistics.
const MAX_KEPT: usize = 16;

/// One session, from the client's side.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    /// The name of the system in errors: `the server at localhost:12345`.
    system: String,
    /// The name that the dispatcher gave this session.
    name: String,
    log: Log,
    travel: Travel,
    open: BTreeMap<RequestId, Question>,
    next: u64,
    over: Option<RunError>,
    closed: bool,
    /// Tasks whose answers have arrived. The owner wakes them when it has let go of its locks.
    tasks: Vec<Waker>,
    /// The latest news about segments.
    news: VecDeque<String>,
    /// What the program does, for a tracer of the server.
    pub(crate) capture: Arc<Capture>,
}

enum Question {
    Fetch { value: ValueId, assembly: Option<Assembly>, slot: Fetched, began: Option<Time> },
    Stats(Answered),
}

impl Session {
    pub(crate) fn new(connection: Connection, system: String, travel: Travel, log: Log) -> Self {
        let open = BTreeMap::new();
        Session {
            connection,
            system,
            name: "new".into(),
            log,
            travel,
            open,
            next: 0,
            over: None,
            closed: false,
            tasks: Vec::new(),
            news: VecDeque::new(),
            capture: Arc::default(),
        }
    }

    /// Whether so much is queued that submits and uploads must wait.
    pub(crate) fn is_full(&self) -> bool {
        !self.is_over()
            && [Stream::Control, Stream::Bulk]
                .iter()
                .any(|&s| self.connection.link(s).queued() > MAX_QUEUED)
    }

    /// Whether it waits for an answer.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the session is over, so that it answers nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether the other side has acknowledged all messages.
    pub(crate) fn has_sent_all(&self) -> bool {
        [Stream::Control, Stream::Bulk].iter().all(|&s| self.connection.link(s).queued() == 0)
    }

    /// Sends the messages of a segment.
    pub(crate) fn submit(&mut self, now: Time, messages: Messages) {
        if self.log.is_on() {
            messages.iter().for_each(|message| self.log_submitted(now, message));
        }
        messages.into_iter().for_each(|message| self.send(now, message));
    }

    pub(crate) fn configure(&mut self, now: Time, signals: Signals) {
        self.log_line(
            What::ClientSend,
            "Configure",
            signals.bytes(),
            format_args!("{} signals", signals.len()),
        );
        self.send(now, FromClient::Configure(Arc::new(signals)));
    }

    pub(crate) fn upload(&mut self, now: Time, value: ValueId, data: HostTensor) {
        self.log_line(
            What::ClientSend,
            "Upload",
            data.bytes().len(),
            format_args!("{value}: {}", data.ty()),
        );
        for piece in self.travel.pieces(whole(value, data)) {
            self.send(now, Order::Chunk(piece));
        }
    }

    pub(crate) fn fetch(&mut self, now: Time, value: ValueId) -> Fetched {
        let slot = Fetched::new();
        if let Some(why) = &self.over {
            slot.put(Err(why.clone()));
            return slot;
        }
        let question = Question::Fetch { value, assembly: None, slot: slot.clone(), began: None };
        let request = self.ask(question);
        let line = Line::new(What::ClientSend, Source::Client(&self.name), "Fetch");
        self.log.tell(now, &line, "Fetch", Facts::value(request, value));
        self.send(now, Order::Fetch { request, value });
        slot
    }

    pub(crate) fn stats(&mut self, now: Time) -> Answered {
        let slot = Answered::new();
        if let Some(why) = &self.over {
            slot.put(Err(why.clone()));
            return slot;
        }
        let request = self.ask(Question::Stats(slot.clone()));
        self.log_line(What::ClientSend, "Stats", 0, format_args!("{request}"));
        self.send(now, Order::Stats { request });
        slot
    }

    /// The tasks to wake.
    pub(crate) fn take_tasks(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.tasks)
    }

    /// Ends the session from this side. Its values are freed, and every open request is answered.
    pub(crate) fn close(&mut self, now: Time) {
        if !std::mem::replace(&mut self.closed, true) {
            self.log_line(What::ClientSend, "Close", 0, format_args!(""));
            self.send(now, FromClient::Close);
            self.fail(ErrorKind::Connection, "the session was closed".into());
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes a packet of the dispatcher.
    pub(crate) fn receive(&mut self, now: Time, packet: Packet) {
        let mut arrived: SmallVec<[Incoming; 4]> = SmallVec::new();
        self.connection.receive(now, packet, &mut |incoming| arrived.push(incoming));
        arrived.into_iter().for_each(|incoming| self.take(now, incoming));
    }

    /// Passes the packets to send now to `out`.
    pub(crate) fn transmit(&mut self, now: Time, out: &mut impl FnMut(Packet)) {
        let mut ended = None;
        self.connection.transmit(now, out, &mut |incoming| ended = Some(incoming));
        if let Some(ended) = ended {
            self.take(now, ended);
        }
    }

    /// Notes that bytes came that are no packet of this version. Before the connection is open this
    /// ends the session, because the server speaks another protocol.
    pub(crate) fn misunderstood(&mut self, error: &WireError) {
        self.log_line(What::Error, "Damaged", 0, format_args!("{error}"));
        if !self.connection.is_open()
            && matches!(error, WireError::Magic(_) | WireError::Version { .. })
        {
            self.fail(
                ErrorKind::Connection,
                format!("{} does not speak this program's protocol: {error}", self.system),
            );
        }
    }

    /// Takes a delivery of the connection.
    fn take(&mut self, now: Time, incoming: Incoming) {
        match incoming {
            Incoming::Opened(welcome) => {
                self.name = welcome.name;
                let life = self.connection.incarnation();
                self.capture.open(now, || Origin::new(life, &self.name, &program()));
                self.log_line(What::Connect, "Welcome", 0, format_args!("{}", self.system));
            }
            Incoming::Message(stream, message) => {
                self.connection.release(stream, message.weight());
                if let Message::ToClient(message) = message {
                    self.answer(now, message);
                }
            }
            Incoming::Ended(ending) => self.end(&ending),
        }
    }

    /// Ends the session, because its connection is over. Every open request is answered with the
    /// reason.
    pub(crate) fn end(&mut self, ending: &Ending) {
        match self.closed {
            true => self.log_line(What::Disconnect, "Ended", 0, format_args!("it was closed")),
            false => self.log_line(What::Disconnect, "Ended", 0, format_args!("{ending}")),
        }
        let message = match ending {
            Ending::Bye(reason) => format!("{} ended the session: {reason}", self.system),
            Ending::Refused(refusal) => format!("{} refused: {refusal}", self.system),
            Ending::Silent(_) | Ending::Stuck(_) | Ending::NoAnswer(_) => {
                format!("{} is lost: {ending}", self.system)
            }
        };
        self.fail(ErrorKind::Connection, message);
    }

    /// Answers every open and every later request with an error. Only the first call sets the
    /// reason.
    pub(crate) fn fail(&mut self, kind: ErrorKind, message: String) {
        if self.over.is_none() {
            self.capture.close(&message);
        }
        let why = self.over.get_or_insert(RunError::new(kind, message)).clone();
        for question in std::mem::take(&mut self.open).into_values() {
            self.tasks.extend(question.fail(why.clone()));
        }
    }

    /// Why the session is over, if it is.
    pub(crate) fn over(&self) -> Option<&RunError> {
        self.over.as_ref()
    }

    fn ask(&mut self, question: Question) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.open.insert(request, question);
        request
    }

    fn send(&mut self, now: Time, message: impl Into<FromClient>) {
        if !self.is_over() {
            let message = Message::FromClient(message.into());
            match message.stream() {
                Stream::Bulk => self.connection.send_behind(now, message),
                Stream::Control => self.connection.send(now, Stream::Control, message),
            }
        }
    }

    fn answer(&mut self, now: Time, message: ToClient) {
        match message {
            ToClient::Failed { request, error } => {
                self.log_line(
                    What::ClientRecv,
                    "Failed",
                    0,
                    format_args!("{request} {}", error.message),
                );
                if let Some(question) = self.open.remove(&request) {
                    self.tasks.extend(question.fail(RunError::clone(&error)));
                }
            }
            ToClient::Watch => {
                let moments = Box::new(self.capture.take(now));
                let moments = Message::FromClient(FromClient::Moments(moments));
                self.connection.send(now, moments.stream(), moments);
            }
            ToClient::Planned(news) => self.tell(verbose::planned(&news)),
            ToClient::Note(text) => self.tell(text.into()),
            ToClient::Warning(text) => {
                let warning = format!("warning: {text}");
                messages::say(Rank::Warning, Area::Client, &warning);
                keep(&mut self.news, warning);
            }
            ToClient::Stats { request, stats } => {
                self.log_line(What::ClientRecv, "Stats", 0, format_args!("{request}"));
                if let Some(Question::Stats(slot)) = self.open.remove(&request) {
                    let news = self.news.iter().rev().cloned().collect();
                    slot.put(Ok(Stats { session: self.name.clone(), news, ..*stats }));
                }
            }
            ToClient::Chunk { request, chunk } => {
                let line = Line::new(What::ClientRecv, Source::Client(&self.name), "Chunk");
                let facts = Facts::arrived(request, chunk.value, chunk.offset);
                self.log.tell(now, &line.bytes(chunk.bytes.len() as u64), "Chunk", facts);
                let bytes = chunk.total;
                let Some(Question::Fetch { assembly, began, .. }) = self.open.get_mut(&request)
                else {
                    return;
                };
                let began = *began.get_or_insert(now);
                match assembly {
                    Some(assembly) => assembly.add(&chunk),
                    None => *assembly = Some(Assembly::begin(chunk)),
                }
                if assembly.as_ref().is_some_and(Assembly::is_over)
                    && let Some(question) = self.open.remove(&request)
                {
                    if self.capture.is_on() {
                        let read = interval(Doing::Read, began, now);
                        self.capture.add(now, Moment { n: bytes, ..read });
                    }
                    self.tasks.extend(question.finish());
                }
            }
        }
    }

    /// Keeps news for the statistics, and prints it if the user wants it.
    fn tell(&mut self, news: String) {
        if crate::tier::is_verbose() {
            messages::say(Rank::News, Area::Compile, &news);
        }
        keep(&mut self.news, news);
    }

    fn log_line(&self, what: What, command: &str, size: usize, details: std::fmt::Arguments<'_>) {
        self.log.line(what, Source::Client(&self.name), command, size as u64, details);
    }

    /// The segment that the modifiers of this process make of a segment. None if one refuses it;
    /// the session is then over.
    pub(crate) fn modified(&mut self, segment: Tape) -> Option<Tape> {
        let source = Source::Client(&self.name);
        match modifier::pass(Place::Client, source, &self.log, segment) {
            Ok(segment) => Some(segment),
            Err(why) => {
                self.fail(ErrorKind::Instruction, why);
                None
            }
        }
    }

    /// Writes an order of a segment into the log. A tape that is sent brings its instructions.
    fn log_submitted(&self, now: Time, order: &Order) {
        let Some(mut entry) = self.log.entry() else { return };
        let (command, details) = words_of(order);
        let line = Line::new(What::ClientSend, Source::Client(&self.name), command);
        entry.say(now, &line, command, &details);
        if let (Order::Run(tape), false) = (order, self.log.has_instructions()) {
            entry.instructions(&line, tape, format_args!(""));
        }
    }

    /// Writes the instructions of a segment into the log, if the log wants those of launches.
    pub(crate) fn log_segment(&self, segment: &Tape) {
        if let Some(mut entry) = self.log.entry() {
            let line = Line::new(What::ClientSend, Source::Client(&self.name), "");
            entry.instructions(&line, segment, format_args!(""));
        }
    }
}

/// Adds news to the kept news, and drops the oldest above the limit.
fn keep(kept: &mut VecDeque<String>, news: String) {
    kept.truncate(MAX_KEPT - 1);
    kept.push_front(news);
}

impl Question {
    /// Answers with an error. Returns the task to wake.
    fn fail(self, why: RunError) -> Option<Waker> {
        match self {
            Question::Fetch { value, slot, .. } => {
                slot.fill(Err(RunError { value: why.value.or(Some(value)), ..why }))
            }
            Question::Stats(slot) => slot.fill(Err(why)),
        }
    }

    /// Answers with the value that has arrived. Returns the task to wake.
    fn finish(self) -> Option<Waker> {
        let Question::Fetch { value, assembly: Some(assembly), slot, .. } = self else {
            return None;
        };
        slot.fill(match assembly {
            Assembly::Whole(data) => Ok(data),
            Assembly::Broken(why) => Err(internal(value, why)),
            Assembly::Failed(error) => Err(RunError::clone(&error)),
            Assembly::Partial { .. } => Err(internal(value, "only a part of it arrived".into())),
        })
    }
}

fn internal(value: ValueId, why: String) -> RunError {
    RunError {
        value: Some(value),
        ..RunError::new(ErrorKind::Internal, format!("reading {value}: {why}"))
    }
}
