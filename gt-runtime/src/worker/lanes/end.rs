//! The thread of one lane, and the handle by which the worker's own thread uses it.
//!
//! The thread connects with the other end, exchanges proofs, and then sends or receives what it is
//! told, as much as possible at once and in order. It ends with the first failure, which it tells.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use gt_compiler::torch::lane::{End, Lane, Receiving, Sending};

use super::failure::Failure;
use super::meet::Meet;
use crate::slot::Slot;
use crate::wire::codec::decode;
use crate::wire::{Body, Meeting, Packet};
use crate::worker::queue::Fifo;
use crate::worker::siblings::SILENCE;
use crate::zmq::Waker;

/// What a lane is to be.
pub(super) struct Plan {
    /// Its number among the lanes of the worker.
    pub(super) n: u64,
    pub(super) end: End,
    /// An address of this machine.
    pub(super) host: String,
    /// The key of the door at which the road ends.
    pub(super) key: [u8; 16],
    /// How the other end is reached, if it has said so.
    pub(super) theirs: Option<Meeting>,
}

/// What a lane is told.
pub(super) enum Order {
    /// Send the chunk of the packet of this number.
    Send { seq: u64, tag: u32, bytes: Bytes },
    /// Receive the chunk of a packet.
    Receive { tag: u32, len: u32, head: Vec<u8> },
    /// Pass on a packet, with a chunk of so many bytes, behind those that wait.
    Pass(Box<Packet>, u64),
}

/// What a lane tells.
pub(super) enum News {
    /// The other end needs this.
    Meet(Meeting),
    /// Both ends know who is at the other one.
    Open,
    /// A packet is complete. Its chunk has so many bytes.
    Arrived(Packet, u64),
    /// It is over. The last news.
    Failed(String),
}

/// What both threads see.
struct Shared {
    lane: OnceLock<Lane>,
    orders: Fifo<Order>,
    /// The numbers of the packets whose chunks have not left.
    underway: Mutex<BTreeSet<u64>>,
}

/// The worker's side of a lane. The lane ends with it.
pub(super) struct Handle {
    pub(super) n: u64,
    shared: Arc<Shared>,
    theirs: Option<Sender<Meeting>>,
    gone: Slot<()>,
}

impl Handle {
    /// Starts the thread of a lane. Its news carry its number.
    pub(super) fn start(
        plan: Plan,
        news: Arc<Fifo<(u64, News)>>,
        waker: Waker,
    ) -> io::Result<Handle> {
        let orders = Fifo::new();
        let (lane, underway) = (OnceLock::new(), Mutex::default());
        let shared = Arc::new(Shared { lane, orders, underway });
        let (sender, theirs) = channel();
        let (n, gone) = (plan.n, Slot::new());
        let last = Last(gone.clone());
        let voice = Voice { n, news, waker, why: None, shared: shared.clone(), _last: last };
        let work = move || voice.speak(|voice| run(&plan, theirs, voice));
        thread::Builder::new().name("gt-lane".into()).spawn(work)?;
        Ok(Handle { n, shared, theirs: Some(sender), gone })
    }

    /// How the other end is reached.
    pub(super) fn meet(&self, theirs: Meeting) {
        if let Some(sender) = &self.theirs {
            // A thread that has ended needs nothing.
            let _ = sender.send(theirs);
        }
    }

    pub(super) fn order(&self, order: Order) {
        if let Order::Send { seq, .. } = order {
            lock(&self.shared.underway).insert(seq);
        }
        self.shared.orders.push(order);
    }

    /// Whether the chunk of a packet has not left.
    pub(super) fn is_underway(&self, seq: u64) -> bool {
        lock(&self.shared.underway).contains(&seq)
    }

    /// Ends the lane, without waiting for its thread.
    pub(super) fn end(&mut self) {
        self.theirs = None;
        self.shared.orders.close();
        if let Some(lane) = self.shared.lane.get() {
            lane.abort();
        }
    }

    /// Waits for the end of its thread, for a limited time.
    pub(super) fn join(&self, limit: Duration) {
        // It ends with the process if it takes longer.
        let _ = self.gone.wait_for(limit);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

/// How the thread speaks. Its last word is that the lane is over, whatever has ended the thread.
struct Voice {
    n: u64,
    news: Arc<Fifo<(u64, News)>>,
    waker: Waker,
    why: Option<Failure>,
    shared: Arc<Shared>,
    /// Dropped after all else.
    _last: Last,
}

/// Tells that the thread holds nothing more.
struct Last(Slot<()>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.put(());
    }
}

impl Voice {
    fn tell(&self, news: News) {
        self.news.push((self.n, news));
        self.waker.wake();
    }

    fn speak(mut self, run: impl FnOnce(&Voice) -> Result<(), Failure>) {
        self.why = run(&self).err();
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        let why = self.why.take().map_or_else(|| "it was closed".into(), |why| why.to_string());
        self.tell(News::Failed(why));
    }
}

/// The life of a lane.
fn run(plan: &Plan, theirs: Receiver<Meeting>, voice: &Voice) -> Result<(), Failure> {
    let say = |meeting| voice.tell(News::Meet(meeting));
    let mut store = Meet::new(&say, plan.theirs.clone(), theirs);
    let opened = Lane::open(&plan.host, plan.end, SILENCE, &mut store)?;
    let lane = voice.shared.lane.get_or_init(|| opened);
    if voice.shared.orders.is_closed() {
        return Ok(()); // Nobody could abort it before.
    }
    store.prove(lane, plan.end, &plan.key)?;
    voice.tell(News::Open);
    match plan.end {
        End::First => send(lane, voice),
        End::Second => receive(lane, voice),
    }
}

/// Sends all there is, and waits for the first of it.
fn send(lane: &Lane, voice: &Voice) -> Result<(), Failure> {
    let mut underway: VecDeque<(u64, Sending<'_>)> = VecDeque::new();
    loop {
        while let Some(order) = next(&voice.shared.orders, underway.is_empty()) {
            if let Order::Send { seq, tag, bytes } = order {
                underway.push_back((seq, lane.send(bytes, tag)?));
            }
        }
        let Some((seq, sending)) = underway.pop_front() else { return Ok(()) };
        sending.wait(SILENCE)?;
        lock(&voice.shared.underway).remove(&seq);
    }
}

/// A packet at the receiving end.
enum Awaited<'a> {
    Coming(Vec<u8>, Receiving<'a>, u64),
    Here(Packet, u64),
}

/// Receives all that is announced, and waits for the first of it.
fn receive(lane: &Lane, voice: &Voice) -> Result<(), Failure> {
    let mut awaited: VecDeque<Awaited<'_>> = VecDeque::new();
    loop {
        while let Some(order) = next(&voice.shared.orders, awaited.is_empty()) {
            match order {
                Order::Receive { tag, len, head } => {
                    let receiving = lane.receive(len as usize, tag)?;
                    awaited.push_back(Awaited::Coming(head, receiving, u64::from(len)));
                }
                Order::Pass(packet, bytes) => awaited.push_back(Awaited::Here(*packet, bytes)),
                Order::Send { .. } => {}
            }
        }
        let Some(first) = awaited.pop_front() else { return Ok(()) };
        let (packet, bytes) = match first {
            Awaited::Here(packet, bytes) => (packet, bytes),
            Awaited::Coming(head, receiving, len) => {
                (complete(&head, receiving.wait(SILENCE)?)?, len)
            }
        };
        voice.tell(News::Arrived(packet, bytes));
    }
}

/// A packet with the chunk that came over the lane.
fn complete(head: &[u8], chunk: Vec<u8>) -> Result<Packet, Failure> {
    let packet = decode(head, Some(chunk.into()))?;
    if matches!(packet.body, Body::Data { .. }) { Ok(packet) } else { Err(Failure::Empty) }
}

/// The next order, for which an idle thread waits.
fn next(orders: &Fifo<Order>, is_idle: bool) -> Option<Order> {
    if is_idle { orders.pop() } else { orders.try_pop() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Code under the locks cannot panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
