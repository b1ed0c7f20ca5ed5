//! Peers that flood, die without a word or stop for a while. The server lives, and so do the
//! sessions of all others.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use gt_ir::backend::Backend;
use gt_runtime::client::connect;
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::zmq::Address;

use super::running::{Process, child_address, child_dealer, child_session, server, step, worker};
use super::runs_a_chain;
use crate::programs::{add_scalar, free, give, tape, tensor};

/// How long a process is stopped: half a lease.
const STOPPED: Duration = Duration::from_secs(15);

#[test]
fn child_server() {
    let Some(address) = child_address() else { return };
    let config = ServerConfig { log: Log::off(), ..ServerConfig::local(address.port) };
    Server::bind(config).unwrap().run(|_| ()).unwrap();
}

/// Sends as fast as it can, and reads nothing.
#[test]
fn child_flood() {
    let Some(socket) = child_dealer() else { return };
    loop {
        socket.send(&[], vec![7; 64], &[]).unwrap();
    }
}

/// Records without reading.
#[test]
fn child_recorder() {
    let Some(session) = child_session() else { return };
    give(&*session, 0, tensor(vec![1.0; 4]));
    for i in 0.. {
        session.submit(tape(vec![add_scalar(i + 1, i, 1.0), free(i)]));
    }
}

/// Works for some seconds.
#[test]
fn child_stepper() {
    let Some(session) = child_session() else { return };
    steps(&*session, 60);
}

fn steps(session: &dyn Backend, n: u64) {
    give(session, 0, tensor(vec![0.0]));
    for i in 0..n {
        step(session, i);
        thread::sleep(Duration::from_millis(30));
    }
}

/// Starts processes of a kind and kills them at work, a few times. The server and the session of
/// another client live on.
fn kill_at_work(child: &str) {
    let server = server();
    let _worker = server.worker();
    let other = server.client();
    for _ in 0..3 {
        let mut doomed = [0, 1].map(|_| Process::start(&format!("harm::{child}"), &server.address));
        thread::sleep(Duration::from_millis(700));
        doomed.iter_mut().for_each(Process::kill);
    }
    // The unread rest of their messages is read and dropped.
    thread::sleep(Duration::from_secs(2));
    runs_a_chain(&*other, 1.0);
    runs_a_chain(&*server.client(), 2.0);
    server.end();
}

#[test]
fn a_flood_that_breaks_off_ends_nobody() {
    kill_at_work("child_flood");
}

#[test]
fn clients_killed_while_they_record_end_nobody() {
    kill_at_work("child_recorder");
}

fn stop_for_a_while(process: &Process) {
    process.signal("-STOP");
    thread::sleep(STOPPED);
    process.signal("-CONT");
}

#[test]
fn a_worker_that_stops_for_half_a_lease_is_kept() {
    let server = server();
    let worker = Process::start("child_worker", &server.address);
    server.says("joined");
    let session = server.client();
    let working = {
        let session = Arc::clone(&session);
        thread::spawn(move || steps(&*session, 40))
    };
    thread::sleep(Duration::from_millis(300));
    stop_for_a_while(&worker);
    working.join().unwrap();
    server.end();
}

#[test]
fn a_client_that_stops_for_half_a_lease_is_kept() {
    let server = server();
    let _worker = server.worker();
    let mut client = Process::start("harm::child_stepper", &server.address);
    server.says("opened");
    thread::sleep(Duration::from_millis(300));
    stop_for_a_while(&client);
    assert!(client.0.wait().unwrap().success());
    server.end();
}

#[test]
fn a_server_that_stops_for_half_a_lease_is_waited_for() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = Address::local(free);
    let server = Process::start("harm::child_server", &address);
    let session = (0..100).find_map(|_| connect(&address.to_string()).ok()).unwrap();
    let (say, _lines) = channel();
    let (shutdown, worker) = worker(&address, Log::off(), say);
    let working = {
        let session = Arc::clone(&session);
        thread::spawn(move || steps(&*session, 40))
    };
    thread::sleep(Duration::from_millis(500));
    stop_for_a_while(&server);
    working.join().unwrap();
    shutdown.shut_down("the test is over");
    worker.join().unwrap().unwrap();
}
