//! Peers that speak another version of the protocol or none. They harm nobody, and get the reason.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use gt_ir::testing::Source;
use gt_runtime::client::connect;
use gt_runtime::wire::PROTOCOL;
use gt_runtime::zmq::{Address, Sent, Socket};

use super::running::server;
use super::runs_a_chain;

fn dealer(ctx: &zmq::Context, address: &Address) -> Socket {
    Socket::connect(ctx, &address.tcp_endpoint(), b"cnobody-at-all-xx").unwrap()
}

fn send(socket: &Socket, head: &[u8], payload: Option<&[u8]>) {
    while socket.send(&[], head.to_vec(), payload).unwrap() != Sent::Queued {
        thread::sleep(Duration::from_millis(10));
    }
}

fn receive(socket: &Socket) -> Vec<Bytes> {
    for _ in 0..500 {
        if let Some(incoming) = socket.receive().unwrap() {
            return incoming.frames;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("no answer");
}

#[test]
fn random_bytes_harm_nobody() {
    let server = server();
    let _worker = server.worker();
    let session = server.client();
    let ctx = gt_runtime::zmq::context();
    let noise = dealer(&ctx, &server.address);
    let mut source = Source::from_seed(1);
    let mut random = |n: usize| -> Vec<u8> { (0..n).map(|_| source.bits() as u8).collect() };
    for n in 0..200 {
        let mut bytes = random(n);
        if n % 2 == 0 {
            // Bytes that pass the header, so that the decoder sees them.
            bytes.splice(0..0, *b"GT\x03\x00");
        }
        send(&noise, &bytes, (n % 3 == 0).then_some(&[1, 2, 3]));
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
    let old = dealer(&ctx, &server.address);
    send(&old, b"GT\x63\x00whatever that version says", None);
    assert_eq!(receive(&old)[0][..4], [b'G', b'T', PROTOCOL as u8, 0]);
    server.says("version 99");
    server.end();

    let exposure = gt_runtime::zmq::Exposure::Loopback;
    let (router, address) = Socket::listen(&ctx, &Address::local(0), exposure).unwrap();
    let router = Arc::new(Mutex::new(router));
    let stranger = {
        let router = Arc::clone(&router);
        thread::spawn(move || {
            let router = router.lock().unwrap();
            loop {
                if let Some(incoming) = router.receive().unwrap() {
                    router.send(&incoming.from, b"GT\x63\x00hello".to_vec(), None).unwrap();
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let error = connect(&address.to_string()).err().unwrap();
    let ours = format!("version {PROTOCOL}");
    assert!(error.message.contains("version 99") && error.message.contains(&ours), "{error}");
    stranger.join().unwrap();
}
