//! A timeline: lanes with spans and marks, transfers between lanes, and memory over time.

use super::read::{Event, Party, Trace};
use gt_ir::OpKind;
use gt_ir::op::Class;
use std::collections::{BTreeMap, BTreeSet};

/// The parts of a wait are as close, in microseconds: clocks are compared anew for each of them.
const NEAR: f64 = 1000.0;
/// The most characters of the name of a program.
const MAX_PROGRAM: usize = 40;
/// The most transfers that are drawn.
const MAX_TRANSFERS: usize = 300;

/// The kind of a span, which has a color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Plan,
    Segment,
    Contract,
    Pointwise,
    Reduce,
    Move,
    Compile,
    Transfer,
    Record,
    Wait,
    Message,
    Error,
}

impl Kind {
    pub(super) const ALL: [Kind; 12] = [
        Kind::Plan,
        Kind::Segment,
        Kind::Contract,
        Kind::Pointwise,
        Kind::Reduce,
        Kind::Move,
        Kind::Compile,
        Kind::Transfer,
        Kind::Record,
        Kind::Wait,
        Kind::Message,
        Kind::Error,
    ];

    /// The name in the legend.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Plan => "plan",
            Kind::Segment => "segment",
            Kind::Contract => "product",
            Kind::Pointwise => "pointwise",
            Kind::Reduce => "reduction",
            Kind::Move => "movement",
            Kind::Compile => "compiling",
            Kind::Transfer => "transfer",
            Kind::Record => "recording",
            Kind::Wait => "waiting",
            Kind::Message => "message",
            Kind::Error => "error",
        }
    }

    /// Colors that people who see few colors can tell apart (Okabe and Ito 2008), and greys.
    pub(super) fn color(self) -> &'static str {
        match self {
            Kind::Plan => "#0072B2",
            Kind::Segment => "#3B9AD9",
            Kind::Contract => "#D55E00",
            Kind::Pointwise => "#009E73",
            Kind::Reduce => "#CC79A7",
            Kind::Move => "#8FB339",
            Kind::Compile => "#E69F00",
            Kind::Transfer => "#56B4E9",
            Kind::Record => "#DDCC77",
            Kind::Wait => "#C9CED6",
            Kind::Message => "#7A869A",
            Kind::Error => "#B00020",
        }
    }

    /// The kind of what a worker executes.
    fn of(event: &Event) -> Kind {
        match (event.event.as_str(), event.command.as_str()) {
            ("ERROR", _) => Kind::Error,
            ("COMPILE", _) => Kind::Compile,
            (_, "Launch") => Kind::Plan,
            (_, "Run" | "Done" | "Performed") => Kind::Segment,
            ("RECORD", _) => Kind::Record,
            ("WAIT" | "QUEUE", _) => Kind::Wait,
            ("READ" | "EXCHANGE", _) | (_, "Upload" | "Download" | "Send") => Kind::Transfer,
            (_, op) => {
                let known = OpKind::ALL.iter().find(|kind| kind.name() == op);
                match known.map(|kind| kind.spec().class) {
                    Some(Class::Pointwise | Class::Source) => Kind::Pointwise,
                    Some(Class::Reduce) => Kind::Reduce,
                    Some(Class::Contract | Class::Matrix) => Kind::Contract,
                    Some(Class::Move | Class::Gather) => Kind::Move,
                    None => Kind::Message,
                }
            }
        }
    }
}

/// The colors of sessions, for whole segments on workers. They are darker than those of kinds, so
/// that none is taken for a kind.
const SESSIONS: [&str; 6] = ["#1F4E8C", "#0F766E", "#7A4A9E", "#8A5A12", "#9D1F5A", "#4D6412"];

/// An interval on a lane, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) at: f64,
    pub(super) took: f64,
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) details: String,
    /// The session whose segment it is.
    pub(super) session: Option<u64>,
}

impl Span {
    /// The color: that of the session for whole segments, else that of the kind.
    pub(super) fn color(&self) -> &'static str {
        match self.session.filter(|_| self.is_of_session()) {
            Some(session) => color_of(session),
            None => self.kind.color(),
        }
    }

    /// Adds it to a lane. A long wait is told in parts, which become one.
    fn join(self, lane: &mut Vec<Span>) {
        let is_rest = |last: &&mut Span| {
            let gap = self.at - last.at - last.took;
            self.kind == Kind::Wait && last.kind == Kind::Wait && gap.abs() < NEAR
        };
        match lane.last_mut().filter(is_rest) {
            Some(last) => last.took = self.at + self.took - last.at,
            None => lane.push(self),
        }
    }

    fn is_of_session(&self) -> bool {
        matches!(self.kind, Kind::Plan | Kind::Segment) && self.session.is_some()
    }
}

/// The color of a session.
pub(super) fn color_of(session: u64) -> &'static str {
    SESSIONS[(session.saturating_sub(1) % SESSIONS.len() as u64) as usize]
}

/// The names of the colors that lanes have: kinds, and the first sessions whose segments they are.
pub(super) fn legend(lanes: &[Lane]) -> Vec<(String, &'static str)> {
    let spans = || lanes.iter().flat_map(|lane| &lane.spans);
    let kinds: BTreeSet<Kind> = spans().filter(|s| !s.is_of_session()).map(|s| s.kind).collect();
    let sessions = spans().filter(|span| span.is_of_session()).filter_map(|span| span.session);
    let sessions: BTreeSet<u64> = sessions.collect();
    let sessions = sessions.into_iter().take(SESSIONS.len());
    let sessions = sessions.map(|n| (format!("s{n}"), color_of(n)));
    kinds.into_iter().map(|kind| (kind.name().to_owned(), kind.color())).chain(sessions).collect()
}

/// The number of a session: 3 of `s3`.
pub(super) fn number_of(session: &str) -> Option<u64> {
    session.strip_prefix('s')?.parse().ok()
}

/// A row of the timeline.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// The number and name of a client or worker, with the ending.
    pub(super) name: String,
    /// What it shows of its client or worker: a word at the end of its name, or nothing.
    ending: &'static str,
    pub(super) party: Party,
    pub(super) spans: Vec<Span>,
    /// The part of the time in which it has a span that is not a wait.
    pub(super) busy: f64,
}

impl Lane {
    /// The name with so many characters at most, where there is room for the ending. It is cut
    /// before the ending.
    pub(super) fn short(&self, most: usize) -> String {
        if self.name.chars().count() <= most {
            return self.name.clone();
        }
        let room = most.saturating_sub(self.ending.len() + 2);
        let name = self.name.strip_suffix(self.ending).unwrap_or(&self.name);
        let start: String = name.chars().take(room).collect();
        format!("{}..{}", start.trim_end_matches([' ', '(']), self.ending)
    }

    /// The session of a client's lane.
    pub(super) fn session(&self) -> Option<u64> {
        number_of(self.name.split(' ').next().unwrap_or_default())
    }
}

/// Data on its way from a lane to another.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) at: f64,
    pub(super) took: f64,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
}

/// Bytes in use on a worker: times and bytes.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) worker: String,
    pub(super) samples: Vec<(f64, u64)>,
}

/// The timeline of a trace.
pub(super) struct Timeline {
    pub(super) lanes: Vec<Lane>,
    pub(super) transfers: Vec<Transfer>,
    pub(super) memory: Vec<Memory>,
    /// The time of the last event, in microseconds.
    pub(super) length: f64,
    pub(super) n_events: usize,
    pub(super) processes: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Timeline {
    pub(super) fn of(trace: Trace) -> Timeline {
        let Trace { mut events, processes, names, notes } = trace;
        let mut lanes = Lanes::default();
        // A worker or client that says itself what it does says more than the server's report.
        let of_worker = |e: &Event| e.party == Party::Worker && e.event == "EXECUTE";
        let of_client = |e: &&Event| matches!(e.event.as_str(), "RECORD" | "WAIT");
        let workers = events.iter().any(of_worker);
        let clients = events.iter().filter(of_client).map(|e| e.name.clone()).collect();
        let own = Own { workers, clients };
        if own.workers {
            reports_at_their_end(&mut events);
        }
        share_launches(&mut events);
        let mut asked = Asked::new();
        for event in &events {
            lanes.add(event, &own, &mut asked);
        }
        let length = events.iter().map(|e| e.at + e.took).fold(1.0, f64::max);
        lanes.unanswered(asked, length);
        let (lanes, numbers) = lanes.finish(length, &programs(&names, &events));
        let transfers = transfers(&events, &numbers);
        let memory = memory(&events);
        Timeline { lanes, transfers, memory, length, n_events: events.len(), processes, notes }
    }
}

/// Reports on segments that workers show themselves take no time: a segment that began long before
/// the trace would make the timeline as much longer. The first event is then at zero.
fn reports_at_their_end(events: &mut [Event]) {
    for report in events.iter_mut().filter(|event| event.event == "WORKER_RECV") {
        (report.at, report.took) = (report.at + report.took, 0.0);
    }
    events.sort_by(|a, b| a.at.total_cmp(&b.at));
    let start = events.first().map_or(0.0, |event| event.at);
    events.iter_mut().for_each(|event| event.at -= start);
}

/// The instructions of a plan have no times of their own. Each gets an equal part of its launch, in
/// order.
fn share_launches(events: &mut [Event]) {
    let mut launches: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut groups = Vec::new();
    for (n, event) in events.iter().enumerate().filter(|(_, event)| event.event == "EXECUTE") {
        if event.command == "Launch" {
            groups.extend(launches.insert(&event.name, vec![n]));
        } else if is_in_plan(event)
            && let Some(group) = launches.get_mut(&*event.name)
        {
            group.push(n);
        }
    }
    groups.extend(launches.into_values());
    for group in groups {
        let [launch, instructions @ ..] = &group[..] else { continue };
        let (at, took) = (events[*launch].at, events[*launch].took / instructions.len() as f64);
        for (k, &n) in instructions.iter().enumerate() {
            (events[n].at, events[n].took) = (at + took * k as f64, took);
        }
    }
}

/// Whether an instruction ran within a plan.
fn is_in_plan(event: &Event) -> bool {
    event.details.contains(" in the plan (")
}

/// Lanes by their places.
#[derive(Default)]
struct Lanes(BTreeMap<Place, Vec<Span>>);

/// The place of a lane: those of one client or worker stand together, `w2` before `w10`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    party: Party,
    /// The name without the number at its end, and the number.
    order: (String, u64),
    name: String,
    part: Part,
}

/// What a lane shows of its client or worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// What it does.
    Work,
    /// The instructions of the plans that it runs.
    Instructions,
    /// How long segments wait for it.
    Queue,
    /// The plans that it makes beside its work.
    Compiler,
    /// The values that it takes out of its device for other workers.
    Exchanges,
}

impl Place {
    fn new(party: Party, name: &str, part: Part) -> Place {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[prefix.len()..].parse().unwrap_or(0);
        Place { party, order: (prefix.to_owned(), number), name: name.to_owned(), part }
    }

    /// The end of the name of the lane.
    fn ending(&self) -> &'static str {
        match self.part {
            Part::Work => "",
            Part::Instructions => " ops",
            Part::Queue => " queue",
            Part::Compiler => " compiler",
            Part::Exchanges => " exchanges",
        }
    }
}

/// Who says itself what it does.
struct Own {
    workers: bool,
    clients: BTreeSet<String>,
}

/// The reads of clients by their names and requests.
type Asked = BTreeMap<(String, String), Read>;

/// A read that a client has asked for.
#[derive(Clone, Copy)]
struct Read {
    at: f64,
    is_answered: bool,
}

/// The name of the lane of the dispatcher.
const DISPATCHER: &str = "dispatcher";

/// The request that the details of a message begin with: `r5`.
fn request(details: &str) -> Option<&str> {
    details.split(' ').find(|word| {
        word.strip_prefix('r')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// When the read was asked for that an event answers.
fn answer(asked: &mut Asked, event: &Event) -> Option<f64> {
    let request = request(&event.details).unwrap_or_default();
    let key = (event.name.clone(), request.to_owned());
    let read = match event.event == "CLIENT_RECV" {
        true => asked.remove(&key)?,
        false => {
            let read = asked.get_mut(&key)?;
            read.is_answered = true;
            *read
        }
    };
    Some(read.at)
}

impl Lanes {
    fn lane(&mut self, party: Party, name: &str) -> &mut Vec<Span> {
        self.part(party, name, Part::Work)
    }

    fn part(&mut self, party: Party, name: &str, part: Part) -> &mut Vec<Span> {
        self.0.entry(Place::new(party, name, part)).or_default()
    }

    fn add(&mut self, event: &Event, own: &Own, asked: &mut Asked) {
        let span = |at, took, kind| Span {
            at,
            took,
            kind,
            name: match (event.command.as_str(), event.session.as_str()) {
                ("Launch" | "Run" | "Done", session) if !session.is_empty() => session.to_owned(),
                (command, _) => command.to_owned(),
            },
            details: event.details.clone(),
            session: number_of(&event.session),
        };
        match (event.event.as_str(), event.party) {
            (
                kind @ ("EXECUTE" | "COMPILE" | "ERROR" | "QUEUE" | "READ" | "EXCHANGE"),
                Party::Worker,
            ) => {
                let part = match kind {
                    "COMPILE" => Part::Compiler,
                    "QUEUE" => Part::Queue,
                    "EXCHANGE" => Part::Exchanges,
                    _ if is_in_plan(event) => Part::Instructions,
                    _ => Part::Work,
                };
                let lane = self.part(Party::Worker, &event.name, part);
                lane.push(span(event.at, event.took, Kind::of(event)));
            }
            ("RECORD" | "WAIT" | "READ", Party::Client) => {
                let mut own = span(event.at, event.took, Kind::of(event));
                own.name = own.kind.name().into();
                own.join(self.lane(Party::Client, &event.name));
            }
            ("WORKER_RECV", _) if event.took > 0.0 && !own.workers => {
                self.lane(Party::Worker, &event.name).push(span(
                    event.at,
                    event.took,
                    Kind::Segment,
                ));
            }
            ("CLIENT_SEND" | "RECV", _) if event.command == "Fetch" => {
                if let Some(request) = request(&event.details) {
                    let read = Read { at: event.at, is_answered: false };
                    asked.insert((event.name.clone(), request.to_owned()), read);
                }
            }
            ("CLIENT_RECV" | "SEND", _) if matches!(event.command.as_str(), "Chunk" | "Failed") => {
                if let Some(began) = answer(asked, event)
                    && !own.clients.contains(&event.name)
                {
                    let mut waited = span(began, event.at - began, Kind::Wait);
                    waited.name = "waits for a value".into();
                    let lane = self.lane(Party::Client, &event.name);
                    // The client's own line is the longer one of the two about a read.
                    if event.event == "CLIENT_RECV" && lane.last().is_some_and(|s| s.at == began) {
                        lane.pop();
                    }
                    lane.push(waited);
                }
            }
            ("CLIENT_SEND", _) => {
                self.lane(Party::Client, &event.name).push(span(
                    event.at,
                    event.took,
                    Kind::Message,
                ));
            }
            ("DISCONNECT", _) => asked.retain(|(client, _), _| *client != event.session),
            _ => {}
        }
        let is_of_server =
            matches!(event.event.as_str(), "RECV" | "SEND" | "WORKER_SEND" | "WORKER_RECV");
        if is_of_server || event.party == Party::Server {
            let kind = if event.event == "ERROR" { Kind::Error } else { Kind::Message };
            let at = event.at + event.took;
            let mut mark = span(at, 0.0, kind);
            mark.name = format!("{} {} {}", event.event, event.command, event.name);
            self.lane(Party::Server, DISPATCHER).push(mark);
            if event.party == Party::Client {
                self.lane(Party::Client, &event.name);
            }
        }
    }

    /// Clients wait to the end for what they have asked for and not got, from the last that they
    /// did on.
    fn unanswered(&mut self, asked: Asked, length: f64) {
        let open = asked.into_iter().filter(|(_, read)| !read.is_answered);
        let mut first: BTreeMap<String, (f64, String)> = BTreeMap::new();
        for ((client, request), read) in open {
            let first = first.entry(client).or_insert_with(|| (read.at, request.clone()));
            if read.at < first.0 {
                *first = (read.at, request);
            }
        }
        for (client, (asked, request)) in first {
            let lane = self.lane(Party::Client, &client);
            let at = lane.iter().map(|span| span.at + span.took).fold(asked, f64::max);
            if at < length {
                lane.push(Span {
                    at,
                    took: length - at,
                    kind: Kind::Wait,
                    name: "waits for a value".into(),
                    details: format!("{request}, which had no answer yet"),
                    session: number_of(&client),
                });
            }
        }
    }

    /// The lanes in order, and the number of each.
    fn finish(
        self,
        length: f64,
        programs: &BTreeMap<&str, &str>,
    ) -> (Vec<Lane>, BTreeMap<Place, usize>) {
        let mut numbers = BTreeMap::new();
        let lanes = self.0.into_iter().enumerate().map(|(n, (place, mut spans))| {
            spans.sort_by(|a, b| a.at.total_cmp(&b.at));
            let ending = place.ending();
            let program = programs.get(&*place.name).filter(|_| place.party != Party::Server);
            let program = program.into_iter().flat_map(|name| [" ", name]).flat_map(str::chars);
            let program: String = program.take(MAX_PROGRAM).collect();
            let name = format!("{}{program}{ending}", place.name);
            let busy = busy(&spans) / length;
            let party = place.party;
            numbers.insert(place, n);
            Lane { name, ending, party, spans, busy }
        });
        (lanes.collect(), numbers)
    }
}

/// The programs of sessions and the names of workers: those that were there, and those of the lines
/// about the beginnings and ends of sessions: `session s1 opened by gpt (pi, pid 7)`.
fn programs<'t>(
    names: &'t BTreeMap<String, String>,
    events: &'t [Event],
) -> BTreeMap<&'t str, &'t str> {
    let of_sessions = events.iter().filter(|event| {
        matches!(event.event.as_str(), "CONNECT" | "DISCONNECT") && event.command == "Session"
    });
    let program = of_sessions.filter_map(|event| {
        let rest = event.details.strip_prefix("session ")?.strip_prefix(&event.session)?;
        let rest = rest.strip_prefix(" opened by ").or_else(|| rest.strip_prefix(" of "))?;
        let (name, _) = rest.split_once(" (")?;
        (!name.is_empty()).then_some((event.session.as_str(), name))
    });
    names.iter().map(|(id, name)| (id.as_str(), name.as_str())).chain(program).collect()
}

/// The time that is covered by spans that are not waits.
fn busy(spans: &[Span]) -> f64 {
    let work = spans.iter().filter(|span| span.kind != Kind::Wait && span.took > 0.0);
    let (sum, _) = work.fold((0.0, 0.0_f64), |(sum, end), span| {
        let last = span.at + span.took;
        (sum + (last - span.at.max(end)).max(0.0), end.max(last))
    });
    sum
}

fn transfers(events: &[Event], numbers: &BTreeMap<Place, usize>) -> Vec<Transfer> {
    let number = |party, name: &str, part| numbers.get(&Place::new(party, name, part)).copied();
    let dispatcher = number(Party::Server, DISPATCHER, Part::Work);
    let moved = events.iter().filter(|e| e.bytes > 0).filter_map(|event| {
        let peer = number(event.party, &event.name, Part::Work);
        let (from, to, took) = match event.event.as_str() {
            "RECV" | "WORKER_RECV" => (peer?, dispatcher?, 0.0),
            "SEND" | "WORKER_SEND" => (dispatcher?, peer?, 0.0),
            "GIVE" => {
                let from = number(Party::Worker, &event.name, Part::Exchanges).or(peer)?;
                let to = event.details.strip_prefix("to ")?;
                (from, number(Party::Worker, to, Part::Work)?, event.took)
            }
            _ => return None,
        };
        Some(Transfer { at: event.at, took, from, to, bytes: event.bytes })
    });
    let mut pairs: BTreeMap<(usize, usize), Vec<Transfer>> = BTreeMap::new();
    for transfer in moved {
        pairs.entry((transfer.from, transfer.to)).or_default().push(transfer);
    }
    shared(pairs.into_values().collect(), MAX_TRANSFERS)
}

/// So many transfers at most, shared evenly among pairs of lanes. A pair that has fewer leaves its
/// room to the others.
fn shared(mut pairs: Vec<Vec<Transfer>>, most: usize) -> Vec<Transfer> {
    pairs.sort_by_key(Vec::len);
    let (n, mut chosen) = (pairs.len(), Vec::new());
    for (k, pair) in pairs.into_iter().enumerate() {
        let room = (most - chosen.len()) / (n - k);
        chosen.extend(largest(pair, room));
    }
    chosen
}

/// The largest transfers, and of equal ones some of the whole time.
fn largest(mut all: Vec<Transfer>, room: usize) -> Vec<Transfer> {
    all.sort_by_key(|transfer| std::cmp::Reverse(transfer.bytes));
    let Some(least) = all.get(room).map(|transfer| transfer.bytes) else { return all };
    let larger = all.partition_point(|transfer| transfer.bytes > least);
    let end = all.partition_point(|transfer| transfer.bytes >= least);
    let (free, equal) = (room - larger, &all[larger..end]);
    let spread = (0..free).map(|n| equal[n * equal.len() / free].clone());
    all[..larger].iter().cloned().chain(spread).collect()
}

/// Memory over time. Events leave out how much is in use when it is nothing, so only those of a
/// kind that tells it at other times say so.
fn memory(events: &[Event]) -> Vec<Memory> {
    let mut by_worker: BTreeMap<&str, Vec<(f64, u64)>> = BTreeMap::new();
    fn kind(event: &Event) -> [&str; 3] {
        [&event.event, &event.command, &event.name]
    }
    let telling: BTreeSet<_> = events.iter().filter(|e| e.live > 0).map(kind).collect();
    let tells = |e: &&Event| telling.contains(&kind(e)) && !is_in_plan(e);
    for event in events.iter().filter(tells) {
        by_worker.entry(&event.name).or_default().push((event.at + event.took, event.live));
    }
    let memory = |(worker, samples): (&str, _)| Memory { worker: worker.to_owned(), samples };
    by_worker.into_iter().map(memory).collect()
}
