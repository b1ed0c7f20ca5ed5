//! Clients that keep to the form of the protocol and not to its sense, beside honest ones.

use std::thread;
use std::time::Duration;

use gt_runtime::clock::{self, Time};
use gt_runtime::identity::Identity;
use gt_runtime::ids::{Incarnation, RequestId};
use gt_runtime::wire::codec::{decode, encode};
use gt_runtime::wire::{Body, FromClient, Hello, Message, Order, Packet, Role, Stream};
use gt_runtime::zmq::{Entry, Sent, Socket, Uplink, context, wake_pair};

use super::neighbours::{full, quick_beside};
use super::running::{LONG, Process, child_address, dealer, receive, send, server};
use super::runs_a_chain;
use crate::programs::{id, output, tape};

/// The values that an acknowledger reads, of 4 MiB each, and how often it reads.
const N_VALUES: u64 = 8;
const N_READS: u64 = 40;
/// The hellos of one process, and how many of them are welcome (`Config::max_of_process`).
const N_HELLOS: u64 = 1_000;
const N_WELCOME: u64 = 300;
/// How often those are heard.
const PING: Duration = Duration::from_millis(300);

fn hello() -> Body {
    let (name, host, pid) = ("rogue".into(), "here".into(), std::process::id());
    Body::Hello(Box::new(Hello::new(Role::Client, Identity { name, host, pid })))
}

/// Reads values, takes none of them from its socket, and acknowledges them all the same.
#[test]
fn child_acknowledger() {
    let Some(address) = child_address() else { return };
    let uplink = Uplink::open(&context(), &address, LONG, &Entry::from_environment()).unwrap();
    let incarnation = Incarnation(clock::wall_nanos());
    let say = |stream, body| {
        let packet = Packet { stream, incarnation, body };
        while uplink.send(&packet).unwrap() != Sent::Queued {
            thread::sleep(Duration::from_millis(1));
        }
    };
    let order = |seq, order: Order| {
        let message = Message::FromClient(FromClient::Order(order));
        say(Stream::Control, Body::Data { seq, ack: 0, message });
    };
    say(Stream::Control, hello());
    let (_waker, wakeups) = wake_pair().unwrap();
    // Orders without credit would be dropped.
    while !matches!(uplink.receive().unwrap(), Some(Packet { body: Body::Ack { .. }, .. })) {
        uplink.wait(&wakeups, Some(Duration::from_millis(100))).unwrap();
    }
    let values = (0..N_VALUES).flat_map(|value| [full(value, &[1 << 20]), output(value)]);
    order(0, Order::Run(tape(values.collect()).into()));
    for upto in 0.. {
        if upto < N_READS {
            let (request, value) = (RequestId(upto), id(upto % N_VALUES));
            order(upto + 1, Order::Fetch { request, value });
        }
        for stream in [Stream::Control, Stream::Bulk] {
            say(stream, Body::Ack { upto, seen: upto, credit: u64::MAX / 2 });
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Asks for the state and for events, again and again, and never takes an answer.
#[test]
fn child_silent_monitor() {
    let Some(address) = child_address() else { return };
    let uplink = Uplink::open(&context(), &address, LONG, &Entry::from_environment()).unwrap();
    for life in clock::wall_nanos().. {
        let role = if life % 2 == 0 { Role::Monitor } else { Role::Tracer(0) };
        let (name, host, pid) = ("silent".into(), "here".into(), std::process::id());
        let body = Body::Hello(Box::new(Hello::new(role, Identity { name, host, pid })));
        let incarnation = Incarnation(life);
        if uplink.send(&Packet { stream: Stream::Control, incarnation, body }).unwrap()
            != Sent::Queued
        {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The control connections of many clients of one process.
struct Crowd {
    ctx: zmq::Context,
    endpoint: String,
    welcome: Vec<(Incarnation, Socket)>,
    pinged: Time,
}

impl Crowd {
    /// One more client. Says whether it is welcome; if not, the reason must be the quota.
    fn hello(&mut self, life: u64) -> bool {
        let (socket, life) = (dealer(&self.ctx, &self.endpoint, life), Incarnation(life));
        send(&socket, &packet(life, hello()), &[]);
        match decode(&receive(&socket).frames[0], None).unwrap().body {
            Body::Welcome(_) => self.welcome.push((life, socket)),
            Body::Refused(why) => {
                let quota = format!("its process has {N_WELCOME} sessions, which is the limit");
                assert!(why.to_string().contains(&quota), "{why}");
                return false;
            }
            other => panic!("{other:?}"),
        }
        true
    }

    /// Lets all be heard in time: the server does not reach them, as they take no bulk data.
    fn ping(&mut self) {
        if clock::now() < self.pinged + PING {
            return;
        }
        self.pinged = clock::now();
        for (life, socket) in &self.welcome {
            send(socket, &packet(*life, Body::Ping), &[]);
        }
    }
}

fn packet(incarnation: Incarnation, body: Body) -> Vec<u8> {
    encode(&Packet { stream: Stream::Control, incarnation, body }).unwrap().head
}

/// Says hello under ever new names and keeps what it gets. Then it gives one place back.
#[test]
fn child_crowd() {
    let Some(address) = child_address() else { return };
    let endpoint = address.reachable_endpoint(LONG).unwrap();
    let (ctx, welcome) = (context(), Vec::new());
    let mut crowd = Crowd { ctx, endpoint, welcome, pinged: clock::now() };
    for life in 1..=N_HELLOS {
        assert_eq!(crowd.hello(life), life <= N_WELCOME);
        crowd.ping();
    }
    let (life, first) = crowd.welcome.remove(0);
    send(&first, &packet(life, Body::Bye { reason: "that is enough".into() }), &[]);
    loop {
        crowd.ping();
        thread::sleep(PING);
    }
}

#[test]
fn a_client_that_acknowledges_what_it_never_took_delays_others_little() {
    let server = quick_beside("rogues::child_acknowledger", |_| ());
    runs_a_chain(&*server.client(), 2.0);
    server.end();
}

#[test]
fn a_monitor_that_asks_without_end_and_never_reads_delays_others_little() {
    let server = quick_beside("rogues::child_silent_monitor", |_| ());
    runs_a_chain(&*server.client(), 2.0);
    server.end();
}

#[test]
fn a_thousand_hellos_of_one_process_leave_places_for_workers_and_other_processes() {
    let server = server();
    let _crowd = Process::start("rogues::child_crowd", &server.address);
    let line = server.says("that is enough");
    assert!(line.contains("session s1 of"), "{line}");
    let _worker = server.worker();
    runs_a_chain(&*server.client(), 1.0);
    server.end();
}
