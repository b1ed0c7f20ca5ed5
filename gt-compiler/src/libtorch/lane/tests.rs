//! Two ends in one process, on threads of their own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::SystemTime,
};

use super::*;

const LIMIT: Duration = Duration::from_secs(5);

/// What both ends have said.
#[derive(Default)]
struct Board(Mutex<BTreeMap<String, Vec<u8>>>, Condvar);

/// One end's view of the board.
struct Seen {
    board: Arc<Board>,
    limit: Duration,
    last: Vec<u8>,
}

impl Store for Seen {
    fn set(&mut self, key: &str, value: &[u8]) -> bool {
        self.board.0.lock().unwrap().insert(key.to_owned(), value.to_vec());
        self.board.1.notify_all();
        true
    }

    fn get(&mut self, key: &str) -> Option<&[u8]> {
        let board = self.board.0.lock().unwrap();
        let waited = self.board.1.wait_timeout_while(board, self.limit, |b| !b.contains_key(key));
        self.last = waited.unwrap().0.get(key)?.clone();
        Some(&self.last)
    }
}

fn open(board: &Arc<Board>, end: End, limit: Duration) -> Result<Lane, LaneError> {
    let mut store = Seen { board: board.clone(), limit, last: Vec::new() };
    Lane::open("127.0.0.1", end, limit, &mut store)
}

fn open_at(board: &Arc<Board>, end: End) -> impl FnOnce() -> Lane {
    let board = board.clone();
    move || open(&board, end, LIMIT).unwrap()
}

fn pair() -> [Lane; 2] {
    let board = Arc::default();
    thread::scope(|scope| {
        let ends = [End::First, End::Second];
        let opened = ends.map(|end| scope.spawn(open_at(&board, end)));
        opened.map(|thread| thread.join().unwrap())
    })
}

/// Bytes that differ from end to end and from place to place.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i ^ (i >> 8)).wrapping_mul(31) + seed * 97) as u8).collect()
}

#[test]
fn bytes_of_many_sizes_arrive_both_ways_at_once() {
    let lanes = pair();
    let sizes = [0, 1, 2, 63, 4096, 65_537, 1 << 20, 5_000_001];
    thread::scope(|scope| {
        for (me, lane) in lanes.iter().enumerate() {
            scope.spawn(move || {
                // All at once, waited for in the other order.
                let mut all = Vec::new();
                for (tag, &len) in sizes.iter().enumerate() {
                    let receiving = lane.receive(len, tag as u32).unwrap();
                    let bytes = pattern(len, me + 2 * tag);
                    let sending = lane.send(bytes.into(), tag as u32).unwrap();
                    all.push((tag, len, sending, receiving));
                }
                for (tag, len, sending, receiving) in all.into_iter().rev() {
                    let got = receiving.wait(LIMIT).unwrap();
                    assert!(got == pattern(len, 1 - me + 2 * tag), "{len} bytes differ");
                    sending.wait(LIMIT).unwrap();
                }
            });
        }
    });
}

#[test]
fn an_end_that_is_gone_is_an_error_at_once() {
    let [here, there] = pair();
    let receiving = here.receive(100, 0).unwrap();
    let sending = here.send(vec![7; 5_000_000].into(), 1).unwrap();
    let began = SystemTime::now();
    drop(there);
    assert!(receiving.wait(LIMIT).is_err());
    assert!(sending.wait(LIMIT).is_err());
    assert!(began.elapsed().unwrap_or_default() < LIMIT);
    let later = here.send(vec![7; 10].into(), 2);
    assert!(later.and_then(|sending| sending.wait(LIMIT)).is_err());
}

#[test]
fn nobody_waits_longer_than_the_limit() {
    let [here, _there] = pair();
    let began = SystemTime::now();
    let limit = Duration::from_millis(100);
    assert!(here.receive(100, 0).unwrap().wait(limit).is_err());
    assert!(open(&Arc::default(), End::First, limit).is_err());
    assert!(began.elapsed().unwrap_or_default() < LIMIT);
}

#[test]
fn a_lane_that_is_given_up_ends_the_wait_of_another_thread() {
    let [here, _there] = pair();
    let began = SystemTime::now();
    thread::scope(|scope| {
        let waits = scope.spawn(|| here.receive(100, 0).unwrap().wait(4 * LIMIT));
        here.abort();
        assert_eq!(waits.join().unwrap().unwrap_err().to_string(), "the lane was given up");
    });
    assert!(began.elapsed().unwrap_or_default() < LIMIT);
    let again = here.receive(1, 1).and_then(|receiving| receiving.wait(LIMIT));
    assert!(again.is_err());
}

#[test]
fn an_address_that_is_not_of_this_machine_is_an_error() {
    let board: Arc<Board> = Arc::default();
    let mut store = Seen { board, limit: LIMIT, last: Vec::new() };
    for host in ["192.0.2.77", "no such name", "a\0b"] {
        assert!(Lane::open(host, End::First, LIMIT, &mut store).is_err(), "{host}");
    }
}
