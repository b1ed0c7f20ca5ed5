//! A door takes any bytes: no message of a stranger panics, gives a stranger a room, or ends the
//! room of a peer that has one. No message panics a guest or lets it send to a stranger.

use std::time::Duration;

use gt_runtime::doors::{Authorized, Guest, Heard, Host, Lock, Name, Pair, Trust};
use gt_runtime::wire::codec::Frames;
use gt_runtime::wire::{PROTOCOL, Stream};

const PEER: Name = [1; 16];
const HEADER: [u8; 4] = [b'G', b'S', PROTOCOL as u8, 0];

fn frames(head: Vec<u8>) -> Frames {
    Frames { head, payload: None }
}

/// A host with a room for `PEER`, and its guest.
fn friends(pair: &Pair) -> (Host, Guest) {
    let known = Authorized::new(pair.public(), Vec::new());
    let mut host = Host::new(Lock::Keys(pair.clone(), known));
    let mut guest = Guest::new("pi:1".into(), &PEER, Trust::Keys(pair.clone(), Vec::new()));
    while let Some(message) = guest.due(Duration::ZERO) {
        guest.sent(Duration::ZERO, true);
        let heard = host.receive(Duration::ZERO, Stream::Control, PEER, frames(message));
        let Heard::Answer(answer) = heard else { panic!("a friend was not answered") };
        guest.receive(Stream::Control, frames(answer));
    }
    (host, guest)
}

pub(crate) fn check(bytes: &[u8]) {
    let (own, other) = (Pair::new(), Pair::new());
    let (mut host, mut guest) = friends(&own);
    let mut waiting = Guest::new("pi:1".into(), &PEER, Trust::Keys(other, Vec::new()));
    // The first byte of each message is its length, the second its connection.
    let mut rest = bytes;
    while let [n, name, more @ ..] = rest {
        let (body, more) = more.split_at((*n as usize).min(more.len()));
        rest = more;
        let stream = if name & 1 == 0 { Stream::Control } else { Stream::Bulk };
        let head: Vec<u8> = HEADER.iter().chain(body).copied().collect();
        let heard = host.receive(Duration::ZERO, stream, [name >> 1; 16], frames(head.clone()));
        assert!(!matches!(heard, Heard::Packet(..)), "a stranger was heard");
        for guest in [&mut guest, &mut waiting] {
            assert_eq!(guest.receive(stream, frames(head.clone())), None, "a stranger was heard");
        }
    }
    let content = frames(vec![7]);
    assert!(waiting.seal(Stream::Control, &content).is_none(), "a stranger is trusted");
    let sealed = guest.seal(Stream::Control, &content).expect("its room is open");
    let heard = host.receive(Duration::ZERO, Stream::Control, PEER, sealed);
    assert!(matches!(heard, Heard::Packet(_, opened) if opened == content), "the room was ended");
}

/// The messages of a handshake, each as long as it says.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let first = Guest::new("pi:1".into(), &[2; 16], Trust::Secret([3; 32])).due(Duration::ZERO);
    let first = first.unwrap_or_default();
    let body = first.get(HEADER.len()..).unwrap_or_default();
    let message = |kind: u8, name: u8, content: &[u8]| {
        [&[content.len() as u8 + 1, name, kind], content].concat()
    };
    let all = (1..=6).flat_map(|kind| message(kind, 4, body.get(1..).unwrap_or_default()));
    vec![message(1, 4, body.get(1..).unwrap_or_default()), message(5, 2, &[0; 40]), all.collect()]
}
