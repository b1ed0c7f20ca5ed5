//! Dialogues with the dispatcher: each line is what happens, below it what the dispatcher does.
//!
//! `2s p1 ...` is a message (or a hello) from a peer at that time, over a transport that loses nothing, so that links add no lines
//! of their own. Peers below `p5` are clients, the others workers.

mod templates;

use super::{Action, Config, Dispatcher, Event};
use crate::ids::{Identity, Incarnation, PeerId, RequestId, SessionId};
use crate::wire::{
    Body, Capacity, Chunk, Counts, FromClient, FromWorker, Hello, Message, Packet, Role, ToClient,
    ToWorker,
};
use bytes::Bytes;
use gt_ir::Scalar;
use gt_ir::backend::{ErrorKind, RunError, Stats};
use gt_ir::canonical::{Bindings, Defined};
use gt_ir::tape::{Tape, ValueId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Runs a dialogue and compares it with itself: lines that begin with `>` are what the dispatcher is to do.
fn script(config: Config, text: &str) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (mut got, mut want) = (Vec::new(), Vec::new());
    let mut driver = Driver {
        dispatcher: Dispatcher::new(config),
        lives: BTreeMap::new(),
        seqs: BTreeMap::new(),
    };
    for line in lines {
        want.push(line.to_owned());
        if !line.starts_with('>') {
            got.push(line.to_owned());
            let done = driver.line(line);
            got.extend(done.iter().filter_map(show).map(|line| line.trim_end().to_owned()));
        }
    }
    assert_eq!(got, want, "\n{}", got.join("\n"));
}

struct Driver {
    dispatcher: Dispatcher,
    lives: BTreeMap<PeerId, u64>,
    seqs: BTreeMap<(PeerId, bool), u64>,
}

impl Driver {
    fn line(&mut self, line: &str) -> Vec<Action> {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or("");
        let now = Duration::from_secs(word().trim_end_matches('s').parse().unwrap());
        let event = match word() {
            "tick" => Event::Tick,
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
        out
    }

    fn packet(&mut self, peer: PeerId, words: &[&str]) -> Packet {
        let role = if peer.0 < 5 { Role::Client } else { Role::Worker };
        let identity = Identity { name: String::new(), host: "pi".into(), pid: peer.0 as u32 };
        let mut stream = crate::wire::Stream::Control;
        let hello = Hello::new(role, identity);
        let body = match words {
            ["hello"] => {
                *self.lives.entry(peer).or_default() += 10;
                self.seqs.retain(|(other, _), _| *other != peer);
                Body::Hello(hello)
            }
            ["hello", "again"] => Body::Hello(hello),
            ["hello", "late"] => {
                let incarnation = Incarnation(self.lives[&peer] - 10);
                return Packet { stream, incarnation, body: Body::Hello(hello) };
            }
            ["hello", "of", other] => {
                let other = PeerId(number(other));
                let identity = Identity { pid: other.0 as u32, ..hello.identity.clone() };
                let hello = Hello { identity, resumes: true, move_number: 1, ..hello };
                let incarnation = Incarnation(self.lives[&other]);
                self.lives.insert(peer, incarnation.0);
                return Packet { stream, incarnation, body: Body::Hello(hello) };
            }
            ["hello", "resuming"] => Body::Hello(Hello { resumes: true, move_number: 1, ..hello }),
            ["hello", "version", version] => {
                Body::Hello(Hello { protocol: version.parse().unwrap(), ..hello })
            }
            ["bye"] => Body::Bye { reason: String::new() },
            words => {
                let message = message(role, words);
                stream = message.stream();
                let next = self.seqs.entry((peer, message.chunk().is_some())).or_default();
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

fn number(word: &str) -> u64 {
    word[1..].parse().unwrap_or_else(|_| panic!("no number in {word}"))
}

fn message(role: Role, words: &[&str]) -> Message {
    let (value, request) = (|w: &str| ValueId(number(w)), |w: &str| RequestId(number(w)));
    if role == Role::Client {
        return Message::FromClient(match words {
            ["tape", rest @ ..] => FromClient::Tape(Arc::new(tape(&rest.join(" ")))),
            ["define", n, rest @ ..] => FromClient::Define {
                template: number(n) as u32,
                tape: Arc::new(tape(&rest.join(" "))),
            },
            ["launch", n, rest @ ..] => FromClient::Launch {
                template: number(n) as u32,
                bindings: Arc::new(bindings(rest)),
            },
            ["forget", n] => FromClient::Forget { template: number(n) as u32 },
            ["configure", names @ ..] => {
                let mut signals = gt_ir::signal::Signals::new();
                for name in names {
                    signals.set(name, Default::default()).unwrap();
                }
                FromClient::Configure(Arc::new(signals))
            }
            ["chunk", v, ty, offset, len] => FromClient::Chunk(chunk(value(v), ty, offset, len)),
            ["fetch", r, v] => FromClient::Fetch { request: request(r), value: value(v) },
            ["stats", r] => FromClient::Stats { request: request(r) },
            ["close"] => FromClient::Close,
            other => panic!("no message of a client: {other:?}"),
        });
    }
    let session = SessionId(words.get(1).map_or(0, |w| w[1..].parse().unwrap_or(0)));
    let error = |text: &str| Arc::new(RunError::new(ErrorKind::Instruction, text));
    Message::FromWorker(match words {
        ["register"] => {
            FromWorker::Register(Capacity { engine: "e".into(), ..Capacity::default() })
        }
        ["done", _, seq, attempt] => {
            let counts = Counts { instructions: 1, nanos: 1 };
            FromWorker::Done { session, seq: number(seq), attempt: number(attempt) as u32, counts }
        }
        ["chunk", _, r, v, ty, offset, len] => FromWorker::Chunk {
            session,
            request: request(r),
            chunk: chunk(value(v), ty, offset, len),
        },
        ["failed", _, r] => FromWorker::Failed {
            session,
            request: request(r),
            error: error("index 9 is out of range"),
        },
        ["stats", _, r] => {
            FromWorker::Stats { session, request: request(r), stats: Box::new(Stats::default()) }
        }
        other => panic!("no message of a worker: {other:?}"),
    })
}

fn chunk(value: ValueId, ty: &str, offset: &str, len: &str) -> Chunk {
    let ty: gt_ir::Type = ty.parse().unwrap();
    let bytes = Bytes::from(vec![0; len.parse().unwrap()]);
    Chunk { value, ty, offset: offset.parse().unwrap(), total: ty.bytes() as u64, bytes }
}

/// `%3 %4 to %5+2 with 7`: inputs, the first of the defined and their number, literals.
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
        Action::Report(_) | Action::Note(_) => return None,
    })
}

fn show_message(message: &Message) -> String {
    match message {
        Message::ToWorker(ToWorker::Open { session, client }) => {
            format!("open {session} of {client}")
        }
        Message::ToWorker(ToWorker::Run { session, seq, attempt, tape }) => {
            let text = gt_ir::text::print(tape);
            let text = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty());
            format!("run {session} #{seq} a{attempt}: {}", text.collect::<Vec<_>>().join("; "))
        }
        Message::ToWorker(ToWorker::Define { session, template, tape }) => {
            format!("define {session} t{template} of {} entries", tape.entries.len())
        }
        Message::ToWorker(ToWorker::Launch { session, seq, attempt, template, bindings }) => {
            let Bindings { inputs, defined, scalars } = &**bindings;
            let defined: Vec<ValueId> = defined.iter().collect();
            format!(
                "launch {session} #{seq} a{attempt} t{template}: {inputs:?} to {defined:?} with {scalars:?}"
            )
        }
        Message::ToWorker(ToWorker::Forget { session, template }) => {
            format!("forget {session} t{template}")
        }
        Message::ToWorker(ToWorker::Chunk { session, chunk }) => {
            format!("chunk {session} {} {}", chunk.value, chunk.offset)
        }
        Message::ToWorker(ToWorker::Fetch { session, request, value }) => {
            format!("fetch {session} {request} {value}")
        }
        Message::ToWorker(ToWorker::Stats { session, request }) => {
            format!("stats {session} {request}")
        }
        Message::ToWorker(ToWorker::EndSession { session }) => format!("end {session}"),
        Message::ToClient(ToClient::Chunk { request, chunk }) => {
            format!("chunk {request} {} {}", chunk.value, chunk.offset)
        }
        Message::ToClient(ToClient::Failed { request, error }) => {
            format!("failed {request}: {}", error.to_string().replace('\n', "; "))
        }
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

#[test]
fn work_and_a_read() {
    script(
        Config::embedded(),
        "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p1 hello
         > p1 welcome s1
         0s p1 chunk %0 i64[2] 0 16
         > p5 open s1 of s1 (pi, pid 1)
         > p5 chunk s1 %0 0
         0s p1 tape %0 = input : i64[2]; %1 = add %0, %0; output %1
         > p5 run s1 #0 a0: %0 = input : i64[2]; %1 = add %0, %0 : i64[2]; output %1
         0s p1 fetch r1 %1
         > p5 fetch s1 r1 %1
         0s p5 done s1 #0 a0
         0s p5 chunk s1 r1 %1 i64[2] 0 8
         > p1 chunk r1 %1 0
         0s p5 chunk s1 r1 %1 i64[2] 8 8
         > p1 chunk r1 %1 8
         0s p5 chunk s1 r1 %1 i64[2] 0 16
         0s p1 close
         > forget p1
         > p5 end s1
         > p5 end s1",
    );
}

#[test]
fn each_session_has_its_own_signals_and_keeps_them_when_its_worker_is_lost() {
    script(
        Config::embedded(),
        "0s p1 hello
         > p1 welcome s1
         0s p2 hello
         > p2 welcome s2
         0s p1 configure layer1 layer2
         0s p1 stats r1
         > p1 stats r1 signals layer1 layer2
         0s p2 stats r1
         > p2 stats r1
         0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p1 tape %0 = full[i64[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p2 configure layer3
         1s p5 lost
         > forget p5
         1s p1 stats r2
         > p1 stats r2 0 segments on w1 (pi, pid 5) signals layer1 layer2
         1s p2 stats r2
         > p2 stats r2 signals layer3
         1s p1 configure
         1s p1 stats r3
         > p1 stats r3 0 segments on w1 (pi, pid 5)",
    );
}

#[test]
fn a_lost_worker_poisons_what_it_held() {
    script(
        Config::embedded(),
        "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p1 hello
         > p1 welcome s1
         0s p1 tape %0 = input : i64[2]; %1 = neg %0; output %1
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = input : i64[2]; %1 = neg %0 : i64[2]; output %1
         0s p1 fetch r1 %1
         > p5 fetch s1 r1 %1
         0s p6 hello
         > p6 welcome w2
         0s p6 register
         1s p5 lost
         > forget p5
         > p1 failed r1: worker w1 (pi, pid 5) was lost with the values it held: its process ended
         1s p1 chunk %0 i64[2] 0 16
         2s p1 tape %2 = neg %1; free %1; %3 = full[i64[2]] 3; %4 = neg %3; output %2; output %4
         > p6 open s1 of s1 (pi, pid 1)
         > p6 run s1 #1 a1: %3 = full[i64[2]] 3 : i64[2]; %4 = neg %3 : i64[2]; output %4
         2s p1 fetch r2 %2
         > p1 failed r2: worker w1 (pi, pid 5) was lost with the values it held: its process ended
         2s p1 fetch r3 %1
         > p1 failed r3: cannot read %1: it was freed, or never computed
         2s p1 fetch r4 %4
         > p6 fetch s1 r4 %4
         2s p6 failed s1 r4
         > p1 failed r4: index 9 is out of range",
    );
}

#[test]
fn without_a_worker_a_read_fails_and_says_why() {
    script(
        Config::embedded(),
        "0s p1 hello
         > p1 welcome s1
         0s p1 tape %0 = full[i64[2]] 3; output %0
         1s p1 fetch r1 %0
         5s tick
         11s tick
         > p1 failed r1: no worker is connected to the server, and none came within 10 s; hint: start one with `gt-cli worker --connect HOST:PORT`
         12s p1 fetch r2 %0
         13s p5 hello
         > p5 welcome w1
         13s p5 register
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]; output %0
         > p5 fetch s1 r2 %0
         700s tick
         > p1 failed r2: worker w1 (pi, pid 5) has reported nothing of this session for 600 s",
    );
}

#[test]
fn a_bad_tape_harms_only_its_session() {
    script(
        Config::embedded(),
        "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p1 hello
         > p1 welcome s1
         0s p2 hello
         > p2 welcome s2
         0s p2 tape %0 = full[i64[2]] 3
         > p5 open s2 of s2 (pi, pid 2)
         > p5 run s2 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p1 tape %0 = full[i64[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[i64[2]] 3 : i64[2]
         0s p1 tape %1 = neg %0; %2 = add %7, %0
         > p5 end s1
         > p5 end s1
         0s p1 fetch r1 %0
         > p1 failed r1: the server refused entry 1 of segment 1: add: %7 is not alive; hint: it was freed, or never defined
         0s p2 fetch r1 %0
         > p5 fetch s2 r1 %0",
    );
}

#[test]
fn only_the_home_is_listened_to() {
    script(
        Config::embedded(),
        "0s p5 hello
         > p5 welcome w1
         0s p5 register
         0s p6 hello
         > p6 welcome w2
         0s p6 register
         0s p1 hello
         > p1 welcome s1
         0s p1 tape %0 = full[u8[2]] 3
         > p5 open s1 of s1 (pi, pid 1)
         > p5 run s1 #0 a0: %0 = full[u8[2]] 3 : u8[2]
         0s p1 fetch r1 %0
         > p5 fetch s1 r1 %0
         0s p6 failed s1 r1
         0s p6 chunk s1 r1 %0 u8[2] 0 2
         0s p6 done s1 #0 a0
         0s p5 done s1 #0 a7
         0s p5 done s1 #9 a0
         0s p5 chunk s1 r1 %0 u8[2] 1 1
         > p1 failed r1: worker w1 (pi, pid 5) answered the read of %0 with other data than was asked for
         0s p5 lost
         > forget p5
         0s p1 stats r2
         > p1 stats r2 0 segments on w1 (pi, pid 5)",
    );
}

#[test]
fn strangers_and_late_packets() {
    script(
        Config::remote(),
        "0s p1 hello version 7
         > p1 refused: protocol version 7 was refused by a server of version 4; hint: run the same version of gt on both sides
         > forget p1
         0s p1 tape %0 = full[u8[2]] 3
         > p1 refused: the server does not know this connection: it was restarted, or heard nothing from here for too long
         > forget p1
         0s p1 hello
         > p1 welcome s1
         0s p1 hello again
         > p1 welcome s1
         1s p1 bye
         > forget p1
         2s p1 hello again
         > p1 refused: the server does not know this connection: it was restarted, or heard nothing from here for too long
         > forget p1
         3s p2 hello resuming
         > p2 refused: the server does not know this connection: it was restarted, or heard nothing from here for too long
         > forget p2
         4s p1 hello
         > p1 welcome s2
         4s p1 hello late
         5s shutdown
         > p1 bye: the operator stopped it
         > forget p1
         6s p1 hello",
    );
}

#[test]
fn a_hello_is_a_sign_of_life() {
    script(
        Config::remote(),
        "0s p1 hello
         > p1 welcome s1
         29s p1 hello again
         > p1 welcome s1
         31s tick
         31s p1 unreachable
         32s p2 hello of p1
         > forget p1
         > p2 welcome s1
         34s tick
         59s p2 unreachable
         61s p2 hello of p1
         > p2 welcome s1
         62s tick
         92s tick
         > p2 refused: the server closed the connection: nothing was heard from it for 30 s
         > forget p2",
    );
}

#[test]
fn an_older_life_replaces_no_newer_one() {
    script(
        Config::embedded(),
        "0s p1 hello
         > p1 welcome s1
         1s p1 hello
         > forget p1
         > p1 welcome s2
         1s p1 hello late
         1s p1 tape %0 = full[u8[2]] 3
         1s p5 hello
         > p5 welcome w1
         1s p5 register
         > p5 open s2 of s2 (pi, pid 1)
         > p5 run s2 #0 a0: %0 = full[u8[2]] 3 : u8[2]
         2s p1 hello late
         3s p1 fetch r1 %0
         > p5 fetch s2 r1 %0",
    );
}

#[test]
fn a_tape_may_pass_through_more_bytes_than_can_be_counted() {
    // Each is 2^51 bytes; 2^13 of them are 2^64.
    let n = (1 << 13) + 1;
    let made = (0..n).map(|i| format!("%{i} = full[i64[281474976710656]] 3"));
    let freed = (0..n).map(|i| format!("free %{i}"));
    let all: Vec<String> = made.chain(freed).collect();
    let mut driver = Driver {
        dispatcher: Dispatcher::new(Config::embedded()),
        lives: BTreeMap::new(),
        seqs: BTreeMap::new(),
    };
    driver.line("0s p1 hello");
    driver.line(&format!("0s p1 tape {}", all.join("; ")));
    driver.line("0s p1 stats r1");
    assert_eq!(driver.dispatcher.n_sessions(), 1);
}
