//! Two links over a transport that drops, repeats and reorders. Messages arrive once, in order and
//! within the credits.

use super::*;
use crate::sim::Random;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item(u64, u64);

impl Weight for Item {
    fn weight(&self) -> u64 {
        self.1
    }
}

struct Faults {
    drop: u64,
    twice: u64,
    delay: u64,
}

fn lossy(window: u64) -> LinkConfig {
    LinkConfig { transport: Transport::Lossy(Timing::default()), window }
}

/// Sends `n` items both ways through a bad network until both sides have them, or time is up.
fn run(seed: u64, n: u64, window: u64, faults: &Faults) {
    let mut random = Random::new(seed);
    let mut ends = [Link::<Item>::new(lossy(window)), Link::new(lossy(window))];
    let mut got: [Vec<Item>; 2] = [Vec::new(), Vec::new()];
    let (mut sent, mut acked, mut flight) = ([0; 2], [0; 2], BTreeMap::new());
    let (mut now, mut n_packets) = (Time::ZERO, 0u64);
    while (0..2).any(|side| got[side].len() < n as usize || acked[side] < n as usize) {
        for side in 0..2 {
            while sent[side] < n && ends[side].queued() < 1 << 12 && random.below(3) > 0 {
                ends[side].send(now, Item(sent[side], 1 + random.below(2000)));
                sent[side] += 1;
            }
            let held = ends[side].held();
            if held > 0 && random.below(2) == 0 {
                ends[side].release(1 + random.below(held));
            }
            ends[side].transmit(now, &mut |body| {
                n_packets += 1;
                let copies = if random.below(100) < faults.drop {
                    0
                } else {
                    1 + u64::from(random.below(100) < faults.twice)
                };
                for copy in 0..copies {
                    let arrival = now + Duration::from_micros(100 + random.below(faults.delay));
                    flight.insert((arrival, n_packets, copy), (1 - side, body.clone()));
                }
            });
            acked[side] += ends[side].take_acked();
            assert!(
                ends[side].held() <= window.max(FIRST_CREDIT) + 2000,
                "seed {seed}: the window was overrun"
            );
        }
        let arrival = flight.first_key_value().map(|(&(at, ..), _)| at);
        let timer = ends.iter().filter_map(Link::next_deadline).min();
        let next = arrival.into_iter().chain(timer).min().unwrap_or(now + Duration::from_millis(1));
        now = now.max(next.min(now + Duration::from_millis(5)));
        assert!(
            now < Duration::from_secs(3600),
            "seed {seed}: no end, {} and {} of {n}",
            got[0].len(),
            got[1].len()
        );
        while let Some(entry) = flight.first_entry().filter(|entry| entry.key().0 <= now) {
            let (side, body) = entry.remove();
            let got = &mut got[side];
            match body {
                Body::Data { seq, ack, message } => {
                    ends[side].acknowledged(now, ack);
                    ends[side].receive(now, seq, message, &mut |item| got.push(item));
                }
                Body::Ack { upto, seen, credit } => ends[side].credited(now, upto, seen, credit),
                _ => ends[side].pinged(now),
            }
        }
    }
    for side in 0..2 {
        let order: Vec<u64> = got[side].iter().map(|item| item.0).collect();
        assert_eq!(order, (0..n).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!((ends[side].queued(), ends[side].n_queued()), (0, 0), "seed {seed}");
    }
}

#[test]
fn everything_arrives_once_and_in_order() {
    for seed in 0..60 {
        run(seed, 60, 1 << 14, &Faults { drop: 10, twice: 10, delay: 30_000 });
        run(seed, 40, 1, &Faults { drop: 30, twice: 30, delay: 500_000 });
        run(seed, 60, 1 << 20, &Faults { drop: 0, twice: 0, delay: 50 });
    }
}

/// A broken connection lost hundreds of consecutive messages. The gap is filled without waiting for
/// timers.
#[test]
fn a_hole_is_filled_when_it_is_seen() {
    let (mut a, mut b) = (Link::<Item>::new(lossy(1 << 20)), Link::<Item>::new(lossy(1 << 20)));
    let mut first_ack = Vec::new();
    b.transmit(Time::ZERO, &mut |body| first_ack.push(body));
    let Some(Body::Ack { upto, seen, credit }) = first_ack.pop() else {
        panic!("the window is announced at once")
    };
    a.credited(Time::ZERO, upto, seen, credit);
    (0..1000).for_each(|i| a.send(Time::ZERO, Item(i, 64)));
    let mut packets = Vec::new();
    a.transmit(Time::ZERO, &mut |body| packets.push(body));
    let (mut now, mut got) = (Duration::from_millis(60), Vec::new());
    packets.retain(|body| !matches!(body, Body::Data { seq: 299..=999, .. }));
    a.send(now, Item(1000, 64));
    a.transmit(now, &mut |body| packets.push(body));
    for _ in 0..4 {
        for body in packets.drain(..) {
            if let Body::Data { seq, message, .. } = body {
                b.receive(now, seq, message, &mut |item| got.push(item.0));
            }
        }
        b.transmit(now, &mut |body| {
            if let Body::Ack { upto, seen, credit } = body {
                a.credited(now, upto, seen, credit);
            }
        });
        a.transmit(now, &mut |body| packets.push(body));
        now += Duration::from_millis(1);
    }
    assert_eq!(got, (0..=1000).collect::<Vec<_>>());
}

/// The only packet with more credit is lost, and the other side has nothing to send.
#[test]
fn lost_credit_is_asked_for() {
    let (mut a, mut b) = (Link::<Item>::new(lossy(1 << 14)), Link::<Item>::new(lossy(1 << 14)));
    (0..2).for_each(|i| a.send(Time::ZERO, Item(i, FIRST_CREDIT)));
    b.transmit(Time::ZERO, &mut drop);
    a.transmit(Time::ZERO, &mut |body| {
        if let Body::Data { seq, message, .. } = body {
            b.receive(Time::ZERO, seq, message, &mut drop);
        }
    });
    a.acknowledged(Time::ZERO, 1);
    a.transmit(Time::ZERO, &mut |body| panic!("sent beyond its credit: {body:?}"));
    b.release(FIRST_CREDIT);
    b.transmit(Time::ZERO, &mut drop);
    let mut now = Time::ZERO;
    let mut n_rounds = 0;
    while b.n_received() < 2 {
        now = a.next_deadline().into_iter().chain(b.next_deadline()).min().unwrap_or(now).max(now);
        n_rounds += 1;
        assert!(now < Duration::from_secs(5) && n_rounds < 9, "it waits for ever");
        let (mut there, mut back) = (Vec::new(), Vec::new());
        a.transmit(now, &mut |body| there.push(body));
        for body in there {
            match body {
                Body::Data { seq, message, .. } => b.receive(now, seq, message, &mut drop),
                _ => b.pinged(now),
            }
        }
        b.transmit(now, &mut |body| back.push(body));
        for body in back {
            if let Body::Ack { upto, seen, credit } = body {
                a.credited(now, upto, seen, credit);
            }
        }
    }
}

#[test]
fn nonsense_changes_nothing() {
    let mut link = Link::<Item>::new(lossy(1 << 14));
    link.send(Time::ZERO, Item(0, 64));
    link.acknowledged(Time::ZERO, 7);
    link.credited(Time::ZERO, u64::MAX, u64::MAX, 0);
    link.receive(Time::ZERO, u64::MAX, Item(9, 64), &mut |_| panic!("delivered"));
    link.release(1 << 40);
    assert_eq!((link.n_queued(), link.n_received(), link.held()), (1, 0, 0));
    // Messages above the credit are not taken, so that the held weight stays bounded.
    let mut taken = 0;
    (0..1000)
        .for_each(|seq| link.receive(Time::ZERO, seq, Item(seq, 1 << 10), &mut |_| taken += 1));
    assert_eq!(taken, 4);
}

#[test]
fn a_question_is_answered_with_the_credit_also_when_data_goes() {
    let mut link = Link::<Item>::new(lossy(1 << 14));
    link.send(Time::ZERO, Item(0, 64));
    link.pinged(Time::ZERO);
    let mut packets = Vec::new();
    link.transmit(Time::ZERO, &mut |body| packets.push(body));
    assert!(
        matches!(packets[..], [Body::Data { .. }, Body::Ack { credit, .. }] if credit == 1 << 14),
        "{packets:?}"
    );
}

#[test]
fn a_reliable_link_keeps_nothing_and_needs_no_timer() {
    let config = LinkConfig { transport: Transport::Reliable, window: 1 << 20 };
    let (mut a, mut b) = (Link::<Item>::new(config), Link::<Item>::new(config));
    let mut got = 0;
    for round in 0..100 {
        a.send(Time::ZERO, Item(round, 30 << 10));
        let mut packets = Vec::new();
        a.transmit(Time::ZERO, &mut |body| packets.push(body));
        for body in packets {
            if let Body::Data { seq, message, .. } = body {
                b.receive(Time::ZERO, seq, message, &mut |item| {
                    assert_eq!(item.0, got);
                    got += 1;
                });
                b.release(30 << 10);
            }
        }
        b.transmit(Time::ZERO, &mut |body| {
            if let Body::Ack { upto, seen, credit } = body {
                a.credited(Time::ZERO, upto, seen, credit);
            }
        });
        assert_eq!((a.next_deadline(), b.next_deadline()), (None, None));
    }
    assert_eq!((got, a.take_acked()), (100, 100));
}
