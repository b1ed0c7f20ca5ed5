//! The hand-over of the line between threads.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{Line, Session};
use crate::assembly::Travel;
use crate::clock;
use crate::connection::{Connection, ConnectionConfig};
use crate::identity::Identity;
use crate::ids::Incarnation;
use crate::log::Log;
use crate::slot::Slot;
use crate::wire::{Hello, Role};
use crate::zmq::{Address, Entry, Exposure, Gate, Uplink, context, wake_pair};

/// A line to a server that never answers.
fn line(address: &Address) -> Line {
    let hello = Hello::new(Role::Client, Identity::default());
    let config = ConnectionConfig::remote();
    let connection = Connection::dial(clock::now(), Incarnation(1), hello, config);
    let session = Session::new(connection, String::new(), Travel::REMOTE, Log::off());
    let uplink = Uplink::open(&context(), address, Duration::from_secs(5), &Entry::Plain);
    Line::new(session, uplink.unwrap(), wake_pair().unwrap())
}

/// The line's own thread finds that it may rest, and before it leaves the sockets another thread
/// begins to wait, which cannot serve the line.
#[test]
fn a_thread_that_waits_while_the_sockets_are_left_is_served() {
    let (_gate, address) =
        Gate::listen(&context(), &Address::local(0), Exposure::Insecure).unwrap();
    let line = Arc::new(line(&address));
    let answer: Slot<u32> = Slot::new();
    let (say, said) = channel();
    let own = {
        let (line, answer) = (line.clone(), answer.clone());
        thread::spawn(move || {
            let waits = || {
                let (waiting, answer) = (line.clone(), answer.clone());
                thread::spawn(move || waiting.wait(|_| answer));
                thread::sleep(Duration::from_millis(100));
                true
            };
            line.kept(&waits);
            say.send(()).unwrap();
        })
    };
    let returned = said.recv_timeout(Duration::from_secs(5));
    answer.put(7);
    own.join().unwrap();
    assert!(returned.is_ok(), "the line's own thread rests, and the other one sleeps");
}
