//! Peers that speak another version of the protocol or none. They harm nobody, and get the reason.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;

use gt_ir::testing::Source;
use gt_runtime::client::connect;
use gt_runtime::log::Log;
use gt_runtime::wire::PROTOCOL;
use gt_runtime::worker::{Worker, WorkerConfig};
use gt_runtime::zmq::{Address, Socket};

use super::running::{dealer, receive, send, server};
use super::runs_a_chain;
use crate::programs::Moody;

#[test]
fn random_bytes_harm_nobody() {
    let server = server();
    let _worker = server.worker();
    let session = server.client();
    let ctx = gt_runtime::zmq::context();
    let noise = dealer(&ctx, &server.address.tcp_endpoint(), 0);
    let mut source = Source::from_seed(1);
    let mut random = |n: usize| -> Vec<u8> { (0..n).map(|_| source.bits() as u8).collect() };
    for n in 0..200 {
        let mut bytes = random(n);
        if n % 2 == 0 {
            // Bytes that pass the header, so that the decoder sees them.
            bytes.splice(0..0, *b"GT\x03\x00");
        }
        let rest: &[&[u8]] = &[&[1, 2, 3], &[], &[4; 30]];
        send(&noise, &bytes, &rest[..n % 3]);
        let mut raw = TcpStream::connect(("127.0.0.1", server.address.port)).unwrap();
        raw.write_all(&random(n)).unwrap();
    }
    server.says("dropped");
    runs_a_chain(&*session, 1.0);
    server.end();
}

#[test]
fn another_version_is_told_so_on_either_side() {
    let server = server();
    let ctx = gt_runtime::zmq::context();
    let old = dealer(&ctx, &server.address.tcp_endpoint(), 0);
    send(&old, b"GT\x63\x00whatever that version says", &[]);
    assert_eq!(receive(&old).frames[0][..4], [b'G', b'T', PROTOCOL as u8, 0]);
    server.says("version 99");
    server.end();

    let (address, stranger) = server_of_another_version(&ctx);
    let error = connect(&address.to_string()).err().unwrap();
    let ours = format!("version {PROTOCOL}");
    assert!(error.message.contains("version 99") && error.message.contains(&ours), "{error}");
    stranger.join().unwrap();
}

#[test]
fn a_worker_of_another_version_ends_with_the_reason() {
    let ctx = gt_runtime::zmq::context();
    let (address, stranger) = server_of_another_version(&ctx);
    let config = WorkerConfig { log: Log::off(), ..WorkerConfig::new(address) };
    let error = Worker::new(config).unwrap().serve(Moody::boxed(), |_| ()).unwrap_err();
    let said = error.to_string();
    let ours = format!("version {PROTOCOL}");
    assert!(said.contains("version 99") && said.contains(&ours), "{said}");
    stranger.join().unwrap();
}

/// A server that answers the first packet in version 99. Its socket is open until the join.
fn server_of_another_version(ctx: &zmq::Context) -> (Address, thread::JoinHandle<Socket>) {
    let (router, address) = Socket::listen(ctx, &Address::local(0)).unwrap();
    let answer = move || {
        let incoming = receive(&router);
        router.send(&incoming.from, b"GT\x63\x00hello".to_vec(), &[]).unwrap();
        router
    };
    (address, thread::spawn(answer))
}
