//! The driver of a dialogue: words become events, and actions become words.

use crate::dispatcher::{Action, Config, Dispatcher, Event, Job, Made};
use crate::identity::Identity;
use crate::ids::{Incarnation, PeerId, RequestId, SessionId};
use crate::roles::User;
use crate::wire::{
    Body, Capacity, Chunk, Counts, Door, FromClient, FromWorker, Hello, Literal, Message, Name,
    Order, Packet, Performance, Performed, Planned, RESERVED, Receiver, Role, Step, ToClient,
    ToWorker, Work,
};
use bytes::Bytes;
use gt_ir::Scalar;
use gt_ir::backend::{Demand, ErrorKind, RunError, Stats};
use gt_ir::canonical::{Bindings, Defined};
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::tape::{Tape, ValueId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Runs a dialogue and compares the dispatcher's actions with the lines that begin with `>`.
pub(super) fn script(config: Config, text: &str) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (mut got, mut want) = (Vec::new(), Vec::new());
    let mut driver = Driver::new(config);
    for line in lines {
        want.push(line.to_owned());
        if !line.starts_with('>') {
            got.push(line.to_owned());
            let done = driver.line(line);
            got.extend(done.iter().filter_map(show).map(|line| short(line.trim_end())));
        }
    }
    assert_eq!(got, want, "\n{}", got.join("\n"));
}

/// As [`script`], after worker `p5` and client `p1` have connected.
pub(super) fn served(config: Config, text: &str) {
    const BEFORE: &str = "0s p5 hello
        > p5 welcome w1
        0s p5 register
        0s p1 hello
        > p1 welcome s1
        ";
    script(config, &format!("{BEFORE}{text}"));
}

/// A dispatcher, with the incarnations and sequence numbers of its peers.
pub(super) struct Driver {
    pub(super) dispatcher: Dispatcher,
    lives: BTreeMap<PeerId, u64>,
    seqs: BTreeMap<(PeerId, bool), u64>,
    /// The partition that was asked for last.
    job: Option<(SessionId, User, Arc<Job>)>,
}

impl Driver {
    pub(super) fn new(config: Config) -> Driver {
        Driver {
            dispatcher: Dispatcher::new(config),
            lives: BTreeMap::new(),
            seqs: BTreeMap::new(),
            job: None,
        }
    }

    pub(super) fn line(&mut self, line: &str) -> Vec<Action> {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or("");
        let now = Duration::from_secs(word().trim_end_matches('s').parse().unwrap());
        let event = match word() {
            "tick" => Event::Tick,
            "made" => match self.job.take() {
                Some((session, user, job)) => {
                    let partition = job.make();
                    Event::Partitioned(Made { session, user, job, partition, nanos: 1 })
                }
                None => panic!("no partition was asked for"),
            },
            "shutdown" => Event::Shutdown { reason: "the operator stopped it".into() },
            peer => {
                let peer = PeerId(number(peer));
                let rest: Vec<&str> = words.collect();
                if rest == ["lost"] {
                    Event::PeerLost(peer)
                } else if rest == ["unreachable"] {
                    Event::Unreachable(peer)
                } else {
                    Event::Packet(peer, self.packet(peer, &rest))
                }
            }
        };
        let mut out = Vec::new();
        self.dispatcher.handle(now, event, &mut out);
        for action in &out {
            if let Action::Partition { session, user, job } = action {
                self.job = Some((*session, *user, Arc::clone(job)));
            }
        }
        out
    }

    fn packet(&mut self, peer: PeerId, words: &[&str]) -> Packet {
        let role = if peer.0 < 5 { Role::Client } else { Role::Worker };
        let identity = Identity { name: String::new(), host: "pi".into(), pid: peer.0 as u32 };
        let mut stream = crate::wire::Stream::Control;
        let secret = |peer: PeerId| [peer.0 as u8 + 1; 16];
        let hello = Hello { secret: secret(peer), ..Hello::new(role, identity) };
        let body = match words {
            ["hello"] | ["hello", "asking", ..] => {
                *self.lives.entry(peer).or_default() += 10;
                self.seqs.retain(|(other, _), _| *other != peer);
                Body::Hello(Box::new(hello.asking(demand(words.get(2..).unwrap_or_default()))))
            }
            ["hello", "weighing", weight] => {
                *self.lives.entry(peer).or_default() += 10;
                self.seqs.retain(|(other, _), _| *other != peer);
                Body::Hello(Box::new(Hello { weight: weight.parse().unwrap(), ..hello }))
            }
            ["hello", "again"] => Body::Hello(Box::new(hello)),
            ["hello", "late"] => {
                let incarnation = Incarnation(self.lives[&peer] - 10);
                return Packet { stream, incarnation, body: Body::Hello(Box::new(hello)) };
            }
            ["hello", of @ ("of" | "guessing"), other] => {
                let other = PeerId(number(other));
                let identity = Identity { pid: other.0 as u32, ..hello.identity.clone() };
                let secret = if *of == "of" { secret(other) } else { hello.secret };
                let hello = Hello { identity, resumes: true, move_number: 1, secret, ..hello };
                let incarnation = Incarnation(self.lives[&other]);
                self.lives.insert(peer, incarnation.0);
                return Packet { stream, incarnation, body: Body::Hello(Box::new(hello)) };
            }
            ["hello", "resuming"] => {
                Body::Hello(Box::new(Hello { resumes: true, move_number: 1, ..hello }))
            }
            ["hello", "version", version] => {
                Body::Hello(Box::new(Hello { protocol: version.parse().unwrap(), ..hello }))
            }
            ["bye"] => Body::Bye { reason: String::new() },
            words => {
                let message = message(role, words);
                stream = message.stream();
                let next =
                    self.seqs.entry((peer, stream == crate::wire::Stream::Bulk)).or_default();
                *next += 1;
                Body::Data { seq: *next - 1, ack: 0, message }
            }
        };
        Packet {
            stream,
            incarnation: Incarnation(self.lives.get(&peer).copied().unwrap_or(1)),
            body,
        }
    }
}

/// `%7`, or `%+7` of the numbers that the dispatcher gives.
fn number(word: &str) -> u64 {
    let (own, digits) = match word[1..].strip_prefix('+') {
        Some(digits) => (RESERVED, digits),
        None => (0, &word[1..]),
    };
    own + digits.parse::<u64>().unwrap_or_else(|_| panic!("no number in {word}"))
}

/// A line with the numbers that the dispatcher gives as [`number`] reads them.
fn short(line: &str) -> String {
    let mut text = String::new();
    for part in line.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        match digits.parse::<u64>().ok().filter(|n| *n >= RESERVED) {
            Some(n) => text.push_str(&format!("+{}{}", n - RESERVED, &part[digits.len()..])),
            None => text.push_str(part),
        }
    }
    text
}

/// `device=cuda workers=2 zero=1`.
fn demand(words: &[&str]) -> Demand {
    let of = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
    Demand {
        workers: of("workers=").map(|n| n.parse().unwrap()),
        engine: of("engine=").map(Into::into),
        device: of("device=").map(Into::into),
        auto: words.contains(&"auto").then_some(true),
        zero: of("zero=").map(|level| level.parse().unwrap()),
    }
}

/// `a`, `a=all` and `a=0,1`: a signal without workers, on all, and on some.
fn signal(word: &str) -> (&str, SignalConfig) {
    let Some((name, workers)) = word.split_once('=') else { return (word, Default::default()) };
    let list = |list: &str| list.split(',').map(|worker| worker.parse().unwrap()).collect();
    let workers = (workers != "all").then(|| list(workers));
    let shard = Some(ShardConfig { workers, ..ShardConfig::default() });
    (name, SignalConfig { shard, ..SignalConfig::default() })
}

fn message(role: Role, words: &[&str]) -> Message {
    let (value, request) = (|w: &str| ValueId(number(w)), |w: &str| RequestId(number(w)));
    if role == Role::Client {
        return Message::FromClient(FromClient::Order(match words {
            ["tape", rest @ ..] => Order::Run(Arc::new(tape(&rest.join(" ")))),
            ["define", n, rest @ ..] => {
                let (template, tape) = (number(n) as u32, Arc::new(tape(&rest.join(" "))));
                Order::Define { template, tape, planned: false }
            }
            ["launch", n, rest @ ..] => {
                Order::Launch { template: number(n) as u32, bindings: Arc::new(bindings(rest)) }
            }
            ["forget", n] => Order::Forget { template: number(n) as u32 },
            ["configure", names @ ..] => {
                let mut signals = Signals::new();
                for name in names {
                    let (name, config) = signal(name);
                    signals.set(name, config).unwrap();
                }
                return Message::FromClient(FromClient::Configure(Arc::new(signals)));
            }
            ["chunk", v, ty, offset, len] => Order::Chunk(chunk(value(v), ty, offset, len)),
            ["fetch", r, v] => Order::Fetch { request: request(r), value: value(v) },
            ["stats", r] => Order::Stats { request: request(r) },
            ["close"] => return Message::FromClient(FromClient::Close),
            ["moments"] => return Message::FromClient(FromClient::Moments(Box::default())),
            other => panic!("no message of a client: {other:?}"),
        }));
    }
    let session = SessionId(words.get(1).map_or(0, |w| w[1..].parse().unwrap_or(0)));
    Message::FromWorker(match words {
        ["register", "at", address] => {
            let door = Door { address: (*address).into(), local: true, sealed: true, key: [1; 16] };
            let door = Some(Arc::new(door));
            FromWorker::Register(Box::new(Capacity {
                engine: "e".into(),
                door,
                ..Capacity::default()
            }))
        }
        ["register", rest @ ..] => {
            let (device, threads) = (rest.first().copied().unwrap_or_default(), rest.get(1));
            let threads = threads.map_or(0, |n| n.parse().unwrap());
            let (engine, device) = ("e".into(), device.into());
            FromWorker::Register(Box::new(Capacity {
                engine,
                device,
                threads,
                ..Capacity::default()
            }))
        }
        ["sent", _, r] => FromWorker::Sent { session, request: RequestId(number(r)), bytes: 8 },
        ["done", _, seq, attempt] => {
            let counts = Counts { instructions: 1, nanos: 1, ..Counts::default() };
            FromWorker::Done { session, seq: number(seq), attempt: number(attempt) as u32, counts }
        }
        ["performed", _, rest @ ..] => performed(session, rest),
        ["chunk", _, r, v, ty, offset, len] => FromWorker::Chunk {
            session,
            request: request(r),
            chunk: chunk(value(v), ty, offset, len),
        },
        ["failed", _, r, rest @ ..] => {
            let error = RunError::new(ErrorKind::Instruction, "index 9 is out of range");
            let value = rest.first().map(|of| value(of));
            let error = Arc::new(RunError { value, ..error });
            FromWorker::Failed { session, request: request(r), error }
        }
        ["planned", _, seconds] => {
            let nanos = seconds.parse::<u64>().unwrap() * 1_000_000_000;
            FromWorker::Planned {
                session,
                planned: Box::new(Planned { nanos, ..Planned::default() }),
            }
        }
        ["stats", _, r] => {
            FromWorker::Stats { session, request: request(r), stats: Box::new(Stats::default()) }
        }
        other => panic!("no message of a worker: {other:?}"),
    })
}

/// `#4 r7 2 over returned=0,1`: the first segment, the first request and the number of segments
/// that ran.
fn performed(session: SessionId, words: &[&str]) -> FromWorker {
    let [seq, request, n_ran, rest @ ..] = words else { panic!("no report: {words:?}") };
    let list = |key: &str| {
        let words = rest.iter().filter_map(|word| word.strip_prefix(key));
        words.flat_map(|words| words.split(',')).map(|word| word.parse().unwrap()).collect()
    };
    let n_ran: u32 = n_ran.parse().unwrap();
    let performed = Performed {
        request: RequestId(number(request)),
        n_ran,
        is_over: rest.contains(&"over"),
        arrived: list("arrived="),
        returned: list("returned="),
        work: Work { segments: n_ran.into(), busy: 1, ..Work::default() },
        memory: 0,
    };
    let (seq, attempt, performed) = (number(seq), 0, Box::new(performed));
    FromWorker::Performed { session, seq, attempt, performed }
}

fn chunk(value: ValueId, ty: &str, offset: &str, len: &str) -> Box<Chunk> {
    let ty: gt_ir::Type = ty.parse().unwrap();
    let bytes = Bytes::from(vec![0; len.parse().unwrap()]);
    Box::new(Chunk { value, ty, offset: offset.parse().unwrap(), total: ty.bytes() as u64, bytes })
}

/// `%3 %4 to %5+2 with 7`: inputs, the first defined value and the number of them, literals.
fn bindings(words: &[&str]) -> Bindings {
    let mut bindings = Bindings::default();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "to" => {
                let (first, n) = words.next().and_then(|word| word.split_once('+')).unwrap();
                bindings.defined = Defined::Run(ValueId(number(first)), n.parse().unwrap());
            }
            "with" => {
                bindings.scalars.extend(words.by_ref().map(|n| Scalar::I64(n.parse().unwrap())))
            }
            value => bindings.inputs.push(ValueId(number(value))),
        }
    }
    bindings
}

fn tape(text: &str) -> Tape {
    let text =
        format!("gt tape 1\n{}\n", text.split(';').map(str::trim).collect::<Vec<_>>().join("\n"));
    gt_ir::text::parse(&text)
        .map(|(tape, _)| tape)
        .unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

fn show(action: &Action) -> Option<String> {
    Some(match action {
        Action::Send(peer, packet) => match &packet.body {
            Body::Ack { .. } => return None,
            Body::Data { message, .. } => format!("> {peer} {}", show_message(message)),
            Body::Welcome(welcome) => format!("> {peer} welcome {}", welcome.name),
            Body::Refused(refusal) => {
                format!("> {peer} refused: {}", refusal.to_string().replace('\n', "; "))
            }
            Body::Bye { reason } => format!("> {peer} bye: {reason}"),
            other => format!("> {peer} {other:?}"),
        },
        Action::Forget(peer) => format!("> forget {peer}"),
        Action::Partition { session, .. } => format!("> partition for {session}"),
        Action::Report(_) | Action::Note(_) | Action::Trace { .. } | Action::Moments { .. } => {
            return None;
        }
    })
}

fn show_message(message: &Message) -> String {
    match message {
        Message::ToClient(ToClient::Planned(_)) => "planned".into(),
        Message::ToWorker(ToWorker::Open { session, client, weight, .. }) => {
            let weight = (*weight != 10).then(|| format!(" with weight {weight}"));
            format!("open {session} of {client}{}", weight.unwrap_or_default())
        }
        Message::ToWorker(ToWorker::Order { session, attempt, seq, order }) => {
            show_order(*session, *attempt, *seq, order)
        }
        Message::ToWorker(ToWorker::EndSession { session }) => format!("end {session}"),
        Message::ToClient(ToClient::Chunk { request, chunk }) => {
            format!("chunk {request} {} {}", chunk.value, chunk.offset)
        }
        Message::ToClient(ToClient::Failed { request, error }) => {
            format!("failed {request}: {}", error.to_string().replace('\n', "; "))
        }
        Message::ToClient(ToClient::Note(text)) => format!("note: {text}"),
        Message::ToClient(ToClient::Warning(text)) => format!("warning: {text}"),
        Message::ToClient(ToClient::Watch) | Message::ToWorker(ToWorker::Watch) => "watch".into(),
        Message::ToClient(ToClient::Stats { request, stats }) => {
            let ran: Vec<String> = stats
                .workers
                .iter()
                .map(|w| format!(" {} segments on {}", w.segments, w.name))
                .collect();
            let names: Vec<_> = stats.signals.iter().map(|(name, _)| format!(" {name}")).collect();
            let known = if names.is_empty() { "" } else { " signals" };
            format!("stats {request}{}{known}{}", ran.concat(), names.concat())
        }
        other => format!("{other:?}"),
    }
}

fn show_order(session: SessionId, attempt: u32, seq: u64, order: &Order) -> String {
    match order {
        Order::Run(tape) => {
            let text = gt_ir::text::print(tape);
            let text = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty());
            format!("run {session} #{seq} a{attempt}: {}", text.collect::<Vec<_>>().join("; "))
        }
        Order::Define { template, tape, .. } => {
            format!("define {session} t{template} of {} entries", tape.entries.len())
        }
        Order::Launch { template, bindings } => {
            let Bindings { inputs, defined, scalars } = &**bindings;
            let defined: Vec<ValueId> = defined.iter().collect();
            format!(
                "launch {session} #{seq} a{attempt} t{template}: {inputs:?} to {defined:?} with \
                 {scalars:?}"
            )
        }
        Order::Forget { template } => format!("forget {session} t{template}"),
        Order::Chunk(chunk) => format!("chunk {session} {} {}", chunk.value, chunk.offset),
        Order::Fail { value, error } => format!("fail {session} {value}: {}", error.message),
        Order::Fetch { request, value } => format!("fetch {session} {request} {value}"),
        Order::Send { request, value, to } => {
            format!("send {session} {request} {value} to {} {}", to.session, to.value)
        }
        Order::Learn { routine, steps } => {
            let steps: Vec<String> =
                steps.steps.iter().map(|s| step(s, &steps.receivers)).collect();
            format!("learn {session} t{routine}: {}", steps.join("; "))
        }
        Order::Perform(performance) => {
            let Performance { routine, given, scalars, first, request, .. } = &**performance;
            format!(
                "perform {session} #{seq} a{attempt} t{routine}: {given:?} from {first} {request} \
                 with {scalars:?}"
            )
        }
        Order::Stats { request } => format!("stats {session} {request}"),
    }
}

/// `t1 on $0 ~2 to ~3 with #0 2.0` and `r~0 ~3 to s2 ~1`: `$` counts what is given, `~` what is
/// made and asked for, and `#` literals.
fn step(step: &Step, receivers: &[Receiver]) -> String {
    let name = |name: &Name| match name {
        Name::Given(at) => format!("${at}"),
        Name::Made(at) => format!("~{at}"),
    };
    match step {
        Step::Run { template, inputs, first, literals } => {
            let inputs: Vec<String> = inputs.iter().map(name).collect();
            let literals = literals.iter().map(|literal| match literal {
                Literal::Slot(slot) => format!(" #{slot}"),
                Literal::Number(scalar) => format!(" {scalar}"),
            });
            let literals: String = literals.collect();
            format!("t{template} on {} to ~{first} with{literals}", inputs.join(" "))
        }
        Step::Send { value, request, to } => {
            let to = to.map_or_else(String::new, |to| {
                format!(" to {} ~{}", receivers[to.receiver as usize].session, to.made)
            });
            format!("r~{request} {}{to}", name(value))
        }
    }
}
