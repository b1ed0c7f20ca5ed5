//! A host and its guests, without sockets.

use std::time::Duration;

use super::*;
use crate::clock::Time;
use crate::wire::codec::Frames;
use crate::wire::{PROTOCOL, Stream};

const START: Time = Duration::from_secs(100);

fn frames(head: &[u8]) -> Frames {
    Frames { head: head.to_vec(), payload: None }
}

/// The head of a message of this version.
fn head(magic: &[u8], rest: &[u8]) -> Vec<u8> {
    [magic, &(PROTOCOL as u16).to_le_bytes(), rest].concat()
}

fn host(pair: &Pair, members: Vec<Member>) -> Host {
    Host::new(Lock::Keys(pair.clone(), Authorized::new(pair.public(), members)))
}

fn guest(name: Name, pair: &Pair, servers: &[PublicKey]) -> Guest {
    Guest::new("pi:1".into(), &name, Trust::Keys(pair.clone(), servers.to_vec()))
}

/// Carries messages between the two until neither has one to send. `lose` drops messages.
fn meet(host: &mut Host, guest: &mut Guest, name: Name, mut lose: impl FnMut() -> bool) {
    let mut now = START;
    for _ in 0..100 {
        if let Some(message) = guest.due(now) {
            guest.sent(now, true);
            if !lose()
                && let Heard::Answer(answer) | Heard::Denied(answer, _) =
                    host.receive(now, Stream::Control, name, frames(&message))
                && !lose()
            {
                assert_eq!(guest.receive(Stream::Control, frames(&answer)), None);
            }
        }
        now += Duration::from_millis(100);
    }
}

/// Whether packets go both ways.
fn talk(host: &mut Host, guest: &mut Guest, name: Name) -> Option<Pass> {
    let content = frames(b"content");
    let sealed = guest.seal(Stream::Bulk, &content)?;
    let Heard::Packet(pass, opened) = host.receive(START, Stream::Bulk, name, sealed) else {
        return None;
    };
    assert_eq!(opened, content);
    let sealed = host.seal(Stream::Control, &name, &content).unwrap();
    assert_eq!(guest.receive(Stream::Control, sealed), Some(content));
    Some(pass)
}

#[test]
fn a_user_needs_nothing_but_the_own_key_even_if_messages_are_lost() {
    let pair = Pair::new();
    for seed in 0..30_u32 {
        let (mut host, mut guest) = (host(&pair, Vec::new()), guest([1; 16], &pair, &[]));
        let mut n = seed;
        meet(&mut host, &mut guest, [1; 16], || {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            n >> 30 == 0
        });
        assert_eq!(talk(&mut host, &mut guest, [1; 16]), Some(Pass::OWNER), "{seed}");
        assert_eq!(host.counts(), (1, 0));
    }
}

#[test]
fn a_member_has_the_roles_of_its_key_and_a_stranger_is_told_so() {
    let (own, ann, bob) = (Pair::new(), Pair::new(), Pair::new());
    let member = Member { roles: Roles::CLIENT, key: ann.public(), name: "ann".into() };
    let mut host = host(&own, vec![member]);
    let mut known = guest([1; 16], &ann, &[own.public()]);
    meet(&mut host, &mut known, [1; 16], || false);
    assert_eq!(talk(&mut host, &mut known, [1; 16]).unwrap().roles, Roles::CLIENT);
    let mut stranger = guest([2; 16], &bob, &[own.public()]);
    meet(&mut host, &mut stranger, [2; 16], || false);
    assert_eq!(stranger.error(), Some(&DoorError::Denied("pi:1".into(), bob.public())));
    assert!(stranger.seal(Stream::Control, &frames(b"x")).is_none());
    // A revoked key loses its room.
    let gone = host.replace(Authorized::new(own.public(), Vec::new()));
    assert_eq!(gone, [[1; 16]]);
    host.close(&[1; 16]);
    let sealed = known.seal(Stream::Control, &frames(b"x")).unwrap();
    let Heard::Answer(unknown) = host.receive(START, Stream::Control, [1; 16], sealed) else {
        panic!("a revoked key was heard");
    };
    assert_eq!(known.receive(Stream::Control, frames(&unknown)), None);
    assert!(known.take_disowned() && !known.take_disowned());
}

#[test]
fn a_server_with_an_unknown_key_learns_nothing() {
    let (server, ann) = (Pair::new(), Pair::new());
    let member = Member { roles: Roles::ALL, key: ann.public(), name: String::new() };
    let (mut host, mut guest) = (host(&server, vec![member]), guest([1; 16], &ann, &[]));
    meet(&mut host, &mut guest, [1; 16], || false);
    let expected = DoorError::UnknownServer("pi:1".into(), server.public());
    assert_eq!(guest.error(), Some(&expected));
    assert_eq!(host.counts().0, 0, "the key was shown");
}

#[test]
fn two_workers_share_a_secret_and_nobody_else_enters() {
    let secret = random();
    let mut host = Host::new(Lock::Secret(secret));
    let mut guest = Guest::new("pi:1".into(), &[1; 16], Trust::Secret(secret));
    meet(&mut host, &mut guest, [1; 16], || false);
    assert!(talk(&mut host, &mut guest, [1; 16]).is_some());
    for trust in [Trust::Secret(random()), Trust::Keys(Pair::new(), Vec::new())] {
        let mut stranger = Guest::new("pi:1".into(), &[2; 16], trust);
        meet(&mut host, &mut stranger, [2; 16], || false);
        assert!(!stranger.is_open());
    }
    assert_eq!(host.counts(), (1, 0));
}

#[test]
fn a_handshake_belongs_to_the_connection_of_its_name() {
    let pair = Pair::new();
    let (mut host, mut guest) = (host(&pair, Vec::new()), guest([1; 16], &pair, &[]));
    meet(&mut host, &mut guest, [2; 16], || false);
    assert!(!guest.is_open());
    assert_eq!(host.counts().0, 0);
}

#[test]
fn what_strangers_leave_unfinished_is_bounded_and_so_are_answers() {
    let (own, ann) = (Pair::new(), Pair::new());
    let mut host = host(&own, Vec::new());
    let name = |n: u32| {
        let mut name = [0; 16];
        name[..4].copy_from_slice(&n.to_le_bytes());
        name
    };
    let mut n_answers = 0;
    for n in 0..700 {
        let first = guest(name(n), &ann, &[]).due(START).unwrap();
        let heard = host.receive(START, Stream::Control, name(n), frames(&first));
        n_answers += usize::from(matches!(heard, Heard::Answer(_)));
    }
    assert_eq!(n_answers, 500);
    assert_eq!(host.counts(), (0, 500));
    // Five seconds later they are forgotten.
    let later = START + Duration::from_secs(5);
    host.receive(later, Stream::Control, name(0), frames(b"GS"));
    assert_eq!(host.counts(), (0, 0));
    let large = frames(&head(b"GS", &[[1].as_slice(), &[0; 1000]].concat()));
    assert!(matches!(host.receive(later, Stream::Control, name(1), large), Heard::Nothing));
}

#[test]
fn nobody_can_end_a_room_from_outside() {
    let pair = Pair::new();
    let (mut host, mut known) = (host(&pair, Vec::new()), guest([1; 16], &pair, &[]));
    meet(&mut host, &mut known, [1; 16], || false);
    let other = guest([1; 16], &Pair::new(), &[]).due(START).unwrap();
    let third = head(b"GS", b"\x03third");
    let sealed = head(b"GS", b"\x05sealed...............");
    for message in [other, third, sealed] {
        let heard = host.receive(START, Stream::Control, [1; 16], frames(&message));
        assert!(matches!(heard, Heard::Nothing), "{heard:?}");
    }
    let verdict = head(b"GS", b"\x04verdict");
    for message in [verdict, head(b"GS", b"\x06"), head(b"GT", b"plain")] {
        assert_eq!(known.receive(Stream::Control, frames(&message)), None);
    }
    assert!(talk(&mut host, &mut known, [1; 16]).is_some());
}

#[test]
fn files_of_keys_are_private_and_say_what_is_wrong() {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::temp_dir().join(format!("gt-keys-{}", std::process::id()));
    let folder = KeyFolder::at(path.join("gt"));
    let own = folder.own().unwrap();
    assert_eq!(folder.own().unwrap().public(), own.public());
    let mode = |name: &str| {
        std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("key")), (0o700, 0o600));
    let key = Pair::new().public();
    assert_eq!(folder.members().unwrap(), []);
    for roles in [Roles::CLIENT, Roles::WORKER] {
        folder.add(Member { roles, key, name: "ann".into() }).unwrap();
    }
    assert_eq!(folder.authorized().unwrap().pass(&key).unwrap().roles, Roles::WORKER);
    assert_eq!(folder.revoke(|member| member.name == "bob").unwrap().len(), 0);
    assert_eq!(folder.revoke(|member| member.name == "ann").unwrap().len(), 1);
    assert_eq!(folder.members().unwrap(), []);
    for key in [key, own.public()] {
        folder.trust("pi:1", key).unwrap();
    }
    assert_eq!(folder.servers_at("pi:1").unwrap(), [own.public()]);
    assert_eq!(folder.servers_at("pi:2").unwrap(), []);
    let file = folder.path().join("key");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = folder.own().err().unwrap().to_string();
    assert!(said.contains("is open to other users") && said.contains("chmod 600"), "{said}");
    std::fs::remove_dir_all(&path).unwrap();
}
