//! The invariants between events, by number. Debug builds check them after every event, or less
//! often while so much waits that a check takes long.
//!
//! 1. Each peer is one session or one worker, which names this peer. There are no sessions or
//!    workers without a peer.
//! 2. A session's home is a registered worker that lists the session. The members of its gang list
//!    it, too. A worker lists no other sessions.
//! 3. Orders wait in a session without a home while there is no registered worker that it asks
//!    for, behind a segment that is more than its home may have or whose partition is being made,
//!    and behind a read that its client is too slow for.
//! 4. Requests among a session's waiting orders are open.
//! 5. For every queued message the owner of its credit is known.
//! 6. A client's outstanding credit is the weight of its waiting orders and of its messages queued
//!    for workers. A worker's outstanding credit is the weight of its data queued for other
//!    workers. No credit is lost or comes back twice.
//! 7. Only a session with a home has templates at home, and no more than the limit.
//! 8. A lost value is live or being uploaded. A broken session holds nothing. The count of live
//!    bytes is the sum over the live values.
//! 9. The first member of a gang is the session's home. A session without a home has no members.
//!    The name by which a worker knows a session leads to the session, and no other name does.
//! 10. Members are different workers, and have run no more segments than they were ordered.
//! 11. A gang knows the place of each live value that is not lost, and of no other value. The place
//!     names members that there are, and each member's part.
//! 12. Values travel between two different members. No two have a name in common.
//! 13. Without members a gang holds no place, no transfer, no segment and no credit.
//! 14. A segment that has not run is at the workers of its session, or waits. A worker has no more
//!     of a session than its share.
//! 15. Over sockets, what a client has sent and no worker has taken is within its windows and one
//!     message. What is queued for a client on the control stream is an answer, whose request is
//!     among what it has sent, or within the limit of news.

use super::Config;
use super::core::Dispatcher;
use super::gang::Gang;
use super::party::{Party, Peer};
use super::session::{Session, Work};
use super::workers::MAX_NEWS;
use crate::connection::ConnectionConfig;
use crate::ids::{PeerId, SessionId};
use crate::link::{FIRST_CREDIT, Transport};
use crate::wire::{MAX_HEAD, MAX_TEMPLATES, Message, Order, Stream, Weight as _};
use std::collections::BTreeMap;

/// The values of sessions with more live values are not counted after every event.
const COUNTED: usize = 256;
/// The waiting messages for which an event may be followed by a check.
#[cfg(debug_assertions)]
const MANY: usize = 256;
const STREAMS: [Stream; 2] = [Stream::Control, Stream::Bulk];

impl Dispatcher {
    /// Checks the invariants, unless so much waits that the checks would take longer than the
    /// events.
    #[cfg(debug_assertions)]
    pub(super) fn check_often(&mut self) {
        let waiting = self.sessions.values().map(|session| session.waiting.len());
        let owed = self.peers.values().flat_map(|peer| &peer.owed).map(|owed| owed.len());
        self.n_unchecked += 1;
        if self.n_unchecked * MANY >= waiting.chain(owed).sum() {
            self.n_unchecked = 0;
            self.check();
        }
    }

    /// Panics if an invariant does not hold, which is a bug in this module.
    pub fn check(&self) {
        let out = STREAMS.map(|stream| self.out(stream));
        for (id, peer) in &self.peers {
            let back = match peer.party {
                Party::Session(session) => self.sessions.get(&session).map(|session| session.peer),
                Party::Worker(worker) => self.workers.get(&worker).map(|worker| worker.peer),
            };
            assert_eq!(back, Some(*id), "1: {id} is {:?}, which is not it", peer.party);
            for stream in STREAMS {
                let n_queued = peer.connection.link(stream).n_queued();
                assert_eq!(peer.owed[stream as usize].len(), n_queued, "5: {id} {stream:?}");
                let held = peer.connection.link(stream).held();
                let out = out[stream as usize].get(&peer.party).copied().unwrap_or_default();
                assert_eq!(held, out, "6: credit of {:?} {stream:?}", peer.party);
            }
            if matches!(peer.party, Party::Session(_)) {
                self.check_kept(*id, peer);
            }
        }
        assert_eq!(
            self.peers.len(),
            self.sessions.len() + self.workers.len(),
            "1: somebody has no peer"
        );
        for (&id, session) in &self.sessions {
            self.check_session(id, session, &self.config);
        }
        for (id, worker) in &self.workers {
            for session in &worker.sessions {
                let lives = self.sessions.get(session).is_some_and(|s| s.lives_on(*id));
                assert!(lives, "2: {id} counts {session}");
            }
        }
        for (alias, id) in &self.seats {
            let gang = self.sessions.get(id).and_then(|session| session.gang.as_ref());
            let seated = gang.is_some_and(|gang| gang.seats.iter().any(|s| s.session == *alias));
            let session = self.sessions.get(id);
            let home = session.is_some_and(|s| s.home.is_some() && s.name == *alias);
            assert!(seated || home, "9: {alias} is no worker's name for {id}");
        }
    }

    /// Of what is kept for a client.
    fn check_kept(&self, id: PeerId, peer: &Peer) {
        let ConnectionConfig { control, bulk, .. } = self.config.client;
        for (stream, config) in [(Stream::Control, control), (Stream::Bulk, bulk)] {
            let held = peer.connection.link(stream).held();
            let most = config.window.max(FIRST_CREDIT) + MAX_HEAD as u64;
            let is_bounded = config.transport == Transport::Reliable || held <= most;
            assert!(is_bounded, "15: {held} bytes of {id} are on their way");
        }
        let news = peer.owed[Stream::Control as usize].iter().filter(|owed| owed.weight == 0);
        let n_news = news.count() as u64;
        assert!(n_news <= MAX_NEWS / Message::LEAST + 1, "15: {id} has {n_news} news to take");
    }

    /// Of the members of a gang.
    fn check_gang(&self, id: SessionId, session: &Session, gang: &Gang) {
        let home = gang.seats.first().map(|seat| seat.worker);
        assert_eq!(session.home, home, "9: the home of {id} is not its first member");
        for seat in &gang.seats {
            let alias = seat.session;
            let known = alias == id || self.seats.get(&alias) == Some(&id);
            assert!(known, "9: {alias} is not known as {id}");
            let worker = self.workers.get(&seat.worker);
            let ready = worker.is_some_and(|w| w.capacity.is_some() && w.sessions.contains(&id));
            assert!(ready, "9: {} is a member of {id} and cannot work for it", seat.worker);
        }
        let is_spread = !gang.seats.is_empty();
        assert!(is_spread || session.parked.is_none(), "13: {id} has a segment without members");
        // A gang knows nothing of segments that wait.
        let none_waits = session.waiting.is_empty() && session.parked.is_none();
        let few = session.n_live() <= COUNTED && none_waits;
        gang.check(id, few.then(|| session.live().map(|(value, _)| value)));
    }

    fn check_session(&self, id: SessionId, session: &Session, config: &Config) {
        if let Some(home) = session.home {
            let known = session.name == id || self.seats.get(&session.name) == Some(&id);
            assert!(known || session.gang.is_some(), "9: {} is not known as {id}", session.name);
            let worker = self.workers.get(&home);
            assert!(
                worker.is_some_and(|worker| worker.capacity.is_some()),
                "2: {id} lives on {home}, which cannot work"
            );
            assert!(
                worker.is_some_and(|worker| worker.sessions.contains(&id)),
                "2: {home} does not know {id}"
            );
            let first = session.waiting.front();
            let waits = |work: &Work| {
                work.is_segment() || work.is_new || matches!(work.order, Order::Fetch { .. })
            };
            assert!(
                session.parked.is_some() || first.is_none_or(waits),
                "3: {id} has a home and waits"
            );
        }
        assert!(
            session.waiting.is_empty()
                || session.home.is_some()
                || self.fitting(id).next().is_none(),
            "3: {id} waits while there is a worker for it"
        );
        self.check_flight(id, session);
        for work in &session.waiting {
            if let Some(request) = work.order.request() {
                assert!(
                    session.requests.get(request).is_some(),
                    "4: {id} has {request} waiting, which is not open"
                );
            }
        }
        assert!(
            session.requests.len() <= config.max_requests,
            "4: {id} has too many open questions"
        );
        if let Some(gang) = &session.gang {
            self.check_gang(id, session, gang);
        }
        let n_known = session.at_home.len();
        let most = if session.home.is_some() { MAX_TEMPLATES as usize } else { 0 };
        assert!(n_known <= most, "7: the home of {id} knows {n_known} templates");
        if session.broken.is_some() {
            let empty =
                session.home.is_none() && session.waiting.is_empty() && session.requests.is_empty();
            assert!(
                empty && session.uploads.is_empty() && session.live_bytes == 0,
                "8: {id} is broken and holds something"
            );
        }
        if session.n_live() <= COUNTED {
            assert_eq!(session.live_bytes, session.count_live(), "8: live bytes of {id}");
            for (value, ty) in session.lost.iter() {
                let known = session.ty(value) == ty && (ty.is_some() || session.uploads.has(value));
                assert!(known, "8: {id} has lost {value}, which it never had");
            }
            let lost = session.lost.iter().filter_map(|(_, ty)| ty);
            let lost: Vec<u128> = lost.map(|ty| ty.bytes() as u128).collect();
            assert_eq!(session.lost.n_live(), lost.len(), "8: lost values of {id}");
            assert_eq!(session.lost.bytes(), lost.iter().sum(), "8: lost bytes of {id}");
        }
    }

    fn check_flight(&self, id: SessionId, session: &Session) {
        let (n_sent, weight) = session.flight.sent();
        let n_waiting = session.waiting.iter().filter(|work| work.is_segment()).count();
        assert_eq!(session.flight.len(), n_sent + n_waiting, "14: {id} has lost a segment");
        if session.gang.is_none() && session.broken.is_none() {
            let n_left = session.n_segments - session.n_done;
            assert_eq!(session.flight.len() as u64, n_left, "14: {id} waits for a segment");
            let most = self.config.worker.control.window / 4;
            assert!(n_sent <= 1 || weight <= most, "14: {id} has more than its share");
        }
    }

    /// The weight of each party's messages that have not reached their receivers.
    fn out(&self, stream: Stream) -> BTreeMap<Party, u64> {
        let queued = self.peers.values().flat_map(|peer| &peer.owed[stream as usize]);
        let waiting = self.sessions.values().flat_map(|session| &session.waiting);
        let waiting = waiting.filter(|work| work.order.stream() == stream).map(|work| &work.owed);
        let gangs = self.sessions.values().filter_map(|session| session.gang.as_ref());
        let unpaid = gangs.filter(|_| stream == Stream::Control).flat_map(|gang| gang.unpaid());
        let parked = self.sessions.values().filter_map(|session| session.parked.as_ref());
        let parked = parked.filter(|_| stream == Stream::Control).map(|parked| &parked.work.owed);
        let asking = self.sessions.values().filter_map(|session| session.asking.as_ref());
        let held = asking.filter(|_| stream == Stream::Control).flat_map(|asking| &asking.held);
        let held = held.map(|(owed, _)| owed);
        let open = self.sessions.values().filter(|_| stream == Stream::Control);
        let open = open.flat_map(|session| session.requests.owed());
        let mut out = BTreeMap::new();
        for owed in queued.chain(waiting).chain(unpaid).chain(parked).chain(held).chain(open) {
            owed.to.into_iter().for_each(|to| *out.entry(to).or_default() += owed.weight);
        }
        out
    }
}
